//! In place of `plans` where the kernels are not compiled for the host: no plan is known.

use incarnate_bytecode::ir::nest::{Contraction, Nest};

/// The plan of a contraction is not known.
pub(super) fn constant_plan(_: &Nest, _: &[Option<u64>], _: &Contraction) -> Option<String> {
    None
}

/// Whether partial sums would pay is not known.
pub(super) fn would_reassociate(_: &Nest, _: &[Option<u64>], _: &Contraction) -> bool {
    false
}
