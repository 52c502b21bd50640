//! Nests that store zeros where there are only zeros: compilers clear the memory of an accumulator that they have just allocated.

use super::Nest;
use crate::ir::function::{Definition, Function, Inst};
use crate::ir::op::{Op, Terminator};
use crate::ir::value::Value;

impl Nest {
    /// Whether the nest stores nothing but zeros, to buffers that have had no other use: an allocated buffer has zeros.
    pub(super) fn stores_zeros_to_zeros(&self, function: &Function) -> bool {
        let is_zero = |value: Value| function.constant_bits(value) == Some(0);
        !self.accesses.is_empty()
            && self.accesses.iter().all(|access| {
                access.stored.is_some_and(is_zero) && self.is_fresh(function, self.views[access.view].buffer)
            })
            && self.loops.iter().all(|counted| counted.carried.is_empty())
    }

    /// Whether the block that allocates a buffer leads to the nest, and does nothing else with it. Only the nest's own branches lead
    /// to its first loop from elsewhere: a loop around it would have the block within it.
    fn is_fresh(&self, function: &Function, buffer: Value) -> bool {
        let Definition::Result(block) = function.definition(buffer) else { return false };
        let data = function.block(block);
        let Terminator::Branch(edge) = &data.terminator else { return false };
        let allocates = |inst: &Inst| matches!(inst.op, Op::BufferAlloc { .. }) && inst.results[..] == [buffer];
        let Some(at) = data.instructions.iter().position(allocates) else { return false };
        let mut is_used = edge.arguments.iter().any(|argument| argument.value == buffer);
        data.instructions[at + 1..]
            .iter()
            .for_each(|inst| inst.op.visit(|operand| is_used |= operand.value() == buffer));
        edge.target == self.loops[0].header && !is_used
    }
}
