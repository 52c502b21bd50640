// Counts the steps of the Collatz sequence down to 1: a loop whose end depends on the data. Once on the
// virtual machine alone, once with the state on the device and the condition read back in each iteration.
func.func @steps(%start: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %three = arith.constant 3 : i64
  %end:2 = scf.while (%n = %start, %count = %zero) : (i64, i64) -> (i64, i64) {
    %more = arith.cmpi sgt, %n, %one : i64
    scf.condition(%more) %n, %count : i64, i64
  } do {
  ^bb0(%n: i64, %count: i64):
    %bit = arith.andi %n, %one : i64
    %odd = arith.cmpi eq, %bit, %one : i64
    %next = scf.if %odd -> (i64) {
      %product = arith.muli %n, %three : i64
      %sum = arith.addi %product, %one : i64
      scf.yield %sum : i64
    } else {
      %half = arith.shrsi %n, %one : i64
      scf.yield %half : i64
    }
    %counted = arith.addi %count, %one : i64
    scf.yield %next, %counted : i64, i64
  }
  return %end#1 : i64
}

func.func @steps_on_device(%start: tensor<i32>) -> tensor<i32> {
  %zero = arith.constant dense<0> : tensor<i32>
  %one = arith.constant dense<1> : tensor<i32>
  %three = arith.constant dense<3> : tensor<i32>
  %end:2 = scf.while (%n = %start, %count = %zero) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>) {
    %greater = arith.cmpi sgt, %n, %one : tensor<i32>
    %more = tensor.extract %greater[] : tensor<i1>
    scf.condition(%more) %n, %count : tensor<i32>, tensor<i32>
  } do {
  ^bb0(%n: tensor<i32>, %count: tensor<i32>):
    %bit = arith.andi %n, %one : tensor<i32>
    %odd = arith.cmpi eq, %bit, %one : tensor<i32>
    %product = arith.muli %n, %three : tensor<i32>
    %sum = arith.addi %product, %one : tensor<i32>
    %half = arith.shrsi %n, %one : tensor<i32>
    %next = arith.select %odd, %sum, %half : tensor<i1>, tensor<i32>
    %counted = arith.addi %count, %one : tensor<i32>
    scf.yield %next, %counted : tensor<i32>, tensor<i32>
  }
  return %end#1 : tensor<i32>
}
