//! Rows: iterations of the innermost loop of a nest that computes each element for itself.

use incarnate_bytecode::ir::nest::Strips;
use incarnate_bytecode::ir::{Block, Op};

use super::emit::Writer;

impl Writer<'_, '_, '_> {
    /// The trip count of rows whose elements are each computed for themselves, if it is known: there are several rows and no reductions, and
    /// iterations compute without the indices of loops and without failures.
    pub(super) fn row_of_elements(&self, strips: &Strips) -> Option<u64> {
        let instructions = self.live_instructions(strips);
        let fails = |(block, position): &(Block, usize)| {
            let inst = self.nest.instruction(self.emitter.body.function, *block, *position);
            matches!(&inst.op, Op::Eval { opcode, .. } if opcode.info().effects.fails)
        };
        let is_each_for_itself = strips.reductions.is_empty()
            && self.around(strips).next().is_some()
            && !instructions.iter().any(fails)
            && self.nest.loops.iter().all(|counted| {
                counted.divisor.is_none() && !counted.inductions.iter().any(|each| self.is_read(each.parameter))
            });
        self.row(strips.lanes).filter(|_| is_each_for_itself)
    }

    /// The loops around the one whose iterations are rows, without those that are merged with others.
    pub(super) fn around<'s>(&'s self, strips: &'s Strips) -> impl DoubleEndedIterator<Item = usize> + 's {
        strips.outer.iter().copied().filter(|at| !self.is_merged(*at))
    }
}
