// Two devices, between which tensors go to and fro.
#a = #hal.device.promise<@device_a>
#b = #hal.device.promise<@device_b>
module @two_devices {
  // One device computes what the other one goes on with, three times.
  func.func @relay(%x: tensor<64xf32> {iree.abi.affinity = #a}) -> (tensor<64xf32> {iree.abi.affinity = #b}) {
    %three = arith.constant dense<3.0> : tensor<64xf32>
    %0 = arith.mulf %x, %three : tensor<64xf32>
    %1 = flow.tensor.transfer %0 : tensor<64xf32> to #b
    %2 = arith.addf %1, %three : tensor<64xf32>
    %3 = flow.tensor.transfer %2 : tensor<64xf32> to #a
    %4 = arith.mulf %3, %x : tensor<64xf32>
    %5 = flow.tensor.transfer %4 : tensor<64xf32> to #b
    %6 = arith.subf %5, %1 : tensor<64xf32>
    return %6 : tensor<64xf32>
  }

  // Each computes a half, and keeps it until the next call.
  util.global private mutable @kept_a {stream.affinity = #a} = dense<1.0> : tensor<64xf32>
  util.global private mutable @kept_b {stream.affinity = #b} = dense<2.0> : tensor<64xf32>
  func.func @halves(%x: tensor<64xf32> {iree.abi.affinity = #a}, %y: tensor<64xf32> {iree.abi.affinity = #b})
      -> (tensor<64xf32> {iree.abi.affinity = #a}, tensor<64xf32> {iree.abi.affinity = #b}) {
    %kept_a = util.global.load @kept_a : tensor<64xf32>
    %kept_b = util.global.load @kept_b : tensor<64xf32>
    %0 = arith.addf %kept_a, %x : tensor<64xf32>
    %1 = arith.mulf %kept_b, %y : tensor<64xf32>
    util.global.store %0, @kept_a : tensor<64xf32>
    util.global.store %1, @kept_b : tensor<64xf32>
    %there = flow.tensor.transfer %0 : tensor<64xf32> to #b
    %here = flow.tensor.transfer %1 : tensor<64xf32> to #a
    %2 = arith.subf %0, %here : tensor<64xf32>
    %3 = arith.addf %1, %there : tensor<64xf32>
    return %2, %3 : tensor<64xf32>, tensor<64xf32>
  }
}
