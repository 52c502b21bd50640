//! Who drops references: each is moved where it is used last, or dropped behind that use.
//!
//! Before, every [`Operand`](super::Operand) shares its reference. Afterwards
//! - each reference that is defined is moved or dropped exactly once on every path that does not fail,
//! - nothing uses it after that,
//! - edges name the references ([`Edge::drops`](super::Edge::drops)) that other edges of the same block still need.
//!
//! Null, being a constant, is neither moved nor dropped. Arguments that nothing uses are dropped at once.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::function::{Definition, Function, Inst};
use super::liveness::Liveness;
use super::op::{Op, Operand, Terminator};
use super::uses::UseMut;
use super::value::{Block, Type, Value};
use crate::index_map::IndexSet;
use crate::{Budget, Result};

/// Takes all moves and drops away.
pub(super) fn forget(function: &mut Function) {
    for block in &mut function.blocks {
        block.instructions.retain(|inst| !matches!(inst.op, Op::Drop { .. }));
        for inst in &mut block.instructions {
            inst.op.visit_mut(share);
        }
        block.terminator.visit_mut(share);
        block.terminator.visit_edges_mut(|edge| {
            edge.drops.clear();
            edge.arguments.iter_mut().for_each(|operand| operand.moved = false);
        });
    }
}

fn share(operand: UseMut<'_>) {
    if let UseMut::Take(operand) = operand {
        operand.moved = false;
    }
}

/// Finds the moves and drops of a function.
///
/// # Errors
/// RESOURCE_EXHAUSTED where the references that are alive in its blocks are more than the budget has.
pub fn ownership(function: &mut Function, budget: &mut Budget) -> Result<()> {
    forget(function);
    let is_owned: Vec<bool> = (0..function.value_count() as u32)
        .map(|value| {
            let value = Value(value);
            function.ty(value) == Type::Ref && !matches!(function.definition(value), Definition::Constant(_))
        })
        .collect();
    let liveness = Liveness::of(function, |value| is_owned[value.index()], budget)?;
    let mut walk = Walk { is_owned, alive: alloc::vec![false; function.value_count()] };
    for index in 0..function.blocks.len() {
        walk.block(function, &liveness, index, budget)?;
    }
    Ok(())
}

/// Goes through blocks backwards; `alive` are the references that are used behind the point where it is.
struct Walk {
    is_owned: Vec<bool>,
    alive: Vec<bool>,
}

impl Walk {
    /// Whether a reference is used here and not behind; notes that it is used here.
    fn is_last(&mut self, value: Value) -> bool {
        self.is_owned[value.index()] && !core::mem::replace(&mut self.alive[value.index()], true)
    }

    fn block(&mut self, function: &mut Function, liveness: &Liveness, index: usize, budget: &mut Budget) -> Result<()> {
        let block = Block(index as u32);
        let leaving: Vec<Value> = liveness.leaving(block).to_vec();
        leaving.iter().for_each(|value| self.alive[value.index()] = true);
        let mut data = core::mem::replace(
            &mut function.blocks[index],
            super::BlockData {
                parameters: Vec::new(),
                instructions: Vec::new(),
                terminator: Terminator::Return(Vec::new()),
                offset: 0,
                entry: None,
            },
        );
        self.edges(&mut data.terminator, liveness, &leaving, budget)?;
        self.terminator(&mut data.terminator);
        let mut reversed: Vec<Inst> = Vec::with_capacity(data.instructions.len());
        while let Some(mut inst) = data.instructions.pop() {
            let drop = |value: Value| {
                let op = Op::Drop { value };
                Inst { op, results: SmallVec::new(), offset: inst.offset }
            };
            let unused = inst.results.iter().filter(|value| self.is_owned[value.index()] && !self.alive[value.index()]);
            reversed.extend(unused.map(|value| drop(*value)));
            inst.results.iter().for_each(|value| self.alive[value.index()] = false);
            let borrowed = self.operands(&mut inst.op);
            reversed.extend(borrowed.into_iter().map(drop));
            reversed.push(inst);
        }
        for &parameter in &data.parameters {
            if self.is_owned[parameter.index()] && !self.alive[parameter.index()] {
                let offset = reversed.last().map_or(data.offset, |inst| inst.offset);
                reversed.push(Inst { op: Op::Drop { value: parameter }, results: SmallVec::new(), offset });
            }
        }
        reversed.reverse();
        data.parameters.iter().for_each(|value| self.alive[value.index()] = false);
        liveness.entering(block).iter().for_each(|value| self.alive[value.index()] = false);
        data.instructions = reversed;
        function.blocks[index] = data;
        Ok(())
    }

    /// Moves operands at their last use; returns the references whose last use is not a move.
    fn operands(&mut self, op: &mut Op) -> SmallVec<[Value; 2]> {
        // Looked at in reverse: the last of several operands is the one that may be moved. But what an instruction borrows
        // it may not move at the same time.
        let mut borrowed: SmallVec<[Value; 2]> = SmallVec::new();
        op.visit(|operand| {
            if let super::uses::Use::Read(value) = operand {
                borrowed.push(*value);
            }
        });
        borrowed.retain(|value| self.is_last(*value));
        let mut taken: SmallVec<[&mut Operand; 8]> = SmallVec::new();
        op.visit_mut(|operand| {
            if let UseMut::Take(operand) = operand {
                taken.push(operand);
            }
        });
        for operand in taken.into_iter().rev() {
            operand.moved = self.is_last(operand.value);
        }
        borrowed
    }

    /// What edges pass and drop.
    fn edges(
        &mut self,
        terminator: &mut Terminator,
        liveness: &Liveness,
        leaving: &[Value],
        budget: &mut Budget,
    ) -> Result<()> {
        // References that this block still has at its end: what some edge passes or a later block uses.
        let mut held: Vec<Value> = leaving.to_vec();
        let mut own: Vec<Value> = Vec::new();
        if let Terminator::CallYieldable { results, .. } = terminator {
            own.extend(results.iter().filter(|value| self.is_owned[value.index()]));
        }
        terminator.visit_edges(|edge| held.extend(edge.arguments.iter().map(|operand| operand.value)));
        held.extend_from_slice(&own);
        held.retain(|value| self.is_owned[value.index()]);
        held.sort_unstable();
        held.dedup();
        // Each edge of a branch drops what the others hold.
        let mut edges = 0;
        terminator.visit_edges(|_| edges += 1);
        budget.spend(edges * held.len(), "the references that branches drop")?;
        let mut passed: IndexSet<Value> = IndexSet::default();
        terminator.visit_edges_mut(|edge| {
            let entering = liveness.entering(edge.target);
            passed.clear();
            for operand in edge.arguments.iter_mut().rev() {
                let value = operand.value;
                let last = self.is_owned[value.index()] && entering.binary_search(&value).is_err();
                operand.moved |= last && passed.insert(value, ());
            }
            let stays = |value: &&Value| entering.binary_search(value).is_err() && !passed.contains(**value);
            edge.drops = held.iter().filter(stays).copied().collect();
        });
        held.iter().for_each(|value| self.alive[value.index()] = true);
        own.iter().for_each(|value| self.alive[value.index()] = false);
        Ok(())
    }

    /// The operands that the terminator itself takes. No terminator only borrows references.
    fn terminator(&mut self, terminator: &mut Terminator) {
        let mut taken: SmallVec<[&mut Operand; 8]> = SmallVec::new();
        terminator.visit_mut(|operand| {
            if let UseMut::Take(operand) = operand {
                taken.push(operand);
            }
        });
        for operand in taken.into_iter().rev() {
            operand.moved = self.is_last(operand.value);
        }
    }
}
