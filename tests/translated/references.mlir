// Functions that take and return references other than tensors. references.vmfb is this file, compiled by iree-compile 3.13.0:
//
//   iree-compile --iree-hal-target-device=local --iree-hal-local-target-device-backends=vmvx references.mlir -o references.vmfb
module @references {
  func.func @echo_buffer(%buffer: !hal.buffer) -> !hal.buffer {
    return %buffer : !hal.buffer
  }
  func.func @echo_fence(%fence: !hal.fence) -> !hal.fence {
    return %fence : !hal.fence
  }
  func.func @scale(%buffer: !hal.buffer, %factor: tensor<4xf32>) -> tensor<4xf32> {
    %elements = hal.tensor.import %buffer : !hal.buffer -> tensor<4xf32>
    %product = arith.mulf %elements, %factor : tensor<4xf32>
    return %product : tensor<4xf32>
  }
  func.func @first(%list: !util.list<i32>) -> (i32, !util.list<i32>) {
    %zero = arith.constant 0 : index
    %element = util.list.get %list[%zero] : !util.list<i32>
    return %element, %list : i32, !util.list<i32>
  }
  func.func @size(%bytes: !util.buffer) -> (index, !util.buffer) {
    %size = util.buffer.size %bytes : !util.buffer
    return %size, %bytes : index, !util.buffer
  }
}
