//! The signature of kernels, which VMVX executables export.

use incarnate_bytecode::ir::Type;

/// The names of a kernel's arguments: local memory, constants and bindings; then position, size and count of workgroups.
pub(crate) const ARGUMENT_NAMES: [&str; 12] = [
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
];
/// The number of references; they come first.
pub(crate) const REFERENCES: usize = 3;
/// The index of the list of bindings.
pub(crate) const BINDINGS: usize = 2;

/// Whether a signature is that of a kernel.
pub(crate) fn is_kernel(arguments: &[Type], results: &[Type]) -> bool {
    let ty = |index: usize| if index < REFERENCES { Type::Ref } else { Type::i32 };
    results.is_empty()
        && arguments.len() == ARGUMENT_NAMES.len()
        && arguments.iter().enumerate().all(|(index, argument)| *argument == ty(index))
}
