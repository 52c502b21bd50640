// A network of two layers whose weights are parameters, a count that starts as one, and parts of parameters read into and
// written from a buffer.
module @parameters {
  util.global private @w0 = #flow.parameter.named<"model"::"layer0.weight"> : tensor<8x16xf32>
  util.global private @b0 = #flow.parameter.named<"model"::"layer0.bias"> : tensor<16xf32>
  util.global private @w1 = #flow.parameter.named<"model"::"layer1.weight"> : tensor<16x4xf32>
  util.global private @b1 = #flow.parameter.named<"model"::"layer1.bias"> : tensor<4xf32>
  util.global private mutable @calls = #flow.parameter.named<"state"::"calls"> : tensor<1xi32>
  func.func @predict(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
    %w0 = util.global.load @w0 : tensor<8x16xf32>
    %b0 = util.global.load @b0 : tensor<16xf32>
    %w1 = util.global.load @w1 : tensor<16x4xf32>
    %b1 = util.global.load @b1 : tensor<4xf32>
    %0 = stablehlo.dot %x, %w0 : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
    %1 = stablehlo.broadcast_in_dim %b0, dims = [1] : (tensor<16xf32>) -> tensor<2x16xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x16xf32>
    %z = stablehlo.constant dense<0.0> : tensor<2x16xf32>
    %3 = stablehlo.maximum %2, %z : tensor<2x16xf32>
    %4 = stablehlo.dot %3, %w1 : (tensor<2x16xf32>, tensor<16x4xf32>) -> tensor<2x4xf32>
    %5 = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %6 = stablehlo.add %4, %5 : tensor<2x4xf32>
    return %6 : tensor<2x4xf32>
  }
  func.func @count() -> tensor<1xi32> {
    %0 = util.global.load @calls : tensor<1xi32>
    %c = stablehlo.constant dense<1> : tensor<1xi32>
    %1 = stablehlo.add %0, %c : tensor<1xi32>
    util.global.store %1, @calls : tensor<1xi32>
    return %1 : tensor<1xi32>
  }
  // The first 16 bytes of `a`, then 16 bytes of `b` from byte 8 on.
  util.func public @gather() -> !hal.buffer_view {
    %c0 = arith.constant 0 : index
    %c0_i64 = arith.constant 0 : i64
    %c8_i64 = arith.constant 8 : i64
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %scope = util.buffer.constant : !util.buffer = "state"
    %k0 = util.buffer.constant : !util.buffer = "a"
    %k1 = util.buffer.constant : !util.buffer = "b"
    %buf = stream.async.splat %c0_i64 : i64 -> !stream.resource<*>{%c32}
    %r, %t = stream.async.parameter.gather {
      %scope::%k0[%c0_i64] -> %buf[%c0 to %c16 for %c16] : !stream.resource<*>{%c32},
      %scope::%k1[%c8_i64] -> %buf[%c16 to %c32 for %c16] : !stream.resource<*>{%c32}
    } : !stream.resource<*> => !stream.timepoint
    %done = stream.timepoint.await %t => %r : !stream.resource<*>{%c32}
    %ext = stream.async.transfer %done : !stream.resource<*>{%c32} -> !stream.resource<external>{%c32}
    %view = stream.tensor.export %ext : tensor<8xf32> in !stream.resource<external>{%c32} -> !hal.buffer_view
    util.return %view : !hal.buffer_view
  }
  // The other way round.
  util.func public @scatter(%view: !hal.buffer_view) {
    %c0 = arith.constant 0 : index
    %c0_i64 = arith.constant 0 : i64
    %c8_i64 = arith.constant 8 : i64
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %scope = util.buffer.constant : !util.buffer = "state"
    %k0 = util.buffer.constant : !util.buffer = "a"
    %k1 = util.buffer.constant : !util.buffer = "b"
    %in = stream.tensor.import %view : !hal.buffer_view -> tensor<8xf32> in !stream.resource<external>{%c32}
    %buf = stream.async.transfer %in : !stream.resource<external>{%c32} -> !stream.resource<*>{%c32}
    %r, %t = stream.async.parameter.scatter {
      %buf[%c0 to %c16 for %c16] : !stream.resource<*>{%c32} -> %scope::%k0[%c0_i64],
      %buf[%c16 to %c32 for %c16] : !stream.resource<*>{%c32} -> %scope::%k1[%c8_i64]
    } : !stream.resource<*> => !stream.timepoint
    %done = stream.timepoint.await sync %t => %r : !stream.resource<*>{%c32}
    %kept = util.optimization_barrier %done : !stream.resource<*>
    util.return
  }
}
