// What the module in ../vm imports, as a bytecode module: modules link to modules by name.
vm.module @native_import_module {
  vm.export @add_1
  vm.func @add_1(%x: i32) -> i32 {
    %one = vm.const.i32 1
    %sum = vm.add.i32 %x, %one : i32
    vm.return %sum : i32
  }
}
