//! Runs kernels of loaded executables, for tests.
#![allow(unreachable_pub, reason = "tests")]

use incarnate_runtime::Result;
use incarnate_runtime::hal::local::{BindingPointer, DispatchArguments, LocalExecutable, Worker};

/// Memory with the alignment of device memory.
#[repr(C, align(64))]
pub struct Aligned<T>(pub T);

/// Returns the binding of a buffer.
pub fn binding<T>(buffer: &mut Aligned<T>) -> (BindingPointer, usize) {
    (BindingPointer((&raw mut buffer.0).cast()), size_of::<T>())
}

/// Runs workgroups of the first kernel.
pub fn dispatch(
    executable: &dyn LocalExecutable,
    workgroup_count: u32,
    workgroups: std::ops::Range<u64>,
    constants: &[u32],
    bindings: &[(BindingPointer, usize)],
) -> Result<()> {
    let (pointers, lengths): (Vec<_>, Vec<_>) = bindings.iter().copied().unzip();
    let arguments = DispatchArguments {
        workgroup_count: [workgroup_count, 1, 1],
        workgroup_size: [1, 1, 1],
        constants,
        binding_pointers: &pointers,
        binding_lengths: &lengths,
        read_only_bindings: 0,
        max_concurrency: 1,
    };
    executable.dispatch(0, &arguments, workgroups, &mut Worker { processor_id: 0, local_memory: &mut [] })
}
