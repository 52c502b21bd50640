//! Which values are still used where.

use alloc::vec;
use alloc::vec::Vec;

use super::function::{Definition, Function};
use super::value::{Block, Value};
use crate::{Budget, Result};

/// The values that are alive at the borders of blocks. Constants are never listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    entering: Vec<Vec<Value>>,
    leaving: Vec<Vec<Value>>,
}

impl Liveness {
    /// Finds them for all values of a function.
    ///
    /// # Errors
    /// As [`Liveness::of`].
    pub fn new(function: &Function, budget: &mut Budget) -> Result<Liveness> {
        Liveness::of(function, |_| true, budget)
    }

    /// Finds them for the values that a predicate picks.
    ///
    /// Each value is followed from its uses backwards to its definition, which costs as much as the result is long.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where they are more than the budget has.
    pub fn of(function: &Function, picks: impl Fn(Value) -> bool, budget: &mut Budget) -> Result<Liveness> {
        let count = function.blocks.len();
        let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut uses: Vec<(Value, Block)> = Vec::new();
        for (block, data) in function.iter() {
            let mut note = |value: Value| {
                if !matches!(function.definition(value), Definition::Constant(_)) && picks(value) {
                    uses.push((value, block));
                }
            };
            for inst in &data.instructions {
                inst.op.visit(|operand| note(operand.value()));
            }
            data.terminator.visit(|operand| note(operand.value()));
            data.terminator.visit_edges(|edge| {
                // An argument is used up by the edge: it is not alive in the target, nor is it when the block is left.
                edge.arguments.iter().for_each(|operand| note(operand.value));
                predecessors[edge.target.index()].push(block.0);
            });
        }
        uses.sort_unstable();
        uses.dedup();
        let mut live = Liveness { entering: vec![Vec::new(); count], leaving: vec![Vec::new(); count] };
        let mut stack = Vec::new();
        for (value, block) in uses {
            stack.push(block.0);
            while let Some(block) = stack.pop() {
                let defined = match function.definition(value) {
                    Definition::Parameter(home, _) | Definition::Result(home) => home.0 == block,
                    Definition::Constant(_) => true,
                };
                let entering = &mut live.entering[block as usize];
                // Values come in ascending order, so that the last one tells whether this one was here.
                if defined || entering.last() == Some(&value) {
                    continue;
                }
                entering.push(value);
                budget.spend(1 + predecessors[block as usize].len(), "the live values of the blocks")?;
                for &predecessor in &predecessors[block as usize] {
                    let leaving = &mut live.leaving[predecessor as usize];
                    if leaving.last() != Some(&value) {
                        leaving.push(value);
                    }
                    stack.push(predecessor);
                }
            }
        }
        Ok(live)
    }

    /// What a block uses, or one after it, that is not defined there; ascending. Its parameters are not among them.
    #[must_use]
    pub fn entering(&self, block: Block) -> &[Value] {
        &self.entering[block.index()]
    }

    /// What blocks after a block use; ascending. Arguments of its edges are among them only if they are used otherwise, too.
    #[must_use]
    pub fn leaving(&self, block: Block) -> &[Value] {
        &self.leaving[block.index()]
    }
}
