//! Quotients and rests of what a loop counts, as indices of the rows and columns of an image are computed from those of its pixels.
//!
//! Processors divide numbers of 64 bits slowly, and have no vectors of their quotients. But where a loop counts by ones, the quotient and the
//! rest of the first iteration say those of the others: what is added to the quotient is the quotient of that rest and the iterations since,
//! a small number. So the numbers of 64 bits are divided before the loop.

use super::{Affine, Counted, Nest};
use crate::ir::value::{Block, Value};

/// A division by a constant, of a number that each iteration of a loop of constant trip count increases by one at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Block of the instruction.
    pub block: Block,
    /// Its position there.
    pub position: usize,
    /// The loop that it is in.
    pub within: usize,
    /// What is divided: an `i64` that must not be negative in any iteration.
    pub dividend: Dividend,
    /// What it is divided by: a positive number.
    pub divisor: i64,
    /// How much is added to the dividend at most, from the first iteration to the last. The sum with the divisor is an `i32`.
    pub most: i64,
    /// The result is the rest, and not the quotient.
    pub is_rest: bool,
}

/// What is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dividend {
    /// A number that each iteration increases by one.
    Form(Affine),
    /// The quotient of a division, by its index in [`Nest::divisions`].
    Quotient(usize),
}

impl Nest {
    /// Returns the division of an instruction, as an index into [`Nest::divisions`].
    #[must_use]
    pub fn division(&self, block: Block, position: usize) -> Option<usize> {
        self.divisions.iter().position(|division| (division.block, division.position) == (block, position))
    }

    /// The quotient of the same number that is divided in a loop.
    pub(super) fn quotient(
        &self,
        within: usize,
        value: Value,
        defined: impl Fn(&Division) -> Option<Value>,
    ) -> Option<usize> {
        let is_it =
            |division: &Division| division.within == within && !division.is_rest && defined(division) == Some(value);
        self.divisions.iter().position(is_it)
    }
}

impl Counted {
    /// How much all iterations add to a number that each increases by one, where that is a constant.
    pub(super) fn added(&self) -> Option<i64> {
        i64::try_from(self.constant_trip_count()?.checked_sub(1)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bounded;
    use super::super::tests::{one, single};
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;

    /// The divisions of a loop of 16 iterations: what is divided by, how much is added at most, and whether the dividend is a quotient.
    fn divisions(divisor: i64, dividend: &str) -> Vec<(i64, i64, bool)> {
        let body = format!(
            "  %i18:19 = vm.const.i64 {divisor}\n  %i20:21 = vm.const.i64 5\n{dividend}  \
             %i22:23 = vm.div.i64.s %i24:25, %i18:19\n  %i26:27 = vm.rem.i64.s %i24:25, %i18:19\n  \
             %i28:29 = vm.rem.i64.u %i22:23, %i20:21\n  %i26:27 = vm.add.i64 %i26:27, %i28:29\n  \
             vm.buffer.store.i64 %i26:27, %r0, %i12:13\n"
        );
        let nest = one(&single(0, 1, "vm.cmp.lt.i64.s %i12:13, %i10:11", &body));
        let of =
            |division: &Division| (division.divisor, division.most, matches!(division.dividend, Dividend::Quotient(_)));
        nest.divisions.iter().map(of).collect()
    }

    #[test]
    fn invariant_divisors_must_be_positive() {
        let body = "  %i18:19 = vm.add.i64 %i12:13, %i0:1\n  %i18:19 = vm.rem.i64.s %i18:19, %i2:3\n  \
            %i18:19 = vm.div.i64.u %i18:19, %i2:3\n  vm.buffer.store.i64 %i18:19, %r0, %i12:13\n";
        let nest = one(&single(0, 1, "vm.cmp.lt.i64.s %i12:13, %i10:11", body));
        let is_positive = |bounded: &Bounded| (bounded.least, bounded.greatest) == (1, i64::MAX);
        assert!(nest.conditions.len() == 1 && nest.conditions.iter().all(is_positive), "{nest:#?}");
        assert!(nest.conditions[0].form.is_invariant() && nest.divisions.is_empty(), "{nest:#?}");
    }

    #[test]
    fn what_a_loop_counts_is_divided_before_it() {
        let counts = "  %i24:25 = vm.add.i64 %i12:13, %i0:1\n";
        assert_eq!(divisions(24, counts), [(24, 15, false), (24, 15, false), (5, 1, true)]);
        assert_eq!(divisions(3, counts), [(3, 15, false), (3, 15, false), (5, 6, true)]);
        // Not by what is negative or too large for 32 bits, nor what does not count by ones.
        assert_eq!(divisions(-3, counts), []);
        assert_eq!(divisions(i64::from(i32::MAX) - 14, counts), []);
        assert_eq!(divisions(i64::from(i32::MAX) - 15, counts).len(), 3);
        assert_eq!(divisions(24, "  %i24:25 = vm.fma.i64 %i12:13, %i20:21, %i0:1\n"), []);
    }
}
