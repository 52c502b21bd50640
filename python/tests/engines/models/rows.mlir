// Rows of four numbers, each with a weight: three scores a row, and the greatest's index. A negative weight is an error, so that
// a row can fail. `rows` takes any number of rows, `eight_rows` takes eight, `row` one without a batch extent.

util.global private @matrix = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, -6.0], [7.0, -8.0, 9.0], [-0.5, 0.25, 1.0]]> : tensor<4x3xf32>

func.func private @check(%weights: tensor<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %initial = tensor.from_elements %zero : tensor<f32>
  %least = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]
  } ins(%weights : tensor<?xf32>) outs(%initial : tensor<f32>) {
  ^bb0(%a: f32, %out: f32):
    %min = arith.minimumf %a, %out : f32
    linalg.yield %min : f32
  } -> tensor<f32>
  %value = tensor.extract %least[] : tensor<f32>
  %holds = arith.cmpf oge, %value, %zero : f32
  cf.assert %holds, "a weight is negative"
  return
}

func.func private @compute(%x: tensor<?x4xf32>, %weight: tensor<?xf32>) -> (tensor<?x3xf32>, tensor<?xi32>) {
  func.call @check(%weight) : (tensor<?xf32>) -> ()
  %at_rows = arith.constant 0 : index
  %rows = tensor.dim %x, %at_rows : tensor<?x4xf32>
  %zero = arith.constant 0.0 : f32
  %matrix = util.global.load @matrix : tensor<4x3xf32>
  %empty = tensor.empty(%rows) : tensor<?x3xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x3xf32>) -> tensor<?x3xf32>
  %product = linalg.matmul ins(%x, %matrix : tensor<?x4xf32>, tensor<4x3xf32>)
                           outs(%filled : tensor<?x3xf32>) -> tensor<?x3xf32>
  %scores = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%product, %weight : tensor<?x3xf32>, tensor<?xf32>) outs(%empty : tensor<?x3xf32>) {
  ^bb0(%a: f32, %w: f32, %out: f32):
    %scaled = arith.mulf %a, %w : f32
    linalg.yield %scaled : f32
  } -> tensor<?x3xf32>
  %lowest = arith.constant 0xFF800000 : f32
  %first = arith.constant 0 : i32
  %line = tensor.empty(%rows) : tensor<?xf32>
  %line_of_i32 = tensor.empty(%rows) : tensor<?xi32>
  %greatest = linalg.fill ins(%lowest : f32) outs(%line : tensor<?xf32>) -> tensor<?xf32>
  %positions = linalg.fill ins(%first : i32) outs(%line_of_i32 : tensor<?xi32>) -> tensor<?xi32>
  %best:2 = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%scores : tensor<?x3xf32>) outs(%greatest, %positions : tensor<?xf32>, tensor<?xi32>) {
  ^bb0(%a: f32, %value: f32, %position: i32):
    %column = linalg.index 1 : index
    %column_of_i32 = arith.index_cast %column : index to i32
    %is_greater = arith.cmpf ogt, %a, %value : f32
    %new_value = arith.select %is_greater, %a, %value : f32
    %new_position = arith.select %is_greater, %column_of_i32, %position : i32
    linalg.yield %new_value, %new_position : f32, i32
  } -> (tensor<?xf32>, tensor<?xi32>)
  return %scores, %best#1 : tensor<?x3xf32>, tensor<?xi32>
}

func.func @rows(%x: tensor<?x4xf32> {iree.abi.name = "x"}, %weight: tensor<?xf32> {iree.abi.name = "weight"})
    -> (tensor<?x3xf32> {iree.abi.name = "scores"}, tensor<?xi32> {iree.abi.name = "best"}) {
  %results:2 = func.call @compute(%x, %weight) : (tensor<?x4xf32>, tensor<?xf32>) -> (tensor<?x3xf32>, tensor<?xi32>)
  return %results#0, %results#1 : tensor<?x3xf32>, tensor<?xi32>
}

func.func @eight_rows(%x: tensor<8x4xf32>, %weight: tensor<8xf32>) -> (tensor<8x3xf32>, tensor<8xi32>) {
  %rows_x = tensor.cast %x : tensor<8x4xf32> to tensor<?x4xf32>
  %rows_weight = tensor.cast %weight : tensor<8xf32> to tensor<?xf32>
  %results:2 = func.call @compute(%rows_x, %rows_weight)
      : (tensor<?x4xf32>, tensor<?xf32>) -> (tensor<?x3xf32>, tensor<?xi32>)
  %scores = tensor.cast %results#0 : tensor<?x3xf32> to tensor<8x3xf32>
  %best = tensor.cast %results#1 : tensor<?xi32> to tensor<8xi32>
  return %scores, %best : tensor<8x3xf32>, tensor<8xi32>
}

func.func @row(%x: tensor<4xf32>, %weight: tensor<f32>) -> (tensor<3xf32>, tensor<i32>) {
  %one_x = tensor.expand_shape %x [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  %one_weight = tensor.expand_shape %weight [] output_shape [1] : tensor<f32> into tensor<1xf32>
  %rows_x = tensor.cast %one_x : tensor<1x4xf32> to tensor<?x4xf32>
  %rows_weight = tensor.cast %one_weight : tensor<1xf32> to tensor<?xf32>
  %results:2 = func.call @compute(%rows_x, %rows_weight)
      : (tensor<?x4xf32>, tensor<?xf32>) -> (tensor<?x3xf32>, tensor<?xi32>)
  %scores = tensor.cast %results#0 : tensor<?x3xf32> to tensor<1x3xf32>
  %best = tensor.cast %results#1 : tensor<?xi32> to tensor<1xi32>
  %row_scores = tensor.collapse_shape %scores [[0, 1]] : tensor<1x3xf32> into tensor<3xf32>
  %row_best = tensor.collapse_shape %best [] : tensor<1xi32> into tensor<i32>
  return %row_scores, %row_best : tensor<3xf32>, tensor<i32>
}
