//! Loads of single elements at indices that a strip holds.
#![allow(unsafe_code, reason = "elements at indices that are compared with the number of elements")]

use super::super::super::buffer::lines::{Convert, read};
use super::super::super::buffer::{Buffer, Region, elements_of, is_element, settled};
use super::Source;
use super::kernels::width;
use incarnate_bytecode::ir::nest::Element;

/// A buffer that iterations load from at computed indices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    pub(super) source: Source,
    pub(super) element: Element,
}

/// All elements of such a buffer: at least one.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    region: Region,
    count: u64,
    /// The first of those that the nest stores to, and their number.
    stored: (u64, u64),
}

impl Elements {
    /// Those of a buffer but for those in regions that a nest stores to; None where it has none, or they are not aligned.
    pub(super) fn of<'r>(
        buffer: &Buffer,
        element: Element,
        stored: impl Iterator<Item = &'r Region>,
    ) -> Option<Elements> {
        let width = width(element);
        let (region, count) = buffer.memory().all_elements(width)?;
        let first = region.origin.addr();
        let stored = stored.fold((0, 0), |others, each| elements_of(first, (width, count), others, &each.span));
        Some(Elements { region, count, stored })
    }
}

/// Loads elements at the indices of a strip into another one; false where one is out of range, or the nest stores to it: the first element is
/// loaded there.
///
/// # Safety
/// Both strips have so many numbers, of 64 bits and as wide as the element is in a register. The elements are of the type that the function
/// was selected for.
pub(super) type Gather = unsafe fn(from: &Elements, indices: *const i64, into: *mut u8, count: usize) -> bool;

/// Returns the function for a type of elements, which are extended to at least 32 bits.
pub(super) fn gather(element: Element) -> Gather {
    match element {
        Element::u8 => gather_as::<u8>,
        Element::i8 => gather_as::<i8>,
        Element::u16 => gather_as::<u16>,
        Element::i16 => gather_as::<i16>,
        Element::i32 | Element::f32 => gather_as::<i32>,
        Element::i64 | Element::f64 => gather_as::<i64>,
    }
}

/// # Safety
/// As for [`Gather`].
unsafe fn gather_as<T: Convert>(from: &Elements, indices: *const i64, into: *mut u8, count: usize) -> bool {
    let (elements, numbers) = (from.region.origin.cast::<T>().cast_const(), into.cast::<T::Number>());
    let mut are_within = true;
    for at in 0..count {
        // SAFETY: the caller promises an index there. It may be an element in memory, of which another thread makes another number: it is
        // one number when it is compared.
        let index = settled(unsafe { read(indices.add(at)) });
        let is_within = is_element(index, from.count, from.stored);
        are_within &= is_within;
        let index = if is_within { index as usize } else { 0 };
        // SAFETY: less than the number of elements, or the first one, which there is: `Elements::of` has checked that they are within the
        // buffer and aligned. The caller promises space for the number.
        unsafe { numbers.add(at).write(read(elements.add(index)).extended()) };
    }
    are_within
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn indices_out_of_range_load_the_first_element() {
        let buffer = Buffer::copy_of(&[0xFE, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let of = |element: Element, indices: [i64; 4]| {
            let elements = Elements::of(&buffer, element, core::iter::empty()).unwrap();
            let mut numbers = [0i32; 4];
            // SAFETY: both strips have four numbers; elements of these types are as wide as an `i32` in a register.
            let are_within = unsafe { gather(element)(&elements, indices.as_ptr(), numbers.as_mut_ptr().cast(), 4) };
            (numbers, are_within)
        };
        assert_eq!(of(Element::u8, [8, 1, 0, 8]), ([8, 1, 0xFE, 8], true));
        assert_eq!(of(Element::i8, [0, 9, -1, 3]), ([-2, -2, -2, 3], false));
        assert!(!of(Element::i32, [1, 1, i64::MIN, 2]).1);
        assert_eq!(of(Element::i32, [1, 1, 1, 1]), ([0x0706_0504; 4], true));
        assert!(Elements::of(&Buffer::copy_of(&[1, 2, 3]).unwrap(), Element::f32, core::iter::empty()).is_none());
    }
}
