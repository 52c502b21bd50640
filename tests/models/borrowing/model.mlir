// What programs do with their arguments: read them, give them back, keep them, fail while they are in use, and write to them,
// which the compiler lets some operations do in place.
util.global private mutable @memory = dense<0.0> : tensor<64x128xf32>

func.func @scale(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %two = arith.constant dense<2.0> : tensor<64x128xf32>
  %0 = arith.mulf %x, %two : tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}

func.func @add(%x: tensor<64x128xf32>, %y: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %0 = arith.addf %x, %y : tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}

func.func @same(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  return %x : tensor<64x128xf32>
}

func.func @keep(%x: tensor<64x128xf32>) {
  util.global.store %x, @memory : tensor<64x128xf32>
  return
}

func.func @kept() -> tensor<64x128xf32> {
  %0 = util.global.load @memory : tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}

func.func @row(%x: tensor<64x128xf32>, %at: index) -> tensor<128xf32> {
  %0 = tensor.extract_slice %x[%at, 0] [1, 128] [1, 1] : tensor<64x128xf32> to tensor<128xf32>
  return %0 : tensor<128xf32>
}

func.func @replace(%x: tensor<64x128xf32>, %row: tensor<1x128xf32>, %at: index) -> tensor<64x128xf32> {
  %0 = tensor.insert_slice %row into %x[%at, 0] [1, 128] [1, 1] : tensor<1x128xf32> into tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}

func.func @sort(%x: tensor<64x128xi32>) -> tensor<64x128xi32> {
  %0 = iree_linalg_ext.sort dimension(1) outs(%x : tensor<64x128xi32>) {
  ^bb0(%one: i32, %other: i32):
    %less = arith.cmpi slt, %one, %other : i32
    iree_linalg_ext.yield %less : i1
  } -> tensor<64x128xi32>
  return %0 : tensor<64x128xi32>
}

func.func @accumulate(%x: tensor<64x128xf32>, %left: tensor<64x8xf32>, %right: tensor<8x128xf32>) -> tensor<64x128xf32> {
  %0 = linalg.matmul ins(%left, %right : tensor<64x8xf32>, tensor<8x128xf32>) outs(%x : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}

func.func @check(%x: tensor<64x128xf32>, %rounds: i32) -> tensor<64x128xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<64x128xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<64x128xf32>) outs(%init : tensor<64x128xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %sum = scf.for %round = %c0 to %rounds step %c1 iter_args(%sum = %zero) -> (f32) : i32 {
      %next = arith.addf %sum, %in : f32
      scf.yield %next : f32
    }
    linalg.yield %sum : f32
  } -> tensor<64x128xf32>
  %limit = arith.constant 2000 : i32
  %small = arith.cmpi slt, %rounds, %limit : i32
  cf.assert %small, "too many rounds"
  return %0 : tensor<64x128xf32>
}
