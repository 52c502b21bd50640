//! The plans of contractions, for remarks: the kernels themselves, which plan, are compiled for the host.

use incarnate_bytecode::ir::nest::{Contraction, Nest, Order, Product};
use incarnate_kernels::contraction::{FmaF32AnyOrder, Loop, Machine, Partial, Plan, Sums};

/// The loops of a contraction whose trip counts and strides are constants.
fn constant_loops(nest: &Nest, trip_counts: &[Option<u64>], contraction: &Contraction) -> Option<Vec<Loop>> {
    let stride = |view: usize, at: usize| nest.views[view].index.constant_stride(at);
    let constant_loop = |at: &usize| {
        Some(Loop {
            count: usize::try_from(trip_counts[*at]?).ok()?,
            output: stride(contraction.output, *at)?,
            left: match (&contraction.left, contraction.order) {
                (Some(left), _) => stride(left.view, *at)?,
                (None, Order::Any) => stride(contraction.right.view, *at)?,
                (None, Order::Bytecode) => 0,
            },
            right: stride(contraction.right.view, *at)?,
        })
    };
    contraction.loops.iter().map(constant_loop).collect()
}

/// The plan of a contraction whose trip counts and strides are constants.
pub(super) fn constant_plan(nest: &Nest, trip_counts: &[Option<u64>], contraction: &Contraction) -> Option<String> {
    let loops = constant_loops(nest, trip_counts, contraction)?;
    let is_any_order = contraction.operation == Product::MulAddI32 || contraction.order == Order::Any;
    if let Some(partial) = Partial::of(&loops).filter(|partial| is_any_order && partial.pays()) {
        return Some(partial.to_string());
    }
    let plan = Plan::of(&loops, &Machine::X86_64_V4);
    Some(plan.map_or_else(|| "no loop along which one operand stays, so no tiles".to_owned(), |plan| plan.to_string()))
}

/// Whether a contraction whose trip counts and strides are constants has partial sums if reductions may be in any order.
pub(super) fn would_reassociate(nest: &Nest, trip_counts: &[Option<u64>], contraction: &Contraction) -> bool {
    let loops = constant_loops(nest, trip_counts, contraction);
    contraction.order == Order::Any
        && contraction.operation != Product::MulAddI32
        && loops.is_some_and(|loops| Sums::of::<FmaF32AnyOrder>(&loops) == Sums::Partial)
}
