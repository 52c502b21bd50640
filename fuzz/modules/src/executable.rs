//! The executable that every module carries, and the signature of kernels.

use incarnate_runtime::bytecode::assemble;

/// The arguments of a kernel: local memory, constants, bindings, and the workgroup's ID, size and count.
pub const ARGUMENTS: &str = "%r0: !vm.ref<?>, %r1: !vm.ref<?>, %r2: !vm.ref<?>, %i0: i32, %i1: i32, %i2: i32, %i3: i32, \
    %i4: i32, %i5: i32, %i6: i32, %i7: i32, %i8: i32";

/// Returns an executable with one kernel, which stores its ID in its one binding.
#[must_use]
pub fn harmless() -> Vec<u8> {
    let text = format!(
        "vm.module @kernels version 0\nvm.type !vm.buffer\nvm.export @kernel\nvm.func @kernel({ARGUMENTS}) -> () {{\n  \
        //! attribute \"binding_count\" = \"1\"\n^bb0:\n  %i9 = vm.const.i32.zero\n  \
        %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer\n  %i10:11 = vm.const.i64.zero\n  \
        vm.buffer.store.i32 %i0, %r3, %i10:11\n  vm.return\n}}\n"
    );
    assemble(&text).unwrap_or_default()
}
