// 64-bit values in calls, returns and branches of a module without imports.
vm.module @pairs {
  vm.export @outer
  vm.func @outer(%a: i32, %b: i64, %c: f64) -> (i64, i32) {
    %0:2 = vm.call @inner(%b, %a, %c) : (i64, i32, f64) -> (i64, i32)
    vm.return %0#0, %0#1 : i64, i32
  }
  vm.func private @inner(%b: i64, %a: i32, %c: f64) -> (i64, i32) attributes {inlining_policy = #util.inline.never} {
    %zero = vm.const.i32 0
    %negative = vm.cmp.lt.i32.s %a, %zero : i32
    vm.cond_br %negative, ^end(%b : i64), ^add
  ^add:
    %d = vm.cast.f64.si64 %c : f64 -> i64
    %sum = vm.add.i64 %b, %d : i64
    vm.br ^end(%sum : i64)
  ^end(%result: i64):
    vm.return %result, %a : i64, i32
  }
}
