// Conversions of floats to integers cut.

func.func @cut() {
  %x = util.unfoldable_constant dense<[1.75, -1.75, 2.5, -0.5]> : tensor<4xf32>
  %cut = arith.fptosi %x : tensor<4xf32> to tensor<4xi32>
  check.expect_eq_const(%cut, dense<[1, -1, 2, 0]> : tensor<4xi32>) : tensor<4xi32>
  return
}
