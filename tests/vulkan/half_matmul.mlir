// A product of matrices that the compiler maps to cooperative matrices for cards that have them.
func.func @half_matmul(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>) -> tensor<128x128xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<128x128xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x128xf32>) -> tensor<128x128xf32>
  %product = linalg.matmul ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%start : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %product : tensor<128x128xf32>
}
