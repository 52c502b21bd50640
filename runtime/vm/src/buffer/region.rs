//! The range of the elements that a loop accesses whose types are known only at run time.

use core::ops::Range;

use super::Memory;
use incarnate_bytecode::trip_count::Reach;

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
