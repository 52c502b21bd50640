//! Nests whose forms hold for the loops of the bytecode as well, which run where a nest does not, and behind it.

use super::{Affine, Counted, Nest};
use crate::ir::function::Function;
use crate::ir::op::Terminator;

impl Nest {
    /// Whether the loops of the bytecode access no other elements than the forms of the views say, also where the nest does not run: they may
    /// access less, and fail. The divisors of the loops `known` are known to be positive, and to divide those of the loops around them.
    pub(crate) fn is_kept_by_its_loops(&self, function: &Function, known: &[usize]) -> bool {
        // Indices that are extended from 32 bits, and those that are selected where a divisor is negative, have other forms then. Of a divisor
        // that does not divide the one before, the rest is another one than the rest of that one's rest, which has the same form.
        let is_divided = |at: usize| {
            let each = &self.loops[at];
            let is_positive = |divisor: &Affine| divisor.as_constant().is_some_and(|divisor| divisor > 0);
            known.contains(&at)
                || each.divisor.as_ref().is_none_or(is_positive)
                    && (!self.is_counted_with_parent(each)
                        || each.divisor.is_none()
                        || each.constant_trip_count().is_some())
        };
        self.ends_with_its_test(function) && self.conditions.is_empty() && (0..self.loops.len()).all(is_divided)
    }

    /// Whether one integer counts the iterations of a loop and those of the loop around it.
    pub(super) fn is_counted_with_parent(&self, each: &Counted) -> bool {
        each.parent.is_some_and(|parent| self.loops[parent].header == each.header)
    }

    /// Whether the loops of the bytecode access nothing after as many iterations as the outermost loop has: its test comes first.
    pub(super) fn ends_with_its_test(&self, function: &Function) -> bool {
        let header = self.loops[0].header;
        // There are no other branches in the loop itself.
        let is_tested = matches!(function.block(header).terminator, Terminator::CondBranch { .. });
        is_tested && self.accesses.iter().all(|access| access.block != header)
    }
}
