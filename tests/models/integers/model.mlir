// Tensors of every integer width, booleans among them, and what dispatches do with them.
func.func @select(%mask: tensor<9xi1>, %a: tensor<9xi16>, %b: tensor<9xi16>) -> (tensor<9xi16>, tensor<9xi1>) {
  %chosen = arith.select %mask, %a, %b : tensor<9xi1>, tensor<9xi16>
  %less = arith.cmpi slt, %a, %b : tensor<9xi16>
  return %chosen, %less : tensor<9xi16>, tensor<9xi1>
}

func.func @bits_i32(%a: tensor<7xi32>, %b: tensor<7xi32>) -> (tensor<7xi32>, tensor<7xi32>, tensor<7xi32>) {
  %ones = math.ctpop %a : tensor<7xi32>
  %zeros = math.ctlz %b : tensor<7xi32>
  %mixed = arith.xori %a, %b : tensor<7xi32>
  return %ones, %zeros, %mixed : tensor<7xi32>, tensor<7xi32>, tensor<7xi32>
}

func.func @wrap_i8(%a: tensor<6xi8>, %b: tensor<6xi8>) -> (tensor<6xi8>, tensor<6xi16>) {
  %sum = arith.addi %a, %b : tensor<6xi8>
  %wide_a = arith.extui %a : tensor<6xi8> to tensor<6xi16>
  %wide_b = arith.extui %b : tensor<6xi8> to tensor<6xi16>
  %wide = arith.addi %wide_a, %wide_b : tensor<6xi16>
  return %sum, %wide : tensor<6xi8>, tensor<6xi16>
}

func.func @product_i64(%a: tensor<4xi64>, %b: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>) {
  %product = arith.muli %a, %b : tensor<4xi64>
  %quotient = arith.divsi %a, %b : tensor<4xi64>
  return %product, %quotient : tensor<4xi64>, tensor<4xi64>
}
