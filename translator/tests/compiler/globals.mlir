// Values that are stored in several globals: a change of one must not change the others.

util.global private mutable @first_a = dense<0.0> : tensor<64x4xf32>
util.global private mutable @first_b = dense<0.0> : tensor<64x4xf32>
util.global private mutable @unset_a = #util.uninitialized : tensor<64x4xf32>
util.global private mutable @unset_b = #util.uninitialized : tensor<64x4xf32>
util.global private mutable @reset_a = dense<1.0> : tensor<64x4xf32>
util.global private mutable @reset_b = dense<2.0> : tensor<64x4xf32>
util.global private mutable @same_a = dense<1.0> : tensor<64x4xf32>
util.global private mutable @same_b = dense<2.0> : tensor<64x4xf32>
util.global private mutable @other_a = dense<1.0> : tensor<64x4xf32>
util.global private mutable @other_b = dense<2.0> : tensor<64x4xf32>

util.func private @step_first(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @first_a : tensor<64x4xf32>
  %b = util.global.load @first_b : tensor<64x4xf32>
  %new_a = tensor.insert_slice %x into %a[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  %new_b = tensor.insert_slice %y into %b[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  util.global.store %new_a, @first_a : tensor<64x4xf32>
  util.global.store %new_b, @first_b : tensor<64x4xf32>
  util.return
}

util.func private @product_first() -> tensor<1x4xf32> attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @first_a : tensor<64x4xf32>
  %b = util.global.load @first_b : tensor<64x4xf32>
  %row_a = tensor.extract_slice %a[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %row_b = tensor.extract_slice %b[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %product = arith.mulf %row_a, %row_b : tensor<1x4xf32>
  util.return %product : tensor<1x4xf32>
}

func.func @first() {
  %x = util.unfoldable_constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %y = arith.addf %x, %x : tensor<1x4xf32>
  util.call @step_first(%x, %y) : (tensor<1x4xf32>, tensor<1x4xf32>) -> ()
  %product = util.call @product_first() : () -> tensor<1x4xf32>
  check.expect_eq_const(%product, dense<[[2.0, 8.0, 18.0, 32.0]]> : tensor<1x4xf32>) : tensor<1x4xf32>
  return
}

util.func private @step_unset(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @unset_a : tensor<64x4xf32>
  %b = util.global.load @unset_b : tensor<64x4xf32>
  %new_a = tensor.insert_slice %x into %a[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  %new_b = tensor.insert_slice %y into %b[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  util.global.store %new_a, @unset_a : tensor<64x4xf32>
  util.global.store %new_b, @unset_b : tensor<64x4xf32>
  util.return
}

util.func private @product_unset() -> tensor<1x4xf32> attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @unset_a : tensor<64x4xf32>
  %b = util.global.load @unset_b : tensor<64x4xf32>
  %row_a = tensor.extract_slice %a[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %row_b = tensor.extract_slice %b[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %product = arith.mulf %row_a, %row_b : tensor<1x4xf32>
  util.return %product : tensor<1x4xf32>
}

func.func @unset() {
  %x = util.unfoldable_constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %y = arith.addf %x, %x : tensor<1x4xf32>
  util.call @step_unset(%x, %y) : (tensor<1x4xf32>, tensor<1x4xf32>) -> ()
  %product = util.call @product_unset() : () -> tensor<1x4xf32>
  check.expect_eq_const(%product, dense<[[2.0, 8.0, 18.0, 32.0]]> : tensor<1x4xf32>) : tensor<1x4xf32>
  return
}

util.func private @prepare_reset() attributes {inlining.policy = #util.inline.never} {
  %zero = arith.constant dense<0.0> : tensor<64x4xf32>
  util.global.store %zero, @reset_a : tensor<64x4xf32>
  util.global.store %zero, @reset_b : tensor<64x4xf32>
  util.return
}

util.func private @step_reset(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @reset_a : tensor<64x4xf32>
  %b = util.global.load @reset_b : tensor<64x4xf32>
  %new_a = tensor.insert_slice %x into %a[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  %new_b = tensor.insert_slice %y into %b[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  util.global.store %new_a, @reset_a : tensor<64x4xf32>
  util.global.store %new_b, @reset_b : tensor<64x4xf32>
  util.return
}

util.func private @product_reset() -> tensor<1x4xf32> attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @reset_a : tensor<64x4xf32>
  %b = util.global.load @reset_b : tensor<64x4xf32>
  %row_a = tensor.extract_slice %a[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %row_b = tensor.extract_slice %b[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %product = arith.mulf %row_a, %row_b : tensor<1x4xf32>
  util.return %product : tensor<1x4xf32>
}

func.func @reset() {
  util.call @prepare_reset() : () -> ()
  %x = util.unfoldable_constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %y = arith.addf %x, %x : tensor<1x4xf32>
  util.call @step_reset(%x, %y) : (tensor<1x4xf32>, tensor<1x4xf32>) -> ()
  %product = util.call @product_reset() : () -> tensor<1x4xf32>
  check.expect_eq_const(%product, dense<[[2.0, 8.0, 18.0, 32.0]]> : tensor<1x4xf32>) : tensor<1x4xf32>
  return
}

util.func private @prepare_same() attributes {inlining.policy = #util.inline.never} {
  %ones = util.unfoldable_constant dense<1.0> : tensor<64x4xf32>
  %value = arith.addf %ones, %ones : tensor<64x4xf32>
  util.global.store %value, @same_a : tensor<64x4xf32>
  util.global.store %value, @same_b : tensor<64x4xf32>
  util.return
}

util.func private @step_same(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @same_a : tensor<64x4xf32>
  %b = util.global.load @same_b : tensor<64x4xf32>
  %new_a = tensor.insert_slice %x into %a[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  %new_b = tensor.insert_slice %y into %b[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  util.global.store %new_a, @same_a : tensor<64x4xf32>
  util.global.store %new_b, @same_b : tensor<64x4xf32>
  util.return
}

util.func private @product_same() -> tensor<1x4xf32> attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @same_a : tensor<64x4xf32>
  %b = util.global.load @same_b : tensor<64x4xf32>
  %row_a = tensor.extract_slice %a[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %row_b = tensor.extract_slice %b[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %product = arith.mulf %row_a, %row_b : tensor<1x4xf32>
  util.return %product : tensor<1x4xf32>
}

func.func @same() {
  util.call @prepare_same() : () -> ()
  %x = util.unfoldable_constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %y = arith.addf %x, %x : tensor<1x4xf32>
  util.call @step_same(%x, %y) : (tensor<1x4xf32>, tensor<1x4xf32>) -> ()
  %product = util.call @product_same() : () -> tensor<1x4xf32>
  check.expect_eq_const(%product, dense<[[2.0, 8.0, 18.0, 32.0]]> : tensor<1x4xf32>) : tensor<1x4xf32>
  return
}

util.func private @prepare_other() attributes {inlining.policy = #util.inline.never} {
  %loaded = util.global.load @other_a : tensor<64x4xf32>
  util.global.store %loaded, @other_b : tensor<64x4xf32>
  util.return
}

util.func private @step_other(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @other_a : tensor<64x4xf32>
  %b = util.global.load @other_b : tensor<64x4xf32>
  %new_a = tensor.insert_slice %x into %a[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  %new_b = tensor.insert_slice %y into %b[5, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
  util.global.store %new_a, @other_a : tensor<64x4xf32>
  util.global.store %new_b, @other_b : tensor<64x4xf32>
  util.return
}

util.func private @product_other() -> tensor<1x4xf32> attributes {inlining.policy = #util.inline.never} {
  %a = util.global.load @other_a : tensor<64x4xf32>
  %b = util.global.load @other_b : tensor<64x4xf32>
  %row_a = tensor.extract_slice %a[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %row_b = tensor.extract_slice %b[5, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
  %product = arith.mulf %row_a, %row_b : tensor<1x4xf32>
  util.return %product : tensor<1x4xf32>
}

func.func @other() {
  util.call @prepare_other() : () -> ()
  %x = util.unfoldable_constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %y = arith.addf %x, %x : tensor<1x4xf32>
  util.call @step_other(%x, %y) : (tensor<1x4xf32>, tensor<1x4xf32>) -> ()
  %product = util.call @product_other() : () -> tensor<1x4xf32>
  check.expect_eq_const(%product, dense<[[2.0, 8.0, 18.0, 32.0]]> : tensor<1x4xf32>) : tensor<1x4xf32>
  return
}
