//! What each block expects of the registers when it begins: which are read before they are written, and as what.
//!
//! This is liveness with types. A register that is read as different things on different paths, or half of a pair that is
//! read on its own, is expected as plain 32 bits (`i32`). What is expected decides the types of block parameters; that what
//! arrives is of these types is the business of the edges, which convert.

use alloc::vec;
use alloc::vec::Vec;

use super::super::value::Type;
use super::access::{Access, accesses};
use super::blocks::RawBlocks;
use crate::{AnyRegister, CallingConvention, VerifiedModule};

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

impl Demands {
    pub(super) fn new(
        module: &VerifiedModule,
        convention: CallingConvention<'_>,
        raw: &RawBlocks<'_>,
        (value_registers, ref_registers): (u16, u16),
    ) -> Demands {
        let value_registers = u32::from(value_registers).next_multiple_of(2);
        let mut demands =
            Demands { value_registers, ref_registers: ref_registers.into(), live: vec![Vec::new(); raw.blocks.len()] };
        let mut cells = vec![Demand::Dead; value_registers as usize + usize::from(ref_registers)];
        let order = raw.dominators.order().nodes();
        let mut pending = vec![true; raw.blocks.len()];
        loop {
            let mut changed = false;
            for &block in order.iter().rev() {
                if !core::mem::take(&mut pending[block as usize]) {
                    continue;
                }
                demands.transfer(module, convention, raw, block, &mut cells);
                let live: Vec<(Cell, Demand)> = cells
                    .iter()
                    .enumerate()
                    .filter(|(_, demand)| **demand != Demand::Dead)
                    .map(|(cell, demand)| (cell as Cell, *demand))
                    .collect();
                if live != demands.live[block as usize] {
                    demands.live[block as usize] = live;
                    for &predecessor in raw.graph.predecessors(block) {
                        pending[predecessor as usize] = true;
                        changed = true;
                    }
                }
            }
            if !changed {
                return demands;
            }
        }
    }

    fn cell(&self, register: AnyRegister) -> usize {
        let index = usize::from(register.index());
        if register.is_ref() { index + self.value_registers as usize } else { index }
    }

    /// Goes through a block backwards.
    fn transfer(
        &self,
        module: &VerifiedModule,
        convention: CallingConvention<'_>,
        raw: &RawBlocks<'_>,
        block: u32,
        cells: &mut [Demand],
    ) {
        cells.fill(Demand::Dead);
        let block = &raw.blocks[block as usize];
        let mut along: Vec<(usize, Demand)> = Vec::new();
        for edge in &block.edges {
            along.clear();
            along.extend(self.live[edge.target as usize].iter().map(|(cell, demand)| (*cell as usize, *demand)));
            if let Some(copies) = edge.copies {
                let copies: Vec<_> = copies.iter().collect();
                for (source, target) in copies.into_iter().rev() {
                    let (from, to) = (self.cell(source), self.cell(target));
                    let taken: Vec<Demand> =
                        along.extract_if(.., |row| row.0 == to).map(|row| row.1.at(source.index())).collect();
                    // A reference that is moved away is not what a later reader reads.
                    if source.is_move() {
                        along.retain(|row| row.0 != from);
                    }
                    along.extend(taken.into_iter().map(|demand| (from, demand)));
                }
            }
            for &(cell, demand) in &along {
                cells[cell] = cells[cell].join(demand);
            }
        }
        let (mut reads, refs) = (Vec::new(), self.value_registers as usize);
        for instruction in block.instructions.iter().rev() {
            reads.clear();
            accesses(module, convention, instruction, &mut |access| match access {
                Access::Write(register, ty) => {
                    let register = usize::from(register);
                    cells[register] = Demand::Dead;
                    if ty.is_wide() {
                        cells[register + 1] = Demand::Dead;
                    }
                }
                Access::WriteRef(register) => cells[refs + usize::from(register)] = Demand::Dead,
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
            for &(cell, demand) in &reads {
                cells[cell] = cells[cell].join(demand);
            }
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
