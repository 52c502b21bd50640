// Scalar arguments and results of every type that a calling convention has: no tensor, no device work.
func.func @echo(%a: i32, %b: i64, %c: f32, %d: f64, %e: index) -> (i32, i64, f32, f64, index) {
  return %a, %b, %c, %d, %e : i32, i64, f32, f64, index
}

func.func @integers_i32(%a: i32, %b: i32) -> (i32, i32, i32, i32, i32, i32, i32, i32) {
  %sum = arith.addi %a, %b : i32
  %product = arith.muli %a, %b : i32
  %quotient = arith.divsi %a, %b : i32
  %quotient_u = arith.divui %a, %b : i32
  %rest = arith.remsi %a, %b : i32
  %rest_u = arith.remui %a, %b : i32
  %xor = arith.xori %a, %b : i32
  %zeros = math.ctlz %a : i32
  return %sum, %product, %quotient, %quotient_u, %rest, %rest_u, %xor, %zeros
    : i32, i32, i32, i32, i32, i32, i32, i32
}

func.func @integers_i64(%a: i64, %b: i64) -> (i64, i64, i64, i64, i64, i64, i64, i64) {
  %difference = arith.subi %a, %b : i64
  %product = arith.muli %a, %b : i64
  %quotient = arith.divsi %a, %b : i64
  %quotient_u = arith.divui %a, %b : i64
  %rest = arith.remsi %a, %b : i64
  %least = arith.minsi %a, %b : i64
  %most = arith.maxui %a, %b : i64
  %and = arith.andi %a, %b : i64
  return %difference, %product, %quotient, %quotient_u, %rest, %least, %most, %and
    : i64, i64, i64, i64, i64, i64, i64, i64
}

func.func @shifts(%a: i32, %b: i64, %by: i32) -> (i32, i32, i32, i64, i64, i64) {
  %wide = arith.extui %by : i32 to i64
  %left = arith.shli %a, %by : i32
  %right = arith.shrsi %a, %by : i32
  %right_u = arith.shrui %a, %by : i32
  %left_w = arith.shli %b, %wide : i64
  %right_w = arith.shrsi %b, %wide : i64
  %right_wu = arith.shrui %b, %wide : i64
  return %left, %right, %right_u, %left_w, %right_w, %right_wu : i32, i32, i32, i64, i64, i64
}

func.func @floats_f32(%a: f32, %b: f32) -> (f32, f32, f32, f32, f32, f32) {
  %difference = arith.subf %a, %b : f32
  %product = arith.mulf %a, %b : f32
  %quotient = arith.divf %a, %b : f32
  %root = math.sqrt %a : f32
  %power = math.exp %b : f32
  %least = arith.minimumf %a, %b : f32
  return %difference, %product, %quotient, %root, %power, %least : f32, f32, f32, f32, f32, f32
}

func.func @floats_f64(%a: f64, %b: f64) -> (f64, f64, f64, f64, f64, f64) {
  %sum = arith.addf %a, %b : f64
  %product = arith.mulf %a, %b : f64
  %fused = math.fma %a, %b, %a : f64
  %log = math.log %a : f64
  %sine = math.sin %b : f64
  %floor = math.floor %b : f64
  return %sum, %product, %fused, %log, %sine, %floor : f64, f64, f64, f64, f64, f64
}

func.func @conversions(%a: i32, %b: i64, %c: f32, %d: f64) -> (i64, i64, i32, f32, f64, i32, f64, f64) {
  %signed = arith.extsi %a : i32 to i64
  %unsigned = arith.extui %a : i32 to i64
  %low = arith.trunci %b : i64 to i32
  %float = arith.sitofp %a : i32 to f32
  %double = arith.sitofp %b : i64 to f64
  %whole = arith.fptosi %c : f32 to i32
  %wide = arith.extf %c : f32 to f64
  %rounded = math.ceil %d : f64
  return %signed, %unsigned, %low, %float, %double, %whole, %wide, %rounded
    : i64, i64, i32, f32, f64, i32, f64, f64
}

func.func @compare(%a: i32, %b: i32, %x: f64, %y: f64) -> (i32, i32, i32, i32, i32, i32) {
  %less = arith.cmpi slt, %a, %b : i32
  %less_u = arith.cmpi ult, %a, %b : i32
  %equal = arith.cmpi eq, %a, %b : i32
  %below = arith.cmpf olt, %x, %y : f64
  %not_above = arith.cmpf ule, %x, %y : f64
  %unordered = arith.cmpf uno, %x, %y : f64
  %0 = arith.extui %less : i1 to i32
  %1 = arith.extui %less_u : i1 to i32
  %2 = arith.extui %equal : i1 to i32
  %3 = arith.extui %below : i1 to i32
  %4 = arith.extui %not_above : i1 to i32
  %5 = arith.extui %unordered : i1 to i32
  return %0, %1, %2, %3, %4, %5 : i32, i32, i32, i32, i32, i32
}

// A scalar that reaches a dispatch as a push constant, and one that comes back out of a tensor.
func.func @affine(%x: tensor<4xf32>, %scale: f32, %shift: i32) -> (tensor<4xf32>, f32) {
  %float = arith.sitofp %shift : i32 to f32
  %empty = tensor.empty() : tensor<4xf32>
  %sum = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]
  } ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %product = arith.mulf %a, %scale : f32
    %shifted = arith.addf %product, %float : f32
    linalg.yield %shifted : f32
  } -> tensor<4xf32>
  %last = arith.constant 3 : index
  %element = tensor.extract %sum[%last] : tensor<4xf32>
  return %sum, %element : tensor<4xf32>, f32
}
