// Five results of one call: three tensors of different shapes and types, and two scalars.
func.func @statistics(%x: tensor<6x5xf32>)
    -> (tensor<f32>, tensor<6xf32>, tensor<6xi32>, i32, tensor<6x5xf32>) {
  %nought = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i32
  %scalar = tensor.empty() : tensor<f32>
  %zero = linalg.fill ins(%nought : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>],
    iterator_types = ["reduction", "reduction"]
  } ins(%x : tensor<6x5xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%a: f32, %out: f32):
    %s = arith.addf %a, %out : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %line = tensor.empty() : tensor<6xf32>
  %line_i = tensor.empty() : tensor<6xi32>
  %least_line = linalg.fill ins(%least : f32) outs(%line : tensor<6xf32>) -> tensor<6xf32>
  %none_line = linalg.fill ins(%none : i32) outs(%line_i : tensor<6xi32>) -> tensor<6xi32>
  %most:2 = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x : tensor<6x5xf32>) outs(%least_line, %none_line : tensor<6xf32>, tensor<6xi32>) {
  ^bb0(%a: f32, %max: f32, %at: i32):
    %j = linalg.index 1 : index
    %here = arith.index_cast %j : index to i32
    %greater = arith.cmpf ogt, %a, %max : f32
    %new_max = arith.select %greater, %a, %max : f32
    %new_at = arith.select %greater, %here, %at : i32
    linalg.yield %new_max, %new_at : f32, i32
  } -> (tensor<6xf32>, tensor<6xi32>)
  %count = arith.constant 30 : i32
  %negated = arith.negf %x : tensor<6x5xf32>
  return %sum, %most#0, %most#1, %count, %negated
    : tensor<f32>, tensor<6xf32>, tensor<6xi32>, i32, tensor<6x5xf32>
}

// No result, no argument: a call may have neither.
func.func @nothing() {
  return
}

// An argument that comes back as it is, twice.
func.func @echo(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  return %x, %x : tensor<3xf32>, tensor<3xf32>
}
