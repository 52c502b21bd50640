//! Buffers that live within a call.
//!
//! A program allocates a buffer at each step of a loop for what the step computes. Where only commands access it, and it is neither returned nor
//! stored nor passed to a function, the stack of the call keeps it after its last use, and the same allocation takes it again: it costs no
//! allocation of memory and of objects.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::imports::DirectImport;
use incarnate_bytecode::ir::{Function, Op, Value};

use super::imports::Imports;

/// The method that allocates such a buffer.
pub(super) const METHOD: &str = "queue_alloca_transient";

/// Returns the offsets of the calls that allocate such buffers.
pub(super) fn find(body: &Function, imports: &Imports) -> HashSet<u32> {
    let mut allocated = Vec::new();
    let mut escaped = HashSet::new();
    // From the parameters of blocks to what edges pass for them.
    let mut passed: HashMap<Value, Vec<Value>> = HashMap::new();
    for block in &body.blocks {
        for inst in &block.instructions {
            if let (Op::Call(call), Some(buffer)) = (&inst.op, inst.results.first())
                && imports.callee(call).is_some_and(|callee| callee.method == "queue_alloca")
            {
                allocated.push((inst.offset, *buffer));
            }
            if !keeps_nothing(&inst.op, imports) {
                inst.op.visit(|operand| {
                    escaped.insert(operand.value());
                });
            }
        }
        block.terminator.visit(|operand| {
            escaped.insert(operand.value());
        });
        block.terminator.visit_edges(|edge| {
            let parameters = &body.blocks[edge.target.index()].parameters;
            for (parameter, argument) in parameters.iter().zip(&edge.arguments) {
                passed.entry(*parameter).or_default().push(argument.value);
            }
        });
    }
    let mut found: Vec<Value> = escaped.iter().copied().collect();
    while let Some(value) = found.pop() {
        let from = passed.get(&value).into_iter().flatten().copied();
        found.extend(from.filter(|argument| escaped.insert(*argument)));
    }
    allocated.into_iter().filter(|(_, buffer)| !escaped.contains(buffer)).map(|(offset, _)| offset).collect()
}

/// Whether an instruction leaves no reference to its operands, but for commands and operations of queues.
fn keeps_nothing(op: &Op, imports: &Imports) -> bool {
    match op {
        Op::Drop { .. } => true,
        Op::Call(call) => imports.callee(call).is_some_and(|DirectImport { method, .. }| {
            method.starts_with("command_buffer_")
                || method.starts_with("queue_")
                || matches!(*method, "buffer_load" | "buffer_store" | "buffer_length" | "buffer_assert")
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::function::tests::{assembled, emitted};

    /// The source of a function that allocates a buffer, which is `%r4`.
    fn source(results: &str, end: &str) -> String {
        let text = format!(
            r#"vm.module @allocating version 0
vm.type !hal.device
vm.type !hal.fence
vm.type !hal.buffer
vm.import @hal.device.queue.alloca cconv "0rIrrIiiII_r"
vm.import @hal.device.queue.fill cconv "0rIrrrIIIiI_v"
vm.import @hal.buffer.load cconv "0rIi_i"
vm.import @hal.buffer.subspan cconv "0rII_r"
vm.export @f
vm.func @f(%r0: !vm.ref<?>, %r1: !vm.ref<?>, %r2: !vm.ref<?>) -> ({results}) {{
^bb0:
  %i0 = vm.const.i32 1
  %i2:3 = vm.const.i64 4
  %i6:7 = vm.const.i64.zero
  %r4 = vm.call @hal.device.queue.alloca(%r0, %i6:7, %r1, %r2, %i6:7, %i0, %i0, %i2:3, %i6:7)
  vm.call @hal.device.queue.fill(%r0, %i6:7, %r1, %r2, %r4, %i6:7, %i2:3, %i6:7, %i0, %i6:7)
{end}
}}
"#
        );
        emitted(&assembled(&text))
    }

    #[test]
    fn buffers_that_are_returned_or_viewed_are_not_kept() {
        let is_kept = |results, end| source(results, end).contains("queue_alloca_transient");
        assert!(is_kept("", "  vm.return"));
        assert!(is_kept("i32", "  %i8 = vm.call @hal.buffer.load(%r4, %i6:7, %i0)\n  vm.return %i8"));
        assert!(!is_kept("!vm.ref<?>", "  vm.return %r4"));
        assert!(!is_kept("!vm.ref<?>", "  vm.br ^bb1(%r4 -> %r3)\n^bb1:\n  vm.return %r3"));
        let view = "  %r3 = vm.call @hal.buffer.subspan(%r4, %i6:7, %i2:3)\n  vm.return %r3";
        assert!(!is_kept("!vm.ref<?>", view));
    }
}
