// Shapes that are known only when the model is called.
func.func @scale_rows(%x: tensor<?x4xf32>, %scale: tensor<4xf32>) -> tensor<?x4xf32> {
  %zero = arith.constant 0 : index
  %rows = tensor.dim %x, %zero : tensor<?x4xf32>
  %empty = tensor.empty(%rows) : tensor<?x4xf32>
  %scaled = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %scale : tensor<?x4xf32>, tensor<4xf32>) outs(%empty : tensor<?x4xf32>) {
  ^bb0(%a: f32, %s: f32, %out: f32):
    %product = arith.mulf %a, %s : f32
    linalg.yield %product : f32
  } -> tensor<?x4xf32>
  return %scaled : tensor<?x4xf32>
}

func.func @matmul(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = tensor.dim %a, %zero : tensor<?x?xf32>
  %columns = tensor.dim %b, %one : tensor<?x?xf32>
  %nought = arith.constant 0.0 : f32
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %filled = linalg.fill ins(%nought : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %product = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>)
                           outs(%filled : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %product : tensor<?x?xf32>
}

// Each row divided by its greatest element.
func.func @normalise(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, index) {
  %zero = arith.constant 0 : index
  %rows = tensor.dim %x, %zero : tensor<?x4xf32>
  %least = arith.constant 0xFF800000 : f32
  %line = tensor.empty(%rows) : tensor<?xf32>
  %start = linalg.fill ins(%least : f32) outs(%line : tensor<?xf32>) -> tensor<?xf32>
  %most = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x : tensor<?x4xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %max = arith.maximumf %a, %out : f32
    linalg.yield %max : f32
  } -> tensor<?xf32>
  %empty = tensor.empty(%rows) : tensor<?x4xf32>
  %quotients = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %most : tensor<?x4xf32>, tensor<?xf32>) outs(%empty : tensor<?x4xf32>) {
  ^bb0(%a: f32, %m: f32, %out: f32):
    %quotient = arith.divf %a, %m : f32
    linalg.yield %quotient : f32
  } -> tensor<?x4xf32>
  return %quotients, %rows : tensor<?x4xf32>, index
}
