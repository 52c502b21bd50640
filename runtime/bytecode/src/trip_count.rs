//! Trip counts of counted loops, and the ranges of affine functions of their iterations.
//!
//! Generated code and the interpreter use the same definitions. An iteration is counted from zero; a loop is its trip count
//! with the stride by which an iteration changes an index.

/// The relation of the tested value to the bound under which a loop continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// While less.
    Less,
    /// While not greater.
    LessOrEqual,
    /// While greater.
    Greater,
    /// While not less.
    GreaterOrEqual,
    /// While not equal.
    NotEqual,
}

mod sealed {
    pub trait Sealed {}
}

/// An integer that a loop counts with, signed or unsigned as it is compared.
pub trait Counter: Copy + Into<i128> + sealed::Sealed {
    /// The least and the greatest value.
    #[doc(hidden)]
    const RANGE: (i128, i128);
}

macro_rules! counters {
    ($($type:ty)*) => { $(
        impl sealed::Sealed for $type {}
        impl Counter for $type {
            const RANGE: (i128, i128) = (<$type>::MIN as i128, <$type>::MAX as i128);
        }
    )* };
}
counters!(i32 u32 i64 u64);

/// Returns how many of `first`, `first + step`, and so on, are in the relation to `bound` before one is not.
///
/// Returns None where the value would wrap before that one, or where the count exceeds `usize`. A step of zero, or away from
/// the bound, gives None unless the count is zero.
#[inline(never)]
#[must_use]
pub fn trip_count<T: Counter>(first: T, step: i64, relation: Relation, bound: T) -> Option<usize> {
    let (first, bound): (i128, i128) = (first.into(), bound.into());
    // The distance to the first value that fails, and the step towards it. No value needs more than 65 bits.
    let (distance, stride) = match relation {
        Relation::Less => (bound - first, step as i128),
        Relation::LessOrEqual => (bound - first + 1, step as i128),
        Relation::Greater => (first - bound, -(step as i128)),
        Relation::GreaterOrEqual => (first - bound + 1, -(step as i128)),
        Relation::NotEqual if first <= bound && step > 0 => (bound - first, step as i128),
        Relation::NotEqual => (first - bound, -(step as i128)),
    };
    if distance == 0 || (distance < 0 && relation != Relation::NotEqual) {
        return Some(0);
    }
    if distance < 0 || stride <= 0 {
        return None;
    }
    // 64 bits are enough for both, but for the distance of `GreaterOrEqual` over the whole range.
    let (distance, stride) = (u64::try_from(distance).ok()?, u64::try_from(stride).ok()?);
    let count = (distance - 1) / stride + 1;
    if relation == Relation::NotEqual && distance % stride != 0 {
        return None;
    }
    let last = first + i128::from(count) * i128::from(step);
    if last < T::RANGE.0 || last > T::RANGE.1 {
        return None;
    }
    usize::try_from(count).ok()
}

/// Returns the trip count of an outer loop whose iterations contain `divisor` iterations of the innermost each, and
/// `trip_count` in all. None where the divisor is not positive, or there is a remainder.
#[must_use]
pub fn outer_trip_count(trip_count: usize, divisor: i64) -> Option<usize> {
    let divisor = usize::try_from(divisor).ok().filter(|divisor| *divisor > 0)?;
    trip_count.is_multiple_of(divisor).then_some(trip_count / divisor)
}

/// Returns the least and the greatest value of `base + k0 * stride0 + k1 * stride1 + ..` over all iterations `k`. None where
/// a trip count is zero, or a value exceeds 64 bits.
#[must_use]
pub fn extent(base: i64, loops: impl IntoIterator<Item = (usize, i64)>) -> Option<(i64, i64)> {
    let (mut least, mut greatest) = (base, base);
    for (count, stride) in loops {
        let distance = i64::try_from(count.checked_sub(1)?).ok()?.checked_mul(stride)?;
        let end = if distance < 0 { &mut least } else { &mut greatest };
        *end = end.checked_add(distance)?;
    }
    Some((least, greatest))
}

/// The elements that loops access, relative to that of the first iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// None: a loop has no iterations.
    Nothing,
    /// From the first of these to the second.
    Between(i64, i64),
    /// Further than numbers of 64 bits tell.
    Unknown,
}

impl Reach {
    /// Returns how far loops reach: for each, its trip count and its stride.
    #[must_use]
    pub fn of(loops: impl Iterator<Item = (usize, i64)> + Clone) -> Reach {
        let (mut least, mut greatest) = (Some(0i64), Some(0i64));
        for (count, stride) in loops {
            let Some(last) = count.checked_sub(1) else { return Reach::Nothing };
            let distance = i64::try_from(last).ok().and_then(|last| last.checked_mul(stride));
            let end = if distance.is_some_and(|distance| distance < 0) { &mut least } else { &mut greatest };
            *end = end.and_then(|end| end.checked_add(distance?));
        }
        match (least, greatest) {
            (Some(least), Some(greatest)) => Reach::Between(least, greatest),
            _ => Reach::Unknown,
        }
    }

    /// Returns the least and the greatest element where the first iteration has `base`.
    #[must_use]
    pub fn from(self, base: i64) -> Option<(i64, i64)> {
        match self {
            Reach::Between(least, greatest) => Some((base.checked_add(least)?, base.checked_add(greatest)?)),
            Reach::Nothing | Reach::Unknown => None,
        }
    }

    /// Whether all are within a range where the first iteration has `base`.
    #[must_use]
    pub fn is_within(self, base: i64, least: i64, greatest: i64) -> bool {
        self == Reach::Nothing || self.from(base).is_some_and(|all| least <= all.0 && all.1 <= greatest)
    }

    /// How many elements there are from the first to the last.
    #[must_use]
    pub fn elements(self) -> u64 {
        self.from(0).map_or(0, |(least, greatest)| greatest.abs_diff(least).saturating_add(1))
    }
}

/// Whether one of the trip counts is zero.
pub fn has_no_iterations(loops: impl IntoIterator<Item = (usize, i64)>) -> bool {
    loops.into_iter().any(|(count, _)| count == 0)
}

/// Whether `base + k0 * stride0 + k1 * stride1 + ..` is within `least..=greatest` in all iterations `k`.
#[must_use]
pub fn is_within(base: i64, loops: &[(usize, i64)], least: i64, greatest: i64) -> bool {
    let each = || loops.iter().copied();
    has_no_iterations(each()) || extent(base, each()).is_some_and(|extent| least <= extent.0 && extent.1 <= greatest)
}

/// Whether `k0 * stride0 + k1 * stride1 + ..` differs between any two combinations of iterations `k`. The test is
/// conservative: it returns false for some loops of which that is true.
#[must_use]
pub fn is_injective(loops: &[(usize, i64)]) -> bool {
    is_injective_by(loops.len(), |at| loops[at])
}

/// As [`is_injective`], for a number of loops that a function returns.
pub fn is_injective_by(loops: usize, of: impl Fn(usize) -> (usize, i64)) -> bool {
    // An iteration of each loop must go further than all iterations of the loops with smaller strides.
    (0..loops).all(|at| {
        let (count, stride) = of(at);
        let stride = stride.unsigned_abs();
        let others = (0..loops).filter(|other| *other != at).map(&of);
        let smaller = others.map(|(count, stride)| (count, stride.unsigned_abs())).filter(|other| other.1 <= stride);
        let below = smaller.fold(0u128, |below, (count, stride)| {
            below.saturating_add(u128::from(stride) * (count.saturating_sub(1) as u128))
        });
        count < 2 || u128::from(stride) > below
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Relation::{Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};

    /// Counts by counting.
    fn counted(first: i32, step: i64, relation: Relation, bound: i32) -> Option<usize> {
        let (mut at, mut count) = (i64::from(first), 0);
        loop {
            let bound = i64::from(bound);
            let passes = match relation {
                Less => at < bound,
                LessOrEqual => at <= bound,
                Greater => at > bound,
                GreaterOrEqual => at >= bound,
                NotEqual => at != bound,
            };
            if !passes {
                return Some(count);
            }
            at += step;
            count += 1;
            if i32::try_from(at).is_err() || count > 100 {
                return None;
            }
        }
    }

    #[test]
    fn trip_counts_are_those_of_counting() {
        let numbers = [i32::MIN, i32::MIN + 1, i32::MIN + 5, -7, -1, 0, 1, 2, 9, i32::MAX - 4, i32::MAX - 1, i32::MAX];
        let mut some = 0;
        for first in numbers {
            for bound in numbers {
                if (i64::from(first) - i64::from(bound)).abs() > 50 {
                    continue;
                }
                for step in [-7, -3, -2, -1, 1, 2, 3, 8] {
                    for relation in [Less, LessOrEqual, Greater, GreaterOrEqual, NotEqual] {
                        let expected = counted(first, step, relation, bound);
                        let found = trip_count(first, step, relation, bound);
                        assert_eq!(found, expected, "{first} {step} {relation:?} {bound}");
                        some += usize::from(expected.is_some_and(|count| count > 1));
                    }
                }
            }
        }
        assert!(some > 100, "{some}");
    }

    #[test]
    fn wide_numbers_do_not_overflow() {
        assert_eq!(trip_count(i64::MIN, 1, Less, i64::MAX), Some(usize::MAX));
        assert_eq!(trip_count(i64::MIN, 2, LessOrEqual, i64::MAX), None);
        assert_eq!(trip_count(i64::MAX, -1, GreaterOrEqual, i64::MIN), None);
        assert_eq!(trip_count(0u64, i64::MAX, Less, u64::MAX), None);
        assert_eq!(trip_count(0u64, i64::MAX, Less, u64::MAX - 1), Some(2));
        assert_eq!(trip_count(u64::MAX, i64::MIN, Greater, 0), None);
        assert_eq!(trip_count(u32::MAX, -1, Greater, 0), Some(u32::MAX as usize));
        assert_eq!(trip_count(-1i64, 1, NotEqual, i64::MIN), None);
        assert_eq!(trip_count(5i64, 0, Less, 6), None);
        assert_eq!(trip_count(5i64, 0, Less, 5), Some(0));
    }

    #[test]
    fn outer_trip_counts_have_no_remainder() {
        let cases = [(12, 4), (0, 4), (12, 5), (12, 0), (12, -4), (5, 5), (usize::MAX, 1)];
        let expected = [Some(3), Some(0), None, None, None, Some(1), Some(usize::MAX)];
        assert_eq!(cases.map(|(count, divisor)| outer_trip_count(count, divisor)), expected);
    }

    #[test]
    fn extents_take_both_ends() {
        assert_eq!(extent(10, [(3, 4), (5, -2)]), Some((2, 18)));
        assert_eq!(extent(7, []), Some((7, 7)));
        assert_eq!(extent(i64::MAX, [(2, 1)]), None);
        assert_eq!(extent(0, [(0, 1)]), None);
        assert!(
            is_within(10, &[(3, 4)], 10, 18) && !is_within(10, &[(3, 4)], 10, 17) && !is_within(10, &[(3, 4)], 11, 18)
        );
        assert!(is_within(i64::MAX, &[(0, 1)], 0, 0) && !is_within(i64::MAX, &[(2, 1)], 0, i64::MAX));
    }

    #[test]
    fn combinations_are_injective_where_strides_are_wide_enough() {
        for (loops, injective) in [
            ([(4, 16), (16, 1), (1, 0)], true),
            ([(4, 16), (17, 1), (1, 0)], false),
            ([(4, -3), (3, 1), (2, 20)], true),
            ([(4, 3), (3, -1), (2, 11)], false),
            ([(4, 3), (2, 0), (1, 0)], false),
            ([(2, 1), (2, 1), (1, 0)], false),
            ([(2, 1), (2, -1), (1, 0)], false),
            ([(0, 1), (2, 3), (1, 5)], true),
        ] {
            assert_eq!(is_injective(&loops), injective, "{loops:?}");
            let mut seen = alloc::collections::BTreeSet::new();
            let [a, b, c] = loops;
            let iterations = (0..a.0).flat_map(|i| (0..b.0).flat_map(move |j| (0..c.0).map(move |k| (i, j, k))));
            let mut all = iterations.map(|(i, j, k)| i as i64 * a.1 + j as i64 * b.1 + k as i64 * c.1);
            assert_eq!(all.all(|at| seen.insert(at)), injective, "{loops:?}");
        }
        // The test is conservative.
        assert!(!is_injective(&[(3, 2), (2, 3)]));
        assert!(!is_injective(&[(usize::MAX, i64::MIN), (usize::MAX, i64::MIN)]));
    }
}
