// Numbers of 32 bits in a part of a larger tensor become bytes, by scales that differ between two functions whose kernels are equal
// otherwise. Rows of 31 elements are no multiple of any vector.
#whole = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

func.func @coarse(%input: tensor<4x32x32xi32>) -> tensor<4x31x31xi8> {
  %part = tensor.extract_slice %input[0, 0, 0] [4, 31, 31] [1, 1, 1] : tensor<4x32x32xi32> to tensor<4x31x31xi32>
  %scale = arith.constant 0.003 : f32
  %divisor = arith.constant 0.05 : f32
  %zero_point = arith.constant -3.0 : f32
  %least = arith.constant -128.0 : f32
  %greatest = arith.constant 127.0 : f32
  %empty = tensor.empty() : tensor<4x31x31xi8>
  %bytes = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%part : tensor<4x31x31xi32>) outs(%empty : tensor<4x31x31xi8>) {
  ^bb0(%number: i32, %unused: i8):
    %float = arith.sitofp %number : i32 to f32
    %scaled = arith.mulf %float, %scale : f32
    %divided = arith.divf %scaled, %divisor : f32
    %rounded = math.roundeven %divided : f32
    %shifted = arith.addf %rounded, %zero_point : f32
    %not_less = arith.maximumf %shifted, %least : f32
    %clamped = arith.minimumf %not_less, %greatest : f32
    %byte = arith.fptosi %clamped : f32 to i8
    linalg.yield %byte : i8
  } -> tensor<4x31x31xi8>
  return %bytes : tensor<4x31x31xi8>
}

func.func @fine(%input: tensor<4x32x32xi32>) -> tensor<4x31x31xi8> {
  %part = tensor.extract_slice %input[0, 0, 0] [4, 31, 31] [1, 1, 1] : tensor<4x32x32xi32> to tensor<4x31x31xi32>
  %scale = arith.constant 0.007 : f32
  %divisor = arith.constant 0.02 : f32
  %zero_point = arith.constant 5.0 : f32
  %least = arith.constant -128.0 : f32
  %greatest = arith.constant 127.0 : f32
  %empty = tensor.empty() : tensor<4x31x31xi8>
  %bytes = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%part : tensor<4x31x31xi32>) outs(%empty : tensor<4x31x31xi8>) {
  ^bb0(%number: i32, %unused: i8):
    %float = arith.sitofp %number : i32 to f32
    %scaled = arith.mulf %float, %scale : f32
    %divided = arith.divf %scaled, %divisor : f32
    %rounded = math.roundeven %divided : f32
    %shifted = arith.addf %rounded, %zero_point : f32
    %not_less = arith.maximumf %shifted, %least : f32
    %clamped = arith.minimumf %not_less, %greatest : f32
    %byte = arith.fptosi %clamped : f32 to i8
    linalg.yield %byte : i8
  } -> tensor<4x31x31xi8>
  return %bytes : tensor<4x31x31xi8>
}
