//! Host memory at addresses that kernels can use.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use super::element::Element;
use crate::hal::MINIMUM_ALIGNMENT;

/// Elements that begin at a multiple of 64 bytes, so that functions can borrow them in place; slices at other addresses
/// are copied. Dereferences to a slice.
///
/// ```
/// # use incarnate_runtime::session::AlignedVec;
/// let mut image = AlignedVec::<f32>::zeroed(3 * 224 * 224);
/// image[0] = 1.0;
/// assert!(image.as_ptr().addr().is_multiple_of(64));
/// assert_eq!(AlignedVec::from(&[1, 2, 3][..])[..], [1, 2, 3]);
/// ```
pub struct AlignedVec<T> {
    /// Never grows, so that its address stays the same.
    memory: Vec<T>,
    /// Index of the first element.
    start: usize,
    length: usize,
}

impl<T: Element> AlignedVec<T> {
    /// Creates `length` zero elements.
    #[must_use]
    pub fn zeroed(length: usize) -> AlignedVec<T> {
        // Element sizes are powers of two of at most 16 bytes.
        let memory = vec![T::zeroed(); length.saturating_add(MINIMUM_ALIGNMENT / size_of::<T>())];
        let start = memory.as_ptr().align_offset(MINIMUM_ALIGNMENT);
        AlignedVec { start: if start <= memory.len() - length { start } else { 0 }, memory, length }
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl<T> AsRef<[T]> for AlignedVec<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Element> From<&[T]> for AlignedVec<T> {
    fn from(elements: &[T]) -> AlignedVec<T> {
        let mut aligned = AlignedVec::zeroed(elements.len());
        aligned.copy_from_slice(elements);
        aligned
    }
}

impl<T: Element> Clone for AlignedVec<T> {
    fn clone(&self) -> AlignedVec<T> {
        AlignedVec::from(&**self)
    }
}

impl<T: fmt::Debug> fmt::Debug for AlignedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Element + PartialEq + fmt::Debug>(one: T) {
        for length in [0, 1, 15, 1000] {
            let mut elements = AlignedVec::<T>::zeroed(length);
            elements.fill(one);
            let moved = [elements.clone(), elements];
            for elements in &moved {
                assert!(elements.as_ptr().addr().is_multiple_of(64));
                assert_eq!((elements.len(), elements.iter().all(|element| *element == one)), (length, true));
            }
        }
    }

    #[test]
    fn elements_of_all_sizes_begin_at_multiples_of_64_bytes() {
        check(1u8);
        check(-1i16);
        check(1.5f32);
        check(1.5f64);
    }
}
