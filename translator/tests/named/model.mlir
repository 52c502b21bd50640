// Names of inputs and outputs: those that JAX writes, and a declaration of the model's own. model.vmfb is this file, compiled with
// iree-compile 3.13.0:
//
//   incarnate compile model.mlir -o model.vmfb --target=portable
module @named {
  func.func public @classify(%arg0: tensor<4xf32> loc("batch['features']"), %arg1: tensor<i32> loc("state.steps")) -> (tensor<4xf32> {jax.result_info = "result['a.b']"}, tensor<4xf32> {jax.result_info = "result['a_b']"}, tensor<i32> {jax.result_info = "result['state'].steps"}) {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %double = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    %square = stablehlo.multiply %arg0, %arg0 : tensor<4xf32>
    %steps = stablehlo.add %arg1, %one : tensor<i32>
    return %double, %square, %steps : tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  func.func @scale(%arg0: tensor<4xf32>, %arg1: tensor<f32>) -> tensor<4xf32> attributes {
    iree.reflection = {
      iree.abi.declaration = "sync func @scale(%values: tensor<4xf32>, %factor: tensor<f32>) -> (%scaled: tensor<4xf32>)"
    }
  } {
    %factors = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %scaled = stablehlo.multiply %arg0, %factors : tensor<4xf32>
    return %scaled : tensor<4xf32>
  }
}
