//! Reductions along adjacent elements, where float operations may be reassociated.

use alloc::vec::Vec;

use super::contraction::Iteration;
use super::perfect::Perfect;
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
    /// The loaded element, the stored one, and values between them: the instructions of the operation, which use nothing else but
    /// the terms.
    pub combining: Vec<Value>,
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
    /// The greatest number, where NaN is less than any other.
    MaxNumF32,
    /// The least number, where NaN is greater than any other.
    MinNumF32,
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
            Reduce::MaxNumF32 | Reduce::MinNumF32 => f32::NAN,
        }
    }
}

impl Reduction {
    /// The number of partial results: as many as the longest vectors have elements.
    pub const PARTIAL: usize = 16;

    /// Returns the reduction that a perfect nest is, if fewer of its loads are strided along it than along the `strips` that run it
    /// otherwise.
    pub(super) fn of(
        function: &Function,
        nest: &Nest,
        needed: &Needed,
        (perfect, strips): (&Perfect, Option<&Strips>),
    ) -> Option<Reduction> {
        let mut stores = nest.accesses.iter().filter_map(|access| Some((access.view, access.stored?)));
        let (output, stored) = stores.next().filter(|_| stores.next().is_none())?;
        if perfect.computes_around {
            return None;
        }
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
        let strides = |at: usize| loads.iter().map(move |view| nest.views[*view].index.constant_stride(at));
        let is_contiguous = |at: &usize| strides(*at).any(|stride| stride == Some(1));
        // The loads that are neither contiguous nor the same along a loop.
        let strided = |at: usize| strides(at).filter(|stride| !matches!(stride, Some(0 | 1))).count();
        let is_long =
            |at: &usize| nest.loops[*at].constant_trip_count().is_none_or(|count| count >= Reduction::PARTIAL as u64);
        // Of equal candidates the innermost.
        let candidates = reductions.iter().rev().copied().filter(is_long).filter(is_contiguous);
        let lanes = candidates.min_by_key(|at| strided(*at))?;
        if view.element != Element::f32 || strips.is_some_and(|strips| strided(strips.lanes) <= strided(lanes)) {
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
        let output = *strips.stores.first()?;
        let (operation, terms, is_swapped, combining) =
            self.operation(output, stored).or_else(|| self.number_operation(output, stored))?;
        for (value, (block, position)) in self.results.iter() {
            let is_access = self.nest.access(*block, *position).is_some();
            // What uses a value of the operation belongs to it.
            let mut uses = false;
            let op = &self.nest.instruction(self.function, *block, *position).op;
            op.visit(|operand| uses |= !is_access && combining.contains(&operand.value()));
            let is_computed = match op {
                Op::Eval { opcode, .. } => !opcode.info().effects.fails,
                op => matches!(op, Op::Bitcast { .. }),
            };
            let is_part = combining.contains(&value);
            if (uses && !is_part) || !(is_access || is_computed) || (self.view(value) == Some(output) && !is_part) {
                return None;
            }
        }
        let is_own = |term: &Value| combining.contains(term);
        (!terms.iter().any(is_own)).then_some(Reduction { operation, terms, is_swapped, combining, strips })
    }

    /// A reduction by one instruction: the operation, the terms, whether they come first, and what belongs to it.
    fn operation(&self, output: usize, stored: Value) -> Option<(Reduce, Vec<Value>, bool, Vec<Value>)> {
        let is_element = |value: Value| self.view(value) == Some(output);
        let (opcode, operands) = self.evaluation(stored)?;
        let operation = Reduce::of(opcode)?;
        let (terms, element, is_swapped) = match operands {
            [left, right, sum] => (alloc::vec![*left, *right], *sum, false),
            [first, second] if is_element(*first) => (alloc::vec![*second], *first, false),
            [first, second] => (alloc::vec![*first], *second, true),
            _ => return None,
        };
        is_element(element).then(|| (operation, terms, is_swapped, alloc::vec![element, stored]))
    }

    /// The greatest or least number, as compilers lower it: where the term is NaN the element, else the term if the element is NaN or
    /// less (or greater), else the element.
    fn number_operation(&self, output: usize, stored: Value) -> Option<(Reduce, Vec<Value>, bool, Vec<Value>)> {
        let select = |value: Value| match self.evaluation(value)? {
            (Opcode::SelectF32, [condition, then, otherwise]) => Some((*condition, *then, *otherwise)),
            _ => None,
        };
        let (is_nan, element, chosen) = select(stored)?;
        let (compared, term, otherwise) = select(chosen)?;
        let (Opcode::CmpNaNF32, [number]) = self.evaluation(is_nan)? else { return None };
        let (Opcode::CmpLTF32U, [less, greater]) = self.evaluation(compared)? else { return None };
        let operation = match (*less, *greater) {
            pair if pair == (element, term) => Reduce::MaxNumF32,
            pair if pair == (term, element) => Reduce::MinNumF32,
            _ => return None,
        };
        let is_reduction = self.view(element) == Some(output) && otherwise == element && *number == term;
        is_reduction.then(|| (operation, alloc::vec![term], false, alloc::vec![element, compared, chosen, stored]))
    }
}
