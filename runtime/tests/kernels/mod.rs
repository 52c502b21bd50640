//! Runs kernels of loaded executables, for tests.
#![allow(unreachable_pub, reason = "tests")]
#![allow(unsafe_code, reason = "calls of kernels")]

use std::marker::PhantomData;

use incarnate_runtime::Result;
use incarnate_runtime::hal::local::{BindingPointer, DispatchArguments, LocalExecutable, Worker};
use incarnate_runtime::vm::Fuel;

/// Memory with the alignment of device memory.
#[repr(C, align(64))]
pub struct Aligned<T>(pub T);

/// A binding of a buffer, which it borrows exclusively.
#[derive(Debug)]
pub struct Bound<'a> {
    pub pointer: BindingPointer,
    length: usize,
    buffer: PhantomData<&'a mut ()>,
}

/// Returns the binding of a buffer.
pub fn binding<T: Copy>(buffer: &mut Aligned<T>) -> Bound<'_> {
    Bound { pointer: BindingPointer((&raw mut buffer.0).cast()), length: size_of::<T>(), buffer: PhantomData }
}

/// Runs workgroups of the first kernel.
pub fn dispatch(
    executable: &dyn LocalExecutable,
    workgroup_count: u32,
    workgroups: std::ops::Range<u64>,
    constants: &[u32],
    bindings: &[Bound<'_>],
) -> Result<()> {
    let (pointers, lengths): (Vec<_>, Vec<_>) = bindings.iter().map(|bound| (bound.pointer, bound.length)).unzip();
    let arguments = DispatchArguments {
        workgroup_count: [workgroup_count, 1, 1],
        workgroup_size: [1, 1, 1],
        constants,
        binding_pointers: &pointers,
        binding_lengths: &lengths,
        read_only_bindings: 0,
        binding_constants: &[],
        max_concurrency: 1,
    };
    let mut worker = Worker { processor_id: 0, local_memory: &mut [], fuel: &mut Fuel::default() };
    // SAFETY: each address and length are those of a buffer that its `Bound` borrows exclusively.
    unsafe { executable.dispatch(0, &arguments, workgroups, &mut worker) }
}
