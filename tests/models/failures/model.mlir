// Calls that must end with a status: each names another one, and none may take the program down.
vm.module @failures {
  vm.rodata private @data dense<[1, 2, 3, 4]> : tensor<4xi8>

  // Fails with the code that it is given; zero is success.
  vm.export @fail
  vm.func @fail(%code: i32) {
    vm.cond_fail %code, "as told"
    vm.return
  }

  vm.export @load
  vm.func @load(%at: i64) -> i32 {
    %data = vm.const.ref.rodata @data : !vm.buffer
    %byte = vm.buffer.load.i8.u %data[%at] : !vm.buffer -> i32
    vm.return %byte : i32
  }

  vm.export @store_to_constant
  vm.func @store_to_constant(%at: i64) {
    %data = vm.const.ref.rodata @data : !vm.buffer
    %zero = vm.const.i32.zero
    vm.buffer.store.i8 %zero, %data[%at] : i32 -> !vm.buffer
    vm.return
  }

  vm.export @load_null
  vm.func @load_null(%at: i64) -> i32 {
    %data = vm.const.ref.zero : !vm.buffer
    %byte = vm.buffer.load.i8.u %data[%at] : !vm.buffer -> i32
    vm.return %byte : i32
  }

  vm.export @list_element
  vm.func @list_element(%size: i32, %at: i32) -> i32 {
    %list = vm.list.alloc %size : (i32) -> !vm.list<i32>
    vm.list.resize %list, %size : (!vm.list<i32>, i32)
    %seven = vm.const.i32 7
    vm.list.set.i32 %list, %at, %seven : (!vm.list<i32>, i32, i32)
    %element = vm.list.get.i32 %list, %at : (!vm.list<i32>, i32) -> i32
    vm.return %element : i32
  }
}
