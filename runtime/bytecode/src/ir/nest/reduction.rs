//! Reductions along adjacent elements, where float operations may be reassociated.

use alloc::vec::Vec;

use super::contraction::Iteration;
use super::schedule::Perfect;
use super::{Element, Needed, Nest, Strips};
use crate::ir::function::Function;
use crate::ir::op::Op;
use crate::ir::value::Value;
use crate::isa::Opcode;

/// A nest that reduces numbers to an element, along a loop in which the numbers are adjacent: the sum of a row.
///
/// Each element has [`Reduction::PARTIAL`] partial results. Iteration `i` of the loop `strips.lanes` changes the partial result `i`
/// modulo their number; the other loops that reduce are around that loop, in order. Partial results start at the operation's
/// [identity](Reduce::identity). At the end each of the lower half is combined with that of the upper half, until one is left, and the
/// element with that. So results are the same on every processor, and differ from those of the bytecode by rounding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// What combines two results.
    pub operation: Reduce,
    /// What an iteration combines with a result: a number, or the two factors of a product.
    pub terms: Vec<Value>,
    /// The number is the first operand, and the result the second one.
    pub is_swapped: bool,
    /// The loaded element, which only the instruction that combines uses.
    pub element: Value,
    /// The stored element.
    pub stored: Value,
    /// The loops and the views: `outer` selects the element, and `lanes` is the loop along which numbers are adjacent. `reductions` are
    /// the others. It is valid as other strips are, if `lanes` is not empty either.
    pub strips: Strips,
}

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// A sum.
    AddF32,
    /// A sum of products, each of which is rounded with the addition.
    FmaF32,
    /// A product.
    MulF32,
    /// The greatest number.
    MaxF32,
    /// The least number.
    MinF32,
}

impl Reduce {
    const fn of(opcode: Opcode) -> Option<Reduce> {
        Some(match opcode {
            Opcode::AddF32 => Reduce::AddF32,
            Opcode::FmaF32 => Reduce::FmaF32,
            Opcode::MulF32 => Reduce::MulF32,
            Opcode::MaxF32 => Reduce::MaxF32,
            Opcode::MinF32 => Reduce::MinF32,
            _ => return None,
        })
    }

    /// The number that changes no result.
    #[must_use]
    pub const fn identity(self) -> f32 {
        match self {
            Reduce::AddF32 | Reduce::FmaF32 => 0.0,
            Reduce::MulF32 => 1.0,
            Reduce::MaxF32 => f32::NEG_INFINITY,
            Reduce::MinF32 => f32::INFINITY,
        }
    }
}

impl Reduction {
    /// The number of partial results: as many as the longest vectors have elements.
    pub const PARTIAL: usize = 16;

    /// Returns the reduction that a perfect nest is, if more of its loads are contiguous along it than along the `strips` that run it
    /// otherwise.
    pub(super) fn of(
        function: &Function,
        nest: &Nest,
        needed: &Needed,
        (perfect, strips): (&Perfect, Option<&Strips>),
    ) -> Option<Reduction> {
        let mut stores = nest.accesses.iter().filter_map(|access| Some((access.view, access.stored?)));
        let (output, stored) = stores.next().filter(|_| stores.next().is_none())?;
        let view = &nest.views[output];
        let (outer, mut reductions): (Vec<usize>, Vec<usize>) =
            perfect.path.iter().partition(|at| view.index.moves_along(**at));
        let mut loads: Vec<usize> = nest
            .accesses
            .iter()
            .filter(|access| access.view != output && needed.keeps(function, nest, access))
            .map(|access| access.view)
            .collect();
        loads.sort_unstable();
        loads.dedup();
        let contiguous =
            |at: usize| loads.iter().filter(|view| nest.views[**view].index.constant_stride(at) == Some(1)).count();
        let is_long =
            |at: &usize| nest.loops[*at].constant_trip_count().is_none_or(|count| count >= Reduction::PARTIAL as u64);
        // Of equal candidates the innermost.
        let lanes = reductions.iter().copied().filter(is_long).max_by_key(|at| contiguous(*at))?;
        if view.element != Element::f32 || contiguous(lanes) <= strips.map_or(0, |strips| contiguous(strips.lanes)) {
            return None;
        }
        reductions.retain(|at| *at != lanes);
        let (stores, innermost) = (alloc::vec![output], perfect.innermost);
        let strips = Strips { stores, outer, lanes, reductions, non_aliasing: loads, innermost };
        Iteration::of(function, nest, needed).reduction(stored, strips)
    }
}

impl Iteration<'_> {
    /// The reduction by which a stored value comes from the output's element, which nothing else uses.
    fn reduction(&self, stored: Value, strips: Strips) -> Option<Reduction> {
        let is_output = |value: Value| self.view(value) == strips.stores.first().copied();
        let (opcode, operands) = self.evaluation(stored)?;
        let operation = Reduce::of(opcode)?;
        let (terms, element, is_swapped) = match operands {
            [left, right, sum] => (alloc::vec![*left, *right], *sum, false),
            [first, second] if is_output(*first) => (alloc::vec![*second], *first, false),
            [first, second] => (alloc::vec![*first], *second, true),
            _ => return None,
        };
        let mut uses = 0;
        for (value, (block, position)) in &self.results {
            if self.nest.access(*block, *position).is_some() {
                if is_output(*value) && *value != element {
                    return None;
                }
                continue;
            }
            let op = &self.nest.instruction(self.function, *block, *position).op;
            match op {
                Op::Eval { opcode, .. } if !opcode.info().effects.fails => {}
                Op::Bitcast { .. } => {}
                _ => return None,
            }
            op.visit(|operand| uses += usize::from(operand.value() == element));
        }
        let is_alone = is_output(element) && uses == 1;
        is_alone.then_some(Reduction { operation, terms, is_swapped, element, stored, strips })
    }
}
