// Quantised matrix products: i8 x i8 -> i32, the same with zero points, and a requantised one that is i8 again.
func.func @matmul(%a: tensor<16x32xi8>, %b: tensor<32x24xi8>) -> tensor<16x24xi32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<16x24xi32>
  %filled = linalg.fill ins(%zero : i32) outs(%empty : tensor<16x24xi32>) -> tensor<16x24xi32>
  %sum = linalg.matmul ins(%a, %b : tensor<16x32xi8>, tensor<32x24xi8>)
                       outs(%filled : tensor<16x24xi32>) -> tensor<16x24xi32>
  return %sum : tensor<16x24xi32>
}

func.func @quantized_matmul(%a: tensor<16x32xi8>, %b: tensor<32x24xi8>, %a_zero: i32, %b_zero: i32)
    -> tensor<16x24xi32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<16x24xi32>
  %filled = linalg.fill ins(%zero : i32) outs(%empty : tensor<16x24xi32>) -> tensor<16x24xi32>
  %sum = linalg.quantized_matmul ins(%a, %b, %a_zero, %b_zero : tensor<16x32xi8>, tensor<32x24xi8>, i32, i32)
                                 outs(%filled : tensor<16x24xi32>) -> tensor<16x24xi32>
  return %sum : tensor<16x24xi32>
}

func.func @requantized_matmul(%a: tensor<16x32xi8>, %b: tensor<32x24xi8>, %scale: tensor<24xf32>)
    -> tensor<16x24xi8> {
  %sum = func.call @matmul(%a, %b) : (tensor<16x32xi8>, tensor<32x24xi8>) -> tensor<16x24xi32>
  %empty = tensor.empty() : tensor<16x24xi8>
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %narrow = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%sum, %scale : tensor<16x24xi32>, tensor<24xf32>) outs(%empty : tensor<16x24xi8>) {
  ^bb0(%s: i32, %k: f32, %out: i8):
    %wide = arith.sitofp %s : i32 to f32
    %scaled = arith.mulf %wide, %k : f32
    %even = math.roundeven %scaled : f32
    %above = arith.maximumf %even, %low : f32
    %within = arith.minimumf %above, %high : f32
    %byte = arith.fptosi %within : f32 to i8
    linalg.yield %byte : i8
  } -> tensor<16x24xi8>
  return %narrow : tensor<16x24xi8>
}
