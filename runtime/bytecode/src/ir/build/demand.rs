//! What each block expects of the registers when it begins: which are read before they are written, and as what.
//!
//! This is liveness with types. A register that is read as different things on different paths, or half of a pair that is
//! read on its own, is expected as plain 32 bits (`i32`). What is expected decides the types of block parameters; that what
//! arrives is of these types is the business of the edges, which convert.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;

use super::super::value::Type;
use super::access::{Access, accesses};
use super::blocks::{RawBlock, RawBlocks};
use crate::{AnyRegister, Budget, CallingConvention, Result, VerifiedModule};

/// What a register is read as. The order is that of joining: what is read as two things is read as the later of them, or as
/// bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Demand {
    /// Not read.
    #[default]
    Dead,
    F32,
    /// Lower, then upper half of a float.
    F64(bool),
    /// Lower, then upper half of an integer.
    I64(bool),
    /// 32 bits, or several of the others.
    Bits,
    Ref,
}

impl Demand {
    fn join(self, other: Demand) -> Demand {
        use Demand::{Bits, Dead, F64, I64};
        match (self, other) {
            (Dead, demand) | (demand, Dead) => demand,
            (left, right) if left == right => left,
            (F64(left) | I64(left), F64(right) | I64(right)) if left == right => I64(left),
            _ => Bits,
        }
    }

    /// Halves keep their meaning only in registers that can be such halves.
    fn at(self, register: u16) -> Demand {
        match self {
            Demand::F64(upper) | Demand::I64(upper) if upper != (register & 1 == 1) => Demand::Bits,
            other => other,
        }
    }
}

/// A register that a block expects: a value register, or a reference register behind all of those.
pub(super) type Cell = u32;

/// A parameter that a block may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The register, the lower one of a pair.
    pub(super) register: u16,
    /// What it is expected as.
    pub(super) ty: Type,
}

/// The expectations of all blocks.
#[derive(Debug)]
pub(super) struct Demands {
    value_registers: u32,
    ref_registers: usize,
    /// For each block what it reads, by ascending cell.
    live: Vec<Vec<(Cell, Demand)>>,
}

/// What the registers are expected as at a point. Most are dead: work is in proportion to the others.
#[derive(Debug)]
struct Cells {
    demands: Vec<Demand>,
    /// The cells that were not dead since the set was cleared; some twice.
    touched: Vec<Cell>,
}

impl Cells {
    fn new(count: usize) -> Cells {
        Cells { demands: vec![Demand::Dead; count], touched: Vec::new() }
    }

    fn join(&mut self, cell: usize, demand: Demand) {
        let slot = &mut self.demands[cell];
        if *slot == Demand::Dead {
            self.touched.push(cell as Cell);
        }
        *slot = slot.join(demand);
    }

    /// Makes a cell dead; returns what it was.
    fn take(&mut self, cell: usize) -> Demand {
        core::mem::take(&mut self.demands[cell])
    }

    /// Makes all cells dead; returns those that were not, ascending.
    fn drain(&mut self) -> Vec<(Cell, Demand)> {
        self.touched.sort_unstable();
        self.touched.dedup();
        let live = self.touched.drain(..).map(|cell| (cell, core::mem::take(&mut self.demands[cell as usize])));
        live.filter(|(_, demand)| *demand != Demand::Dead).collect()
    }
}

impl Demands {
    /// Finds the expectations.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where they are more than the budget has.
    pub(super) fn new(
        module: &VerifiedModule,
        convention: CallingConvention<'_>,
        raw: &RawBlocks<'_>,
        (value_registers, ref_registers): (u16, u16),
        budget: &mut Budget,
    ) -> Result<Demands> {
        let value_registers = u32::from(value_registers).next_multiple_of(2);
        let mut demands =
            Demands { value_registers, ref_registers: ref_registers.into(), live: vec![Vec::new(); raw.blocks.len()] };
        let count = value_registers as usize + usize::from(ref_registers);
        let (mut cells, mut along) = (Cells::new(count), Cells::new(count));
        let order = raw.dominators.order();
        // Blocks whose successors changed, by position; the last one goes first.
        let mut pending: BinaryHeap<u32> = (0..order.nodes().len() as u32).collect();
        let mut is_pending = vec![true; pending.len()];
        while let Some(position) = pending.pop() {
            is_pending[position as usize] = false;
            let block = order.nodes()[position as usize];
            let source = &raw.blocks[block as usize];
            let passed: usize = source.edges.iter().map(|edge| demands.live[edge.target as usize].len() + 1).sum();
            budget.spend(source.instructions.len() + passed, "the live registers of the blocks")?;
            demands.transfer(module, convention, source, &mut cells, &mut along);
            let live = cells.drain();
            if live != demands.live[block as usize] {
                demands.live[block as usize] = live;
                for &predecessor in raw.graph.predecessors(block) {
                    let position = order.position(predecessor);
                    if is_pending.get_mut(position as usize).is_some_and(|flag| !core::mem::replace(flag, true)) {
                        pending.push(position);
                    }
                }
            }
        }
        Ok(demands)
    }

    fn cell(&self, register: AnyRegister) -> usize {
        let index = usize::from(register.index());
        if register.is_ref() { index + self.value_registers as usize } else { index }
    }

    /// Goes through a block backwards. `along` is for edges, and empty before and after.
    fn transfer(
        &self,
        module: &VerifiedModule,
        convention: CallingConvention<'_>,
        block: &RawBlock<'_>,
        cells: &mut Cells,
        along: &mut Cells,
    ) {
        for edge in &block.edges {
            let live = &self.live[edge.target as usize];
            let Some(copies) = edge.copies.filter(|copies| !copies.is_empty()) else {
                live.iter().for_each(|(cell, demand)| cells.join(*cell as usize, *demand));
                continue;
            };
            live.iter().for_each(|(cell, demand)| along.join(*cell as usize, *demand));
            let copies: Vec<_> = copies.iter().collect();
            for (source, target) in copies.into_iter().rev() {
                let (from, to) = (self.cell(source), self.cell(target));
                let taken = along.take(to);
                // A reference that is moved away is not what a later reader reads.
                if source.is_move() {
                    along.take(from);
                }
                if taken != Demand::Dead {
                    along.join(from, taken.at(source.index()));
                }
            }
            along.drain().into_iter().for_each(|(cell, demand)| cells.join(cell as usize, demand));
        }
        let (mut reads, refs) = (Vec::new(), self.value_registers as usize);
        for instruction in block.instructions.iter().rev() {
            reads.clear();
            accesses(module, convention, instruction, &mut |access| match access {
                Access::Write(register, ty) => {
                    let register = usize::from(register);
                    cells.take(register);
                    if ty.is_wide() {
                        cells.take(register + 1);
                    }
                }
                Access::WriteRef(register) => drop(cells.take(refs + usize::from(register))),
                Access::Read(register, ty) => {
                    let register = usize::from(register);
                    match ty {
                        Type::i32 | Type::Ref => reads.push((register, Demand::Bits)),
                        Type::f32 => reads.push((register, Demand::F32)),
                        Type::i64 => reads.extend([(register, Demand::I64(false)), (register + 1, Demand::I64(true))]),
                        Type::f64 => reads.extend([(register, Demand::F64(false)), (register + 1, Demand::F64(true))]),
                    }
                }
                Access::ReadRef(register) => reads.push((refs + usize::from(register), Demand::Ref)),
            });
            reads.iter().for_each(|(cell, demand)| cells.join(*cell, *demand));
        }
    }

    /// Number of variables: pairs of value registers, then references.
    pub(super) fn variable_count(&self) -> usize {
        self.value_registers as usize / 2 + self.ref_registers
    }

    /// The variable of a value register: its pair.
    pub(super) fn value_variable(register: u16) -> u32 {
        u32::from(register / 2)
    }

    /// The variable of a reference register.
    pub(super) fn ref_variable(&self, register: u16) -> u32 {
        self.value_registers / 2 + u32::from(register)
    }

    /// What a block expects, pairs rejoined, with the variable of each.
    pub(super) fn expected(&self, block: u32) -> Vec<(u32, Expected)> {
        let live = &self.live[block as usize];
        let mut all = Vec::with_capacity(live.len());
        let mut index = 0;
        while let Some(&(cell, demand)) = live.get(index) {
            index += 1;
            if cell >= self.value_registers {
                let register = (cell - self.value_registers) as u16;
                all.push((self.ref_variable(register), Expected { register, ty: Type::Ref }));
                continue;
            }
            let register = cell as u16;
            let upper = live.get(index).filter(|(other, _)| *other == cell + 1).map(|(_, demand)| *demand);
            let ty = match (demand, upper) {
                (Demand::F64(false), Some(Demand::F64(true))) => Type::f64,
                (Demand::F64(false) | Demand::I64(false), Some(Demand::F64(true) | Demand::I64(true))) => Type::i64,
                (Demand::F32, _) => Type::f32,
                _ => Type::i32,
            };
            if ty.is_wide() {
                index += 1;
            }
            all.push((Demands::value_variable(register), Expected { register, ty }));
        }
        all
    }
}
