//! Nests whose forms hold for the loops of the bytecode as well, which run where a nest does not, and behind it.

use super::Nest;
use crate::ir::function::Function;
use crate::ir::op::Terminator;

impl Nest {
    /// Whether the loops of the bytecode access no other elements than the forms of the views say, also where the nest does not run: they may
    /// access less, and fail. Trip counts and divisors of the loops `known` are known to be positive.
    pub(crate) fn is_kept_by_its_loops(&self, function: &Function, known: &[usize]) -> bool {
        let is_positive = |at: usize| {
            let divisor = self.loops[at].divisor.as_ref();
            known.contains(&at)
                || divisor.is_none_or(|divisor| divisor.as_constant().is_some_and(|divisor| divisor > 0))
        };
        // Indices that are extended from 32 bits, and those that are selected where a divisor is negative, have other forms then.
        self.ends_with_its_test(function) && self.conditions.is_empty() && (0..self.loops.len()).all(is_positive)
    }

    /// Whether the loops of the bytecode access nothing after as many iterations as the outermost loop has: its test comes first.
    pub(super) fn ends_with_its_test(&self, function: &Function) -> bool {
        let header = self.loops[0].header;
        // There are no other branches in the loop itself.
        let is_tested = matches!(function.block(header).terminator, Terminator::CondBranch { .. });
        is_tested && self.accesses.iter().all(|access| access.block != header)
    }
}
