//! Finds the nests of a function, and leads branches to them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use incarnate_bytecode::ir::nest::Order;
use incarnate_bytecode::ir::{Dominators, Graph};

use super::super::nests::{self, Nest, Optimization};
use super::super::operation::{Inst, Operation, halves};
use super::{Fixup, FixupSlot, Lowering, broken};
use crate::Result;

impl Lowering<'_> {
    /// Offset in bytes of a fixup's instruction.
    fn source_of(&self, fixup: &Fixup) -> Option<u32> {
        let index = match fixup.slot {
            FixupSlot::Low(index) | FixupSlot::High(index) | FixupSlot::Table(.., index) => index,
            FixupSlot::Resume(site) => self.sites[site].pc as usize,
        };
        self.offsets.get(index).copied()
    }

    /// The block that a fixup's instruction is in, as an index of `blocks`.
    fn source_block(&self, fixup: &Fixup) -> Result<usize> {
        let offset = self.source_of(fixup).ok_or_else(broken)?;
        self.blocks.partition_point(|block| block.0.0 <= offset).checked_sub(1).ok_or_else(broken)
    }

    /// The dominators of the blocks, by the branches between them.
    fn dominators(&self, fixups: &[Fixup]) -> Result<Dominators> {
        let mut successors: Vec<Vec<u32>> = self.blocks.iter().map(|_| Vec::new()).collect();
        for fixup in fixups {
            successors[self.source_block(fixup)?].push(self.block_of(fixup)? as u32);
        }
        Ok(Graph::new(0, successors).dominators())
    }

    /// Finds nests of loops; branches to them from before then lead to an instruction that runs them.
    pub(super) fn find_nests(
        &mut self,
        fixups: &[Fixup],
        function: u32,
        optimization: Optimization,
    ) -> Result<Box<[Nest]>> {
        if !self.may_have_nests(fixups, optimization.order) {
            return Ok(Box::default());
        }
        let found = nests::find(self.module, function, optimization);
        if found.is_empty() {
            return Ok(Box::default());
        }
        let (dominators, mut nests) = (self.dominators(fixups)?, Vec::new());
        let mut by_target: Vec<&Fixup> = fixups.iter().collect();
        by_target.sort_by_key(|fixup| fixup.target.0);
        for (offset, nest) in found {
            let first = by_target.partition_point(|fixup| fixup.target.0 < offset);
            for fixup in by_target[first..].iter().take_while(|fixup| fixup.target.0 == offset) {
                // A nest that has been refused must not run from the middle, whatever the order of the blocks: from there on its checks
                // may hold, and what it says of buffers need not.
                if dominators.dominates(self.block_of(fixup)? as u32, self.source_block(fixup)? as u32) {
                    continue;
                }
                // It continues where the branch went.
                let plain = self.target_of(fixup)?;
                let entry = self.instructions.len();
                self.offset = offset;
                let displacement = plain.wrapping_sub(entry as u32);
                self.emit(Operation::Nest, 0, 0, 0, halves(displacement, nests.len() as u32));
                self.patch(&fixup.slot, entry as u32);
            }
            nests.push(nest);
        }
        Ok(nests.into())
    }

    /// Whether a branch leads back, and no call stands between its target and itself, as none is in a nest. The analysis of a function takes
    /// longer than to ask this first. The answer may be wrong, as calls also stand in blocks of other loops, or of none, and in blocks that
    /// the analysis removes: so calls do not count with [`Order::Any`], where the nests of the translator must be found, or sums differ.
    fn may_have_nests(&self, fixups: &[Fixup], order: Order) -> bool {
        let is_call = |inst: &Inst| {
            matches!(inst.operation, Operation::Call | Operation::CallImport | Operation::CallImportYieldable)
        };
        // Ascending: the instructions of edges, which stand behind all others, are no calls.
        let instructions = self.instructions.iter().zip(&self.offsets);
        let calls: Vec<u32> = instructions.filter(|(inst, _)| is_call(inst)).map(|(_, offset)| *offset).collect();
        let may_end_nest = |fixup: &Fixup| {
            let (Some(source), target) = (self.source_of(fixup), fixup.target.0) else { return true };
            let before = |offset: u32| calls.partition_point(|call| *call < offset);
            target <= source && (order == Order::Any || before(target) == before(source + 1))
        };
        fixups.iter().any(may_end_nest)
    }

    /// The index of the instruction that a patched fixup leads to.
    fn target_of(&self, fixup: &Fixup) -> Result<u32> {
        Ok(match fixup.slot {
            FixupSlot::Low(index) => (index as u32).wrapping_add(self.instructions[index].low()),
            FixupSlot::High(index) => (index as u32).wrapping_add(self.instructions[index].high()),
            FixupSlot::Table(..) | FixupSlot::Resume(_) => self.blocks[self.block_of(fixup)?].1,
        })
    }
}
