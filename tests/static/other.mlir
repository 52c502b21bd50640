// A model with one kernel.
module @other {
  func.func @square(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.mulf %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
