//! The bindings that a kernel only reads.

use super::{Function, Op, Value};
use crate::index_map::IndexMap;

/// Returns a bit set of the bindings whose elements a kernel reads and does not write; `list` is the index of the argument that holds
/// all bindings. Operations that the analysis does not know count as writes: calls, changes of lists, references passed to blocks.
#[must_use]
pub fn read_only_bindings(body: &Function, list: usize) -> u64 {
    body.arguments().get(list).map_or(0, |list| of_list(body, *list))
}

fn of_list(body: &Function, list: Value) -> u64 {
    let mut bindings: IndexMap<Value, u64> = IndexMap::default();
    for inst in body.blocks.iter().flat_map(|block| &block.instructions) {
        let Op::ListGetRef { list: from, index, take: false, .. } = &inst.op else { continue };
        let ordinal = body.constant_bits(*index).filter(|ordinal| *from == list && *ordinal < 64);
        if let (Some(ordinal), Some(result)) = (ordinal, inst.results.first()) {
            bindings.insert(*result, 1u64 << ordinal);
        }
    }
    let mut written = 0;
    // A use of a value other than reading its elements.
    let mut mark_written = |value: Value| match bindings.get(value) {
        Some(binding) => written |= binding,
        None if value == list => written = u64::MAX,
        None => {}
    };
    for block in &body.blocks {
        for inst in &block.instructions {
            match &inst.op {
                Op::ListGetRef { list: from, .. } if inst.results.first().is_some_and(|v| bindings.contains(*v)) => {
                    debug_assert_eq!(*from, list);
                }
                Op::BufferLoad { .. }
                | Op::BufferLength { .. }
                | Op::BufferCompare { .. }
                | Op::BufferHash { .. }
                | Op::BufferClone { .. }
                | Op::ListSize { .. }
                | Op::CheckRef { .. }
                | Op::CompareRef { .. }
                | Op::IsNonNull { .. }
                | Op::Drop { .. } => {}
                Op::BufferCopy { target, .. } => mark_written(*target),
                op => op.visit(|operand| mark_written(operand.value())),
            }
        }
        block.terminator.visit(|operand| mark_written(operand.value()));
        block.terminator.visit_edges(|edge| edge.arguments.iter().for_each(|operand| mark_written(operand.value)));
    }
    bindings.values().iter().fold(0, |all, binding| all | binding) & !written
}
