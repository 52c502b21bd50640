// A module with state: a tensor and a scalar that calls change, and a constant that an initialiser computes.
util.global private mutable @sum = dense<0.0> : tensor<4xf32>
util.global private mutable @calls = 0 : i32
util.global private @table : tensor<4xf32>
util.initializer {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %ramp = arith.constant dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf32>
  %table = arith.addf %half, %ramp : tensor<4xf32>
  util.global.store %table, @table : tensor<4xf32>
  util.return
}

func.func @accumulate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %count = util.global.load @calls : i32
  %one = arith.constant 1 : i32
  %counted = arith.addi %count, %one : i32
  util.global.store %counted, @calls : i32
  %sum = util.global.load @sum : tensor<4xf32>
  %table = util.global.load @table : tensor<4xf32>
  %weighted = arith.mulf %x, %table : tensor<4xf32>
  %new = arith.addf %sum, %weighted : tensor<4xf32>
  util.global.store %new, @sum : tensor<4xf32>
  return %new : tensor<4xf32>
}

func.func @count() -> i32 {
  %count = util.global.load @calls : i32
  return %count : i32
}

func.func @reset() {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %none = arith.constant 0 : i32
  util.global.store %zero, @sum : tensor<4xf32>
  util.global.store %none, @calls : i32
  return
}
