//! Recordings whose commands may run while they are recorded.
//!
//! A program records a command buffer and submits it once, most often with nothing in between. Where the operation need not wait, a device that
//! runs commands on the calling thread may run each of them at once, and keep nothing of it. The order of all accesses to memory is the same, as
//! nothing else accesses memory between the first command and the submission.

use std::collections::HashMap;

use incarnate_bytecode::abi::command_buffer_mode;
use incarnate_bytecode::imports::FenceUse;
use incarnate_bytecode::ir::{BlockData, Function, Inst, Op, Value};

use super::imports::Imports;

/// The position of the modes among the arguments of the call that creates a command buffer.
pub(super) const MODES: usize = 1;

/// Returns the fence that each such recording's submission waits for, by the offset of the call that creates the command buffer.
pub(super) fn find(body: &Function, imports: &Imports) -> HashMap<u32, Value> {
    let mut found = HashMap::new();
    let mut uses: Vec<u32> = vec![0; body.value_count()];
    for block in &body.blocks {
        for inst in &block.instructions {
            if !matches!(inst.op, Op::Drop { .. }) {
                inst.op.visit(|operand| uses[operand.value().index()] += 1);
            }
        }
        block.terminator.visit_values(|value| uses[value.index()] += 1);
        block.terminator.visit_edges(|edge| {
            edge.arguments.iter().for_each(|operand| uses[operand.value.index()] += 1);
        });
    }
    for block in &body.blocks {
        for (position, inst) in block.instructions.iter().enumerate() {
            if let Some(commands) = created(body, inst, imports)
                && let Some(wait) = wait_of(block, (position, commands), uses[commands.index()], imports)
            {
                found.insert(inst.offset, wait);
            }
        }
    }
    found
}

/// The command buffer that an instruction creates, if it is submitted once and has no slots.
fn created(body: &Function, inst: &Inst, imports: &Imports) -> Option<Value> {
    let (Op::Call(call), [commands]) = (&inst.op, &inst.results[..]) else { return None };
    let is_creation = imports.callee(call)?.method == "command_buffer_create";
    let constant = |at: usize| body.constant_bits(call.operands.get(at)?.value);
    let is_submitted_once = constant(MODES)? as i32 & command_buffer_mode::ONE_SHOT != 0;
    (is_creation && is_submitted_once && constant(4) == Some(0)).then_some(*commands)
}

/// The fence that the submission of a command buffer waits for, where nothing accesses memory between that and its creation, and the fence
/// is there when the command buffer is created.
fn wait_of(block: &BlockData, (created, commands): (usize, Value), mut uses: u32, imports: &Imports) -> Option<Value> {
    let mut defined = Vec::new();
    for inst in &block.instructions[created + 1..] {
        if let Op::Call(call) = &inst.op {
            let import = imports.callee(call)?;
            let is_of_recording = call.operands.first().is_some_and(|operand| operand.value == commands);
            match import.method {
                "queue_execute" if call.operands.get(4).is_some_and(|operand| operand.value == commands) => {
                    let wait = call.operands.get(FenceUse::WAIT)?.value;
                    return (uses == 1 && !defined.contains(&wait)).then_some(wait);
                }
                "executable_lookup_function" | "queue_alloca" | "fence_join" | "device_allocator" => {}
                method if method.starts_with("command_buffer_") && is_of_recording => {}
                _ => return None,
            }
        } else if !inst.op.is_pure() && !is_harmless(&inst.op) {
            return None;
        }
        inst.op.visit(|operand| uses -= u32::from(operand.value() == commands));
        defined.extend(&inst.results);
    }
    None
}

/// Whether an instruction that is not pure accesses no memory of buffers.
fn is_harmless(op: &Op) -> bool {
    matches!(
        op,
        Op::Drop { .. } | Op::GlobalLoadRef { .. } | Op::GlobalLoad { .. } | Op::CheckRef { .. } | Op::Rodata { .. }
    )
}

#[cfg(test)]
mod tests {
    use crate::function::tests::{assembled, emitted};

    /// The source of a function that records a fill and submits it, with further instructions before the submission.
    fn source(between: &str) -> String {
        let text = format!(
            r#"vm.module @recording version 0
vm.type !hal.device
vm.type !hal.command_buffer
vm.type !hal.fence
vm.type !hal.buffer
vm.import @hal.command_buffer.create cconv "0riiIi_r"
vm.import @hal.command_buffer.fill_buffer cconv "0rrIIiIiI_v"
vm.import @hal.command_buffer.finalize cconv "0r_v"
vm.import @hal.device.queue.execute cconv "0rIrrrI_v"
vm.import @hal.buffer.load cconv "0rIi_i"
vm.export @f
vm.func @f(%r0: !vm.ref<?>, %r1: !vm.ref<?>, %r2: !vm.ref<?>, %r3: !vm.ref<?>) -> () {{
^bb0:
  %i0 = vm.const.i32 1
  %i2:3 = vm.const.i64 4
  %i4 = vm.const.i32.zero
  %i6:7 = vm.const.i64.zero
  %r4 = vm.call @hal.command_buffer.create(%r0, %i0, %i0, %i6:7, %i4)
  vm.call @hal.command_buffer.fill_buffer(%r4, %r1, %i6:7, %i2:3, %i4, %i6:7, %i0, %i6:7)
  vm.call @hal.command_buffer.finalize(%r4)
{between}
  vm.call @hal.device.queue.execute(%r0, %i6:7, %r2, %r3, %r4, %i6:7)
  vm.return
}}
"#
        );
        emitted(&assembled(&text))
    }

    #[test]
    fn commands_may_run_at_once_where_nothing_accesses_memory_before_the_submission() {
        assert!(source("").contains("modes_of_recording"));
        assert!(source("  %i8 = vm.add.i32 %i0, %i0").contains("modes_of_recording"));
        let load = "  %i8 = vm.call @hal.buffer.load(%r1, %i6:7, %i0)";
        assert!(!source(load).contains("modes_of_recording"));
        // Another use of the command buffer.
        let twice = "  vm.call @hal.device.queue.execute(%r0, %i6:7, %r2, %r3, %r4, %i6:7)";
        assert!(!source(twice).contains("modes_of_recording"));
    }
}
