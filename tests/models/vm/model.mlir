// What the virtual machine is measured with: an empty call, calls inside the module and across modules, loops of
// arithmetic with and without branches that depend on data, sums over a buffer with one and with eight loads per iteration, and a
// buffer that is rewritten in place. `native_import_module.add_1` is the measuring program's own function, or that of
// ../native_import_module.
vm.module @vm_benchmark {
  vm.import private @native_import_module.add_1(%x : i32) -> i32

  vm.export @empty
  vm.func @empty() {
    vm.return
  }

  vm.func private @identity(%x: i32) -> i32 attributes {inlining_policy = #util.inline.never} {
    vm.return %x : i32
  }

  // Twenty calls.
  vm.export @call_internal
  vm.func @call_internal(%x: i32) -> i32 {
    %1 = vm.call @identity(%x) : (i32) -> i32
    %2 = vm.call @identity(%1) : (i32) -> i32
    %3 = vm.call @identity(%2) : (i32) -> i32
    %4 = vm.call @identity(%3) : (i32) -> i32
    %5 = vm.call @identity(%4) : (i32) -> i32
    %6 = vm.call @identity(%5) : (i32) -> i32
    %7 = vm.call @identity(%6) : (i32) -> i32
    %8 = vm.call @identity(%7) : (i32) -> i32
    %9 = vm.call @identity(%8) : (i32) -> i32
    %10 = vm.call @identity(%9) : (i32) -> i32
    %11 = vm.call @identity(%10) : (i32) -> i32
    %12 = vm.call @identity(%11) : (i32) -> i32
    %13 = vm.call @identity(%12) : (i32) -> i32
    %14 = vm.call @identity(%13) : (i32) -> i32
    %15 = vm.call @identity(%14) : (i32) -> i32
    %16 = vm.call @identity(%15) : (i32) -> i32
    %17 = vm.call @identity(%16) : (i32) -> i32
    %18 = vm.call @identity(%17) : (i32) -> i32
    %19 = vm.call @identity(%18) : (i32) -> i32
    %20 = vm.call @identity(%19) : (i32) -> i32
    vm.return %20 : i32
  }

  // Twenty calls.
  vm.export @call_imported
  vm.func @call_imported(%x: i32) -> i32 {
    %1 = vm.call @native_import_module.add_1(%x) : (i32) -> i32
    %2 = vm.call @native_import_module.add_1(%1) : (i32) -> i32
    %3 = vm.call @native_import_module.add_1(%2) : (i32) -> i32
    %4 = vm.call @native_import_module.add_1(%3) : (i32) -> i32
    %5 = vm.call @native_import_module.add_1(%4) : (i32) -> i32
    %6 = vm.call @native_import_module.add_1(%5) : (i32) -> i32
    %7 = vm.call @native_import_module.add_1(%6) : (i32) -> i32
    %8 = vm.call @native_import_module.add_1(%7) : (i32) -> i32
    %9 = vm.call @native_import_module.add_1(%8) : (i32) -> i32
    %10 = vm.call @native_import_module.add_1(%9) : (i32) -> i32
    %11 = vm.call @native_import_module.add_1(%10) : (i32) -> i32
    %12 = vm.call @native_import_module.add_1(%11) : (i32) -> i32
    %13 = vm.call @native_import_module.add_1(%12) : (i32) -> i32
    %14 = vm.call @native_import_module.add_1(%13) : (i32) -> i32
    %15 = vm.call @native_import_module.add_1(%14) : (i32) -> i32
    %16 = vm.call @native_import_module.add_1(%15) : (i32) -> i32
    %17 = vm.call @native_import_module.add_1(%16) : (i32) -> i32
    %18 = vm.call @native_import_module.add_1(%17) : (i32) -> i32
    %19 = vm.call @native_import_module.add_1(%18) : (i32) -> i32
    %20 = vm.call @native_import_module.add_1(%19) : (i32) -> i32
    vm.return %20 : i32
  }

  vm.export @loop_sum
  vm.func @loop_sum(%count: i32) -> i32 {
    %zero = vm.const.i32.zero
    %one = vm.const.i32 1
    vm.br ^loop(%zero : i32)
  ^loop(%i: i32):
    %next = vm.add.i32 %i, %one : i32
    %more = vm.cmp.lt.i32.s %next, %count : i32
    vm.cond_br %more, ^loop(%next : i32), ^done(%next : i32)
  ^done(%result: i32):
    vm.return %result : i32
  }

  // Fills a buffer of `count` numbers with ones and adds them up.
  vm.export @buffer_reduce
  vm.func @buffer_reduce(%count: i32) -> i32 {
    %zero = vm.const.i32.zero
    %zero_w = vm.const.i64.zero
    %one = vm.const.i32 1
    %one_w = vm.const.i64 1
    %width = vm.const.i64 4
    %alignment = vm.const.i32 16
    %count_w = vm.ext.i32.i64.u %count : i32 -> i64
    %bytes = vm.mul.i64 %count_w, %width : i64
    %buffer = vm.buffer.alloc %bytes, %alignment : !vm.buffer
    vm.buffer.fill.i32 %buffer, %zero_w, %count_w, %one : i32 -> !vm.buffer
    vm.br ^loop(%zero_w, %zero : i64, i32)
  ^loop(%i: i64, %sum: i32):
    %element = vm.buffer.load.i32 %buffer[%i] : !vm.buffer -> i32
    %new_sum = vm.add.i32 %sum, %element : i32
    %next = vm.add.i64 %i, %one_w : i64
    %more = vm.cmp.lt.i64.s %next, %count_w : i64
    vm.cond_br %more, ^loop(%next, %new_sum : i64, i32), ^done(%new_sum : i32)
  ^done(%result: i32):
    vm.return %result : i32
  }

  // The same with eight loads per iteration; `count` is a multiple of eight.
  vm.export @buffer_reduce_unrolled
  vm.func @buffer_reduce_unrolled(%count: i32) -> i32 {
    %zero = vm.const.i32.zero
    %zero_w = vm.const.i64.zero
    %one = vm.const.i32 1
    %one_w = vm.const.i64 1
    %width = vm.const.i64 4
    %alignment = vm.const.i32 16
    %count_w = vm.ext.i32.i64.u %count : i32 -> i64
    %bytes = vm.mul.i64 %count_w, %width : i64
    %buffer = vm.buffer.alloc %bytes, %alignment : !vm.buffer
    vm.buffer.fill.i32 %buffer, %zero_w, %count_w, %one : i32 -> !vm.buffer
    vm.br ^loop(%zero_w, %zero : i64, i32)
  ^loop(%i: i64, %sum: i32):
    %e0 = vm.buffer.load.i32 %buffer[%i] : !vm.buffer -> i32
    %s0 = vm.add.i32 %sum, %e0 : i32
    %i1 = vm.add.i64 %i, %one_w : i64
    %e1 = vm.buffer.load.i32 %buffer[%i1] : !vm.buffer -> i32
    %s1 = vm.add.i32 %s0, %e1 : i32
    %i2 = vm.add.i64 %i1, %one_w : i64
    %e2 = vm.buffer.load.i32 %buffer[%i2] : !vm.buffer -> i32
    %s2 = vm.add.i32 %s1, %e2 : i32
    %i3 = vm.add.i64 %i2, %one_w : i64
    %e3 = vm.buffer.load.i32 %buffer[%i3] : !vm.buffer -> i32
    %s3 = vm.add.i32 %s2, %e3 : i32
    %i4 = vm.add.i64 %i3, %one_w : i64
    %e4 = vm.buffer.load.i32 %buffer[%i4] : !vm.buffer -> i32
    %s4 = vm.add.i32 %s3, %e4 : i32
    %i5 = vm.add.i64 %i4, %one_w : i64
    %e5 = vm.buffer.load.i32 %buffer[%i5] : !vm.buffer -> i32
    %s5 = vm.add.i32 %s4, %e5 : i32
    %i6 = vm.add.i64 %i5, %one_w : i64
    %e6 = vm.buffer.load.i32 %buffer[%i6] : !vm.buffer -> i32
    %s6 = vm.add.i32 %s5, %e6 : i32
    %i7 = vm.add.i64 %i6, %one_w : i64
    %e7 = vm.buffer.load.i32 %buffer[%i7] : !vm.buffer -> i32
    %s7 = vm.add.i32 %s6, %e7 : i32
    %i8 = vm.add.i64 %i7, %one_w : i64
    %more = vm.cmp.lt.i64.s %i8, %count_w : i64
    vm.cond_br %more, ^loop(%i8, %s7 : i64, i32), ^done(%s7 : i32)
  ^done(%result: i32):
    vm.return %result : i32
  }

  // A chain of `count` multiplications, additions and remainders, each of which waits for the one before.
  vm.export @multiply_add_modulo
  vm.func @multiply_add_modulo(%count: i32) -> i32 {
    %zero = vm.const.i32.zero
    %one = vm.const.i32 1
    %factor = vm.const.i32 1103
    %modulus = vm.const.i32 65521
    vm.br ^loop(%zero, %one : i32, i32)
  ^loop(%i: i32, %x: i32):
    %product = vm.mul.i32 %x, %factor : i32
    %sum = vm.add.i32 %product, %i : i32
    %rest = vm.rem.i32.u %sum, %modulus : i32
    %next = vm.add.i32 %i, %one : i32
    %more = vm.cmp.lt.i32.s %next, %count : i32
    vm.cond_br %more, ^loop(%next, %rest : i32, i32), ^done(%rest : i32)
  ^done(%result: i32):
    vm.return %result : i32
  }

  // Sums the steps that the numbers from 1 to `count` take to reach 1 by halving, or by 3n + 1 where odd.
  vm.export @collatz
  vm.func @collatz(%count: i32) -> i32 {
    %zero = vm.const.i32.zero
    %one = vm.const.i32 1
    %one_w = vm.const.i64 1
    %three_w = vm.const.i64 3
    vm.br ^numbers(%one, %zero : i32, i32)
  ^numbers(%number: i32, %total: i32):
    %start = vm.ext.i32.i64.u %number : i32 -> i64
    vm.br ^steps(%start, %total : i64, i32)
  ^steps(%n: i64, %steps: i32):
    %is_one = vm.cmp.eq.i64 %n, %one_w : i64
    vm.cond_br %is_one, ^reached(%steps : i32), ^step(%n, %steps : i64, i32)
  ^step(%m: i64, %taken: i32):
    %more_steps = vm.add.i32 %taken, %one : i32
    %low = vm.and.i64 %m, %one_w : i64
    %odd = vm.cmp.nz.i64 %low : i64
    vm.cond_br %odd, ^triple(%m, %more_steps : i64, i32), ^halve(%m, %more_steps : i64, i32)
  ^triple(%a: i64, %sa: i32):
    %tripled = vm.mul.i64 %a, %three_w : i64
    %grown = vm.add.i64 %tripled, %one_w : i64
    vm.br ^steps(%grown, %sa : i64, i32)
  ^halve(%b: i64, %sb: i32):
    %half = vm.shr.i64.u %b, %one : i64
    vm.br ^steps(%half, %sb : i64, i32)
  ^reached(%sum: i32):
    %next = vm.add.i32 %number, %one : i32
    %more = vm.cmp.lte.i32.s %next, %count : i32
    vm.cond_br %more, ^numbers(%next, %sum : i32, i32), ^done(%sum : i32)
  ^done(%result: i32):
    vm.return %result : i32
  }

  // Fills a buffer of `count` numbers with ones, rewrites each as 2 x + 0.5, and gives four times the last one.
  vm.export @fused_multiply_add
  vm.func @fused_multiply_add(%count: i32) -> i32 {
    %zero_w = vm.const.i64.zero
    %one_w = vm.const.i64 1
    %width = vm.const.i64 4
    %alignment = vm.const.i32 16
    %one_bits = vm.const.i32 1065353216
    %two = vm.const.f32 2.0
    %a_half = vm.const.f32 0.5
    %four = vm.const.f32 4.0
    %count_w = vm.ext.i32.i64.u %count : i32 -> i64
    %bytes = vm.mul.i64 %count_w, %width : i64
    %buffer = vm.buffer.alloc %bytes, %alignment : !vm.buffer
    vm.buffer.fill.i32 %buffer, %zero_w, %count_w, %one_bits : i32 -> !vm.buffer
    vm.br ^loop(%zero_w : i64)
  ^loop(%i: i64):
    %x = vm.buffer.load.f32 %buffer[%i] : !vm.buffer -> f32
    %y = vm.fma.f32 %x, %two, %a_half : f32
    vm.buffer.store.f32 %y, %buffer[%i] : f32 -> !vm.buffer
    %next = vm.add.i64 %i, %one_w : i64
    %more = vm.cmp.lt.i64.s %next, %count_w : i64
    vm.cond_br %more, ^loop(%next : i64), ^done
  ^done:
    %last = vm.sub.i64 %count_w, %one_w : i64
    %end = vm.buffer.load.f32 %buffer[%last] : !vm.buffer -> f32
    %scaled = vm.mul.f32 %end, %four : f32
    %result = vm.cast.f32.si32 %scaled : f32 -> i32
    vm.return %result : i32
  }
}
