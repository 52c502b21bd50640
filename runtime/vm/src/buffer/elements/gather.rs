//! Loads of single elements at indices that loops compute.
#![allow(unsafe_code, reason = "elements at indices that are compared with the number of elements")]

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;

use super::{Element, Grid, GridMut, load};
use crate::buffer::Memory;

/// The elements of a buffer that a nest loads at indices that its iterations compute.
pub struct Gather<'a, T> {
    origin: NonNull<T>,
    /// The number of elements: at least one.
    count: u64,
    /// The first of those that the nest stores to, and their number.
    stored: (u64, u64),
    buffer: PhantomData<&'a [T]>,
}

/// Whether there was no element at an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses(bool);

impl Misses {
    /// Whether there was none at one of them: the loops of the bytecode must run then.
    #[inline(always)]
    #[must_use]
    pub const fn any(self) -> bool {
        self.0
    }
}

// SAFETY: addresses in a buffer, which is `Sync`. Loads that race are those that the caller of `Memory::gather` has promised.
unsafe impl<T: Element> Sync for Gather<'_, T> {}

impl<T: Element> Gather<'_, T> {
    /// Returns the element at an index. Where there is none, or the nest stores to it, it notes that, and returns the first one. So a loop
    /// has no branch for it, and is vectorised.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: i64, misses: &mut Misses) -> T {
        let is_within = is_element(index, self.count, self.stored);
        misses.0 |= !is_within;
        let index = if is_within { index } else { 0 };
        // SAFETY: less than the number of elements, or the first one, which there is: `Memory::gather` has checked that they are aligned
        // for the type and within the buffer.
        unsafe { load(self.origin.as_ptr().offset(index as isize)) }
    }

    /// Returns the element at an index; None where there is none, or the nest stores to it.
    #[inline(always)]
    #[must_use]
    pub fn element(&self, index: i64) -> Option<T> {
        let mut misses = Misses::default();
        let element = self.get(index, &mut misses);
        (!misses.any()).then_some(element)
    }

    /// The same without what a nest stores to a grid, and without what is between that and the elements of other grids.
    #[must_use]
    pub fn except<U: Element, const E: usize>(self, stored: &GridMut<'_, U, E>) -> Self {
        let Grid { span, .. } = &stored.0;
        Gather {
            stored: elements_of(self.origin.as_ptr().addr(), (size_of::<T>(), self.count), self.stored, span),
            ..self
        }
    }
}

/// Whether there is an element at an index, of so many in number, which is none of those that are stored: the first one, and how many.
#[inline(always)]
pub(crate) const fn is_element(index: i64, count: u64, (first, stored): (u64, u64)) -> bool {
    let number = index as u64;
    (number < count) & (number.wrapping_sub(first) >= stored)
}

/// Adds the elements with bytes at the addresses `span` to those of a range: the first one, and how many. `first` is the address of the first of
/// all elements, of so many bytes each and so many in number.
pub(crate) fn elements_of(
    first: usize,
    (width, count): (usize, u64),
    others: (u64, u64),
    span: &Range<usize>,
) -> (u64, u64) {
    let start = (span.start.saturating_sub(first) / width) as u64;
    let end = (span.end.saturating_sub(first).div_ceil(width) as u64).min(count);
    match others {
        _ if start >= end => others,
        (_, 0) => (start, end - start),
        (first, count) => {
            let (start, end) = (first.min(start), (first + count).max(end));
            (start, end - start)
        }
    }
}

impl<'a> Memory<'a> {
    /// Returns all elements, for loads at any index. None where there are none or they are not aligned: the loops must then run with checked accesses.
    ///
    /// # Safety
    /// As for [`Memory::grid`]; an index that was loaded is [`settled`](super::settled).
    #[inline(never)]
    #[must_use]
    pub unsafe fn gather<T: Element>(&self) -> Option<Gather<'a, T>> {
        let (region, count) = self.all_elements(size_of::<T>())?;
        let origin = NonNull::new(region.origin.cast())?;
        Some(Gather { origin, count, stored: (0, 0), buffer: PhantomData })
    }
}

impl<T> fmt::Debug for Gather<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_no_element() {
        let of = |others: (u64, u64), span: Range<usize>| elements_of(1000, (4, 100), others, &span);
        assert_eq!(of((0, 0), 0..1000), (0, 0));
        assert_eq!(of((0, 0), 900..1004), (0, 1));
        assert_eq!(of((0, 0), 1006..1010), (1, 2));
        assert_eq!(of((0, 0), 1390..2000), (97, 3));
        assert_eq!(of((0, 0), 1400..2000), (0, 0));
        assert_eq!(of((7, 2), 1400..2000), (7, 2));
        assert_eq!(of((7, 2), 1040..1044), (7, 4));
        assert_eq!(of((7, 2), 1020..1024), (5, 4));
    }
}
