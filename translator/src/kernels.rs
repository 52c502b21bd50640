//! The signature of kernels, which VMVX executables export.

use incarnate_bytecode::ir::{KernelArguments, Type};

/// The names of a kernel's arguments: local memory, constants and bindings; then position, size and count of workgroups. A coarsened
/// kernel has one more.
pub(crate) const ARGUMENT_NAMES: [&str; 13] = [
    "local_memory",
    "constants",
    "bindings",
    "workgroup_x",
    "workgroup_y",
    "workgroup_z",
    "size_x",
    "size_y",
    "size_z",
    "count_x",
    "count_y",
    "count_z",
    "workgroups",
];
/// The number of a kernel's arguments in the bytecode.
pub(crate) const ARGUMENTS: usize = 12;
/// The number of references; they come first.
pub(crate) const REFERENCES: usize = 3;
/// The index of the list of bindings.
pub(crate) const BINDINGS: usize = 2;
/// What coarsening must know: kernels run several workgroups along x, which the numbers of workgroups count fastest.
pub(crate) const COARSENED_ALONG: KernelArguments = KernelArguments { constants: 1, bindings: BINDINGS, position: 3 };

/// Whether a signature is that of a kernel, coarsened or not.
pub(crate) fn is_kernel(arguments: &[Type], results: &[Type]) -> bool {
    let ty = |index: usize| match index {
        ..REFERENCES => Type::Ref,
        REFERENCES..ARGUMENTS => Type::i32,
        _ => Type::i64,
    };
    results.is_empty()
        && (ARGUMENTS..=ARGUMENT_NAMES.len()).contains(&arguments.len())
        && arguments.iter().enumerate().all(|(index, argument)| *argument == ty(index))
}
