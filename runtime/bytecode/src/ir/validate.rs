//! Checks the invariants of functions, for tests and for authors of passes.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::function::{Definition, Function};
use super::graph::Graph;
use super::op::{Edge, Op, Terminator};
use super::value::{Block, Type, Value};
use crate::{Error, Result};

impl Function {
    /// Checks that every value is defined once, where its definition tells, and on every path to each of its
    /// uses; that edges pass what parameters take; that all blocks can be reached, in a reverse postorder; and the types of
    /// operands where the operation tells them.
    ///
    /// # Errors
    /// INTERNAL, naming the first violation.
    pub fn validate(&self) -> Result<()> {
        let graph = Graph::of(self);
        let dominators = graph.dominators();
        if !dominators.order().nodes().iter().copied().eq(0..self.blocks.len() as u32) {
            return Err(wrong("the blocks are not a reverse postorder".into()));
        }
        if !graph.predecessors(0).is_empty() {
            return Err(wrong("a branch to the entry".into()));
        }
        // The position of each definition in its block; parameters are 0.
        let mut defined = vec![u32::MAX; self.value_count()];
        for (block, data) in self.iter() {
            let mut define = |value: Value, position: usize, expected: Definition| {
                let slot = &mut defined[value.index()];
                if *slot != u32::MAX || self.definition(value) != expected {
                    return Err(wrong(format!("the definition of v{} in {block}", value.0)));
                }
                *slot = position as u32;
                Ok(())
            };
            for (index, parameter) in data.parameters.iter().enumerate() {
                define(*parameter, 0, Definition::Parameter(block, index as u32))?;
            }
            for (index, inst) in data.instructions.iter().enumerate() {
                inst.results.iter().try_for_each(|value| define(*value, index + 1, Definition::Result(block)))?;
            }
            if let Terminator::CallYieldable { results, .. } = &data.terminator {
                let position = data.instructions.len() + 1;
                results.iter().try_for_each(|value| define(*value, position, Definition::Result(block)))?;
            }
        }
        for (block, data) in self.iter() {
            let check = |value: Value, position: usize| {
                let home = match self.definition(value) {
                    Definition::Constant(_) => return Ok(()),
                    Definition::Parameter(home, _) | Definition::Result(home) => home,
                };
                let at = defined[value.index()];
                let before =
                    if home == block { (at as usize) < position } else { dominators.dominates(home.0, block.0) };
                match before && at != u32::MAX {
                    true => Ok(()),
                    false => Err(wrong(format!("v{} is used in {block} and not defined there", value.0))),
                }
            };
            for (index, inst) in data.instructions.iter().enumerate() {
                let mut result = Ok(());
                inst.op.visit(|operand| {
                    result = core::mem::replace(&mut result, Ok(())).and(check(operand.value(), index + 1))
                });
                result?;
                self.types(block, &inst.op)?;
            }
            let end = data.instructions.len() + 1;
            let mut result = Ok(());
            data.terminator
                .visit(|operand| result = core::mem::replace(&mut result, Ok(())).and(check(operand.value(), end)));
            data.terminator.visit_edges(|edge| {
                let mut passed = edge.arguments.iter().map(|operand| operand.value).chain(edge.drops.iter().copied());
                let edge = passed.try_for_each(|value| check(value, end + 1)).and(self.edge(block, edge));
                result = core::mem::replace(&mut result, Ok(())).and(edge);
            });
            result?;
            if let Terminator::Return(operands) = &data.terminator
                && !operands.iter().map(|operand| self.ty(operand.value)).eq(self.results.iter().copied())
            {
                return Err(wrong(format!("the types that {block} returns")));
            }
        }
        Ok(())
    }

    fn edge(&self, block: Block, edge: &Edge) -> Result<()> {
        let parameters = self.block(edge.target).parameters.iter().map(|value| self.ty(*value));
        match parameters.eq(edge.arguments.iter().map(|operand| self.ty(operand.value))) {
            true => Ok(()),
            false => Err(wrong(format!("the arguments from {block} to {}", edge.target))),
        }
    }

    fn types(&self, block: Block, op: &Op) -> Result<()> {
        let ty = |value: &Value| self.ty(*value);
        let right = match op {
            Op::Low { operand } | Op::High { operand } => ty(operand) == Type::i64,
            Op::Pair { low, high } => ty(low) == Type::i32 && ty(high) == Type::i32,
            Op::IsNonNull { operand: value } | Op::CheckRef { value, .. } | Op::Drop { value } => {
                ty(value) == Type::Ref
            }
            Op::BufferLoad { buffer, offset, .. } => ty(buffer) == Type::Ref && ty(offset) == Type::i64,
            Op::ListGet { list, index } => ty(list) == Type::Ref && ty(index) == Type::i32,
            Op::Switch { index, default, values } => {
                ty(index) == Type::i32 && values.iter().all(|value| ty(value) == ty(default))
            }
            _ => true,
        };
        if right { Ok(()) } else { Err(wrong(format!("the operands of {op:?} in {block}"))) }
    }
}

#[cold]
fn wrong(what: String) -> Error {
    Error::internal(format!("malformed IR: {what}"))
}
