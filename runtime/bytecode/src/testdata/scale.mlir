// A tensor function with a dispatch, an initialiser, constants behind the FlatBuffer and a debug database.
func.func @scale(%input: tensor<8xf32>) -> tensor<8xf32> {
  %factors = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %result = arith.mulf %input, %factors : tensor<8xf32>
  return %result : tensor<8xf32>
}
