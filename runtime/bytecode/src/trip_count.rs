//! Counted loops: how many turns they make, and what a sum of their turns comes to.

/// How the test of a loop compares the tested value with the bound for the loop to go on.
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

/// An integer that a loop counts with: signed, or unsigned as it is compared.
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

/// How often a test passes that compares `first`, then `first + step`, and so on, with `bound`, until it fails.
///
/// None where the number would wrap before; or is beyond what `usize` holds. A step of zero, or away from the bound, gives None
/// unless no test passes.
#[inline(always)]
#[must_use]
pub fn turns<T: Counter>(first: T, step: i64, relation: Relation, bound: T) -> Option<usize> {
    let (first, bound): (i128, i128) = (first.into(), bound.into());
    // The distance to the first number that fails, and the step towards it. All of it fits: numbers have 65 bits at most.
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

/// How many turns an outer loop makes, if so many turns of all its inner loops are `divisor` for each; None where that is not
/// positive, or there is a rest.
#[inline(always)]
#[must_use]
pub fn divided(turns: usize, divisor: i64) -> Option<usize> {
    let divisor = usize::try_from(divisor).ok().filter(|divisor| *divisor > 0)?;
    turns.is_multiple_of(divisor).then_some(turns / divisor)
}

/// The least and the greatest of `base + k0 * stride0 + k1 * stride1 + ..` for turns `k` from zero to below the counts; None
/// where one of the counts is zero, or 64 bits are not enough.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn extent<const D: usize>(base: i64, loops: [(usize, i64); D]) -> Option<(i64, i64)> {
    let (mut least, mut greatest) = (base, base);
    // By index, here and below: iterators over arrays by value stay loops, which hide constant strides from the optimiser.
    let mut at = 0;
    while at < D {
        let way = i64::try_from(loops[at].0.checked_sub(1)?).ok()?.checked_mul(loops[at].1)?;
        let end = if way < 0 { &mut least } else { &mut greatest };
        *end = end.checked_add(way)?;
        at += 1;
    }
    Some((least, greatest))
}

/// Whether a loop makes no turn.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn has_none<const D: usize>(loops: [(usize, i64); D]) -> bool {
    let (mut at, mut none) = (0, false);
    while at < D {
        none |= loops[at].0 == 0;
        at += 1;
    }
    none
}

/// Whether `base + k0 * stride0 + k1 * stride1 + ..` is from `least` to `greatest` for all turns `k` below the counts.
#[inline(always)]
#[must_use]
pub fn is_within<const D: usize>(base: i64, loops: [(usize, i64); D], least: i64, greatest: i64) -> bool {
    has_none(loops) || extent(base, loops).is_some_and(|extent| least <= extent.0 && extent.1 <= greatest)
}

/// Whether `k0 * stride0 + k1 * stride1 + ..` is another number for each combination of turns `k` below the counts. Some loops of
/// which that is true are not seen to be such.
#[inline]
#[must_use]
pub fn is_distinct<const D: usize>(loops: [(usize, i64); D]) -> bool {
    // Each loop must go further in a turn than those with smaller strides do in all of theirs.
    let (mut at, mut distinct) = (0, true);
    while at < D {
        let stride = loops[at].1.unsigned_abs();
        let (mut other, mut below) = (0, 0u128);
        while other < D {
            let smaller = loops[other].1.unsigned_abs();
            if other != at && smaller <= stride {
                below = below.saturating_add(u128::from(smaller) * (loops[other].0.saturating_sub(1) as u128));
            }
            other += 1;
        }
        distinct &= loops[at].0 < 2 || u128::from(stride) > below;
        at += 1;
    }
    distinct
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
    fn turns_are_those_of_counting() {
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
                        let found = turns(first, step, relation, bound);
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
        assert_eq!(turns(i64::MIN, 1, Less, i64::MAX), Some(usize::MAX));
        assert_eq!(turns(i64::MIN, 2, LessOrEqual, i64::MAX), None);
        assert_eq!(turns(i64::MAX, -1, GreaterOrEqual, i64::MIN), None);
        assert_eq!(turns(0u64, i64::MAX, Less, u64::MAX), None);
        assert_eq!(turns(0u64, i64::MAX, Less, u64::MAX - 1), Some(2));
        assert_eq!(turns(u64::MAX, i64::MIN, Greater, 0), None);
        assert_eq!(turns(u32::MAX, -1, Greater, 0), Some(u32::MAX as usize));
        assert_eq!(turns(-1i64, 1, NotEqual, i64::MIN), None);
        assert_eq!(turns(5i64, 0, Less, 6), None);
        assert_eq!(turns(5i64, 0, Less, 5), Some(0));
    }

    #[test]
    fn turns_are_divided_without_a_rest() {
        let cases = [(12, 4), (0, 4), (12, 5), (12, 0), (12, -4), (5, 5), (usize::MAX, 1)];
        let expected = [Some(3), Some(0), None, None, None, Some(1), Some(usize::MAX)];
        assert_eq!(cases.map(|(turns, by)| divided(turns, by)), expected);
    }

    #[test]
    fn extents_take_both_ends() {
        assert_eq!(extent(10, [(3, 4), (5, -2)]), Some((2, 18)));
        assert_eq!(extent(7, []), Some((7, 7)));
        assert_eq!(extent(i64::MAX, [(2, 1)]), None);
        assert_eq!(extent(0, [(0, 1)]), None);
        assert!(
            is_within(10, [(3, 4)], 10, 18) && !is_within(10, [(3, 4)], 10, 17) && !is_within(10, [(3, 4)], 11, 18)
        );
        assert!(is_within(i64::MAX, [(0, 1)], 0, 0) && !is_within(i64::MAX, [(2, 1)], 0, i64::MAX));
    }

    #[test]
    fn combinations_are_distinct_where_strides_leave_room() {
        for (loops, distinct) in [
            ([(4, 16), (16, 1), (1, 0)], true),
            ([(4, 16), (17, 1), (1, 0)], false),
            ([(4, -3), (3, 1), (2, 20)], true),
            ([(4, 3), (3, -1), (2, 11)], false),
            ([(4, 3), (2, 0), (1, 0)], false),
            ([(2, 1), (2, 1), (1, 0)], false),
            ([(2, 1), (2, -1), (1, 0)], false),
            ([(0, 1), (2, 3), (1, 5)], true),
        ] {
            assert_eq!(is_distinct(loops), distinct, "{loops:?}");
            let mut seen = alloc::collections::BTreeSet::new();
            let [a, b, c] = loops;
            let turns = (0..a.0).flat_map(|i| (0..b.0).flat_map(move |j| (0..c.0).map(move |k| (i, j, k))));
            let mut all = turns.map(|(i, j, k)| i as i64 * a.1 + j as i64 * b.1 + k as i64 * c.1);
            assert_eq!(all.all(|at| seen.insert(at)), distinct, "{loops:?}");
        }
        // Overlaps that do not happen need not be seen.
        assert!(!is_distinct([(3, 2), (2, 3)]));
        assert!(!is_distinct([(usize::MAX, i64::MIN), (usize::MAX, i64::MIN)]));
    }
}
