//! Quotients and rests of numbers that follow each other.

/// The division of a number by `DIVISOR`, from which those of the following numbers come: [`quotient`](Division::quotient) and
/// [`rest`](Division::rest) take how much more is divided, from 0 to `MOST`. Both are constants for the compiler's sake. `DIVISOR` is positive,
/// `MOST` not negative, and their sum an `i32`: vectors of such numbers are divided by multiplication, and those of 64 bits are not.
#[derive(Clone, Copy, Debug)]
pub struct Division<const DIVISOR: i64, const MOST: i64> {
    quotient: i64,
    rest: i64,
}

impl<const DIVISOR: i64, const MOST: i64> Division<DIVISOR, MOST> {
    /// Divides a number that is not negative.
    #[inline(always)]
    pub const fn new(dividend: i64) -> Self {
        Division { quotient: dividend / DIVISOR, rest: dividend % DIVISOR }
    }

    /// How much greater the quotient is if `more` is divided.
    #[inline(always)]
    pub const fn carry(&self, more: i64) -> i64 {
        let rest = self.rest.wrapping_add(more);
        if MOST <= DIVISOR {
            return (rest >= DIVISOR) as i64;
        }
        (rest as u32 / DIVISOR as u32) as i64
    }

    /// The quotient if `more` is divided.
    #[inline(always)]
    pub const fn quotient(&self, more: i64) -> i64 {
        self.quotient.wrapping_add(self.carry(more))
    }

    /// Whether `more` and the following numbers, `count` in all, have the same quotient.
    #[inline(always)]
    pub const fn is_row(&self, more: i64, count: usize) -> bool {
        self.rest(more).wrapping_add(count as i64) <= DIVISOR
    }

    /// The same division, for numbers that have the quotient of `more`.
    #[inline(always)]
    pub const fn row(&self, more: i64) -> Row {
        let carry = self.carry(more);
        let rest = self.rest.wrapping_sub(carry.wrapping_mul(DIVISOR));
        Row { carry, quotient: self.quotient.wrapping_add(carry), rest }
    }

    /// The rest if `more` is divided.
    #[inline(always)]
    pub const fn rest(&self, more: i64) -> i64 {
        self.rest.wrapping_add(more).wrapping_sub(self.carry(more).wrapping_mul(DIVISOR))
    }
}

/// The division of numbers that have the same quotient: see [`Division::row`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    carry: i64,
    quotient: i64,
    rest: i64,
}

impl Row {
    /// As [`Division::carry`].
    #[inline(always)]
    pub const fn carry(&self, _more: i64) -> i64 {
        self.carry
    }

    /// As [`Division::quotient`].
    #[inline(always)]
    pub const fn quotient(&self, _more: i64) -> i64 {
        self.quotient
    }

    /// As [`Division::rest`].
    #[inline(always)]
    pub const fn rest(&self, more: i64) -> i64 {
        self.rest.wrapping_add(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const DIVISOR: i64, const MOST: i64>() {
        for first in 0..40 {
            let division = Division::<DIVISOR, MOST>::new(first);
            for more in 0..=MOST {
                let (quotient, rest) = ((first + more) / DIVISOR, (first + more) % DIVISOR);
                assert_eq!((division.quotient(more), division.rest(more)), (quotient, rest), "{first} + {more}");
                assert_eq!(division.carry(more), quotient - first / DIVISOR);
                let is_row = (first + more + 3) / DIVISOR == quotient;
                assert_eq!(division.is_row(more, 4), is_row, "{first} + {more}");
                for more in (more..more + 4).filter(|more| *more <= MOST && is_row) {
                    let (division, row) = (division, division.row(more));
                    assert_eq!(row.carry(more), division.carry(more));
                    assert_eq!((row.quotient(more), row.rest(more)), (division.quotient(more), division.rest(more)));
                }
            }
        }
    }

    #[test]
    fn numbers_that_follow_are_divided_alike() {
        check::<1, 0>();
        check::<1, 1>();
        check::<1, 9>();
        check::<7, 6>();
        check::<7, 7>();
        check::<7, 8>();
        check::<7, 100>();
        check::<{ i32::MAX as i64 - 100 }, 100>();
    }
}
