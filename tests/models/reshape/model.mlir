// A program that asks for a device of its target, and has nothing to dispatch there.
module @reshape {
  func.func @reshape(%x: tensor<4xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}
