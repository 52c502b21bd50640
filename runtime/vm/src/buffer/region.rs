//! The range of the elements that a loop accesses whose types are known only at run time.

use core::ops::Range;

use super::Memory;

/// Elements that a nest accesses whose types are known only at run time: [`Grid`](super::Grid)'s checks, without its accesses.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// The address of the element of the first iteration.
    pub(crate) origin: *mut u8,
    /// The addresses of all elements.
    pub(crate) span: Range<usize>,
}

impl Region {
    /// Whether no byte belongs to both.
    pub(crate) const fn is_disjoint(&self, other: &Region) -> bool {
        self.span.end <= other.span.start || other.span.end <= self.span.start
    }
}

/// The elements that loops access, relative to that of the first iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// None: a loop has no iterations.
    Nothing,
    /// From the first of these to the second.
    Between(i64, i64),
    /// Further than numbers of 64 bits tell.
    Unknown,
}

impl Reach {
    /// Returns how far loops reach: for each, its trip count and its stride.
    pub(crate) fn of(loops: impl Iterator<Item = (usize, i64)> + Clone) -> Reach {
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
    fn from(self, base: i64) -> Option<(i64, i64)> {
        match self {
            Reach::Between(least, greatest) => Some((base.checked_add(least)?, base.checked_add(greatest)?)),
            Reach::Nothing | Reach::Unknown => None,
        }
    }

    /// Whether all are within a range where the first iteration has `base`.
    pub(crate) fn is_within(self, base: i64, least: i64, greatest: i64) -> bool {
        self == Reach::Nothing || self.from(base).is_some_and(|all| least <= all.0 && all.1 <= greatest)
    }

    /// The elements from the first to the last.
    #[cfg(feature = "profiling")]
    pub(crate) fn elements(self) -> u64 {
        self.from(0).map_or(0, |(least, greatest)| greatest.abs_diff(least).saturating_add(1))
    }
}

impl Memory<'_> {
    /// Checks the elements that loops read, or also write: `width` is the size of an element in bytes, a power of two.
    /// None as for [`Memory::grid`].
    pub(crate) fn region_of(&self, (width, is_written): (usize, bool), base: i64, reach: Reach) -> Option<Region> {
        let data = self.data.as_ptr();
        if is_written && !self.mutable {
            return None;
        }
        if reach == Reach::Nothing {
            return Some(Region { origin: data, span: 0..0 });
        }
        if !data.addr().is_multiple_of(width) {
            return None;
        }
        let (first, last) = reach.from(base)?;
        if first < 0 || last >= (self.length / width) as i64 {
            return None;
        }
        let address = |element: i64| data.addr() + element as usize * width;
        Some(Region { origin: data.wrapping_add(base as usize * width), span: address(first)..address(last + 1) })
    }

    /// All elements of a width, a power of two, for loads at any index, and their number. None where there are none, or they are not aligned.
    pub(crate) fn all_elements(&self, width: usize) -> Option<(Region, u64)> {
        let count = self.length / width;
        let region = self.region_of((width, false), 0, Reach::of([(count, 1)].into_iter()))?;
        (count != 0).then_some((region, count as u64))
    }
}
