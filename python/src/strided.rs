//! Elements at any strides, and copies of them in row-major order.
#![allow(unsafe_code, reason = "elements in memory of other libraries")]

use pyo3::prelude::*;

use crate::memory::Elements;

/// The alignment in bytes with which the runtime uses memory in place.
const ALIGNMENT: usize = incarnate_runtime::hal::MINIMUM_ALIGNMENT;

/// The addresses of elements.
#[derive(Debug)]
pub(crate) struct Region {
    /// Bytes of an element.
    size: usize,
    /// Extent and stride in bytes of the dimensions that have more than one element, outermost first.
    dimensions: Vec<(usize, isize)>,
    /// Bytes of all elements.
    length: usize,
}

impl Region {
    /// Checks the addresses of elements of `size` bytes: the first one's is `start`. Strides count elements, and may be negative or zero;
    /// without strides, elements are in row-major order.
    ///
    /// # Errors
    /// A text that says what is wrong: a negative extent, a null pointer, an address or a length that overflows.
    pub(crate) fn new(
        start: u64,
        size: usize,
        extents: &[i64],
        strides: Option<&[i64]>,
    ) -> Result<Region, &'static str> {
        const TOO_LARGE: &str = "it is too large";
        if extents.iter().any(|extent| *extent < 0) {
            return Err("an extent is negative");
        }
        let multiply = |product: i64, extent: &i64| product.checked_mul(*extent);
        if extents.contains(&0) {
            return Ok(Region { size, dimensions: Vec::new(), length: 0 });
        }
        let count = extents.iter().try_fold(1, multiply).ok_or(TOO_LARGE)?;
        let length = isize::try_from(count).ok().and_then(|count| count.checked_mul(size as isize)).ok_or(TOO_LARGE)?;
        if start == 0 {
            return Err("it has no memory");
        }
        let mut dimensions = Vec::new();
        let (mut lowest, mut highest, mut dense) = (i128::from(start), i128::from(start), 1i64);
        for (index, extent) in extents.iter().enumerate().rev() {
            let stride =
                strides.map_or(Some(dense), |strides| strides.get(index).copied()).ok_or("a stride is missing")?;
            dense = dense.saturating_mul(*extent);
            if *extent == 1 {
                continue;
            }
            let step = i128::from(stride) * size as i128;
            let reach = step.checked_mul(i128::from(*extent) - 1).ok_or(TOO_LARGE)?;
            lowest = lowest.checked_add(reach.min(0)).ok_or(TOO_LARGE)?;
            highest = highest.checked_add(reach.max(0)).ok_or(TOO_LARGE)?;
            let row = usize::try_from(*extent).ok().zip(isize::try_from(step).ok()).ok_or("a stride is too large")?;
            dimensions.push(row);
        }
        if lowest <= 0 || highest.checked_add(size as i128).is_none_or(|end| end > isize::MAX as i128) {
            return Err("its strides lead out of the address space");
        }
        dimensions.reverse();
        Ok(Region { size, dimensions, length: length as usize })
    }

    /// Returns the bytes of all elements.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns true if the elements are adjacent, in row-major order.
    pub(crate) fn is_row_major(&self) -> bool {
        self.adjacent().0 == 0
    }

    /// Returns the number of outer dimensions that must be walked, and the bytes of the adjacent elements within the others.
    fn adjacent(&self) -> (usize, usize) {
        let mut bytes = self.size;
        let mut outer = self.dimensions.len();
        for (extent, step) in self.dimensions.iter().rev() {
            if *step != bytes as isize {
                break;
            }
            // At most the length of all elements.
            bytes *= extent;
            outer -= 1;
        }
        (outer, bytes)
    }

    /// Copies the elements in row-major order.
    ///
    /// # Safety
    /// `first` is the address that was checked. The elements are readable, and no other thread writes to them during the call.
    unsafe fn copy(&self, first: *const u8, target: &mut [u8]) {
        let (outer, bytes) = self.adjacent();
        let dimensions = self.dimensions.get(..outer).unwrap_or_default();
        let mut position = vec![0usize; outer];
        let mut offset = 0isize;
        for chunk in target.chunks_exact_mut(bytes.max(1)) {
            // SAFETY: the offset is that of an element whose indices are within the extents, which `Region::new` has checked, and
            // `adjacent` of it and of those behind it. The target is another allocation.
            unsafe { std::ptr::copy_nonoverlapping(first.wrapping_offset(offset), chunk.as_mut_ptr(), chunk.len()) };
            for (index, (extent, step)) in position.iter_mut().zip(dimensions).rev() {
                if *index + 1 < *extent {
                    *index += 1;
                    offset += step;
                    break;
                }
                // Back to the first element of the dimension: the offset stays between those of elements.
                offset -= step * (*extent as isize - 1);
                *index = 0;
            }
        }
    }
}

/// Elements in row-major order that belong to an object of Python.
#[pyclass(frozen, module = "incarnate._native")]
pub(crate) struct Copied {
    /// At a multiple of [`ALIGNMENT`] in the bytes, which nothing else refers to.
    elements: Elements,
    _bytes: Vec<u8>,
}

// SAFETY: the elements are those of a vector, which may be on any thread.
unsafe impl Send for Copied {}
// SAFETY: as above; users of the elements synchronise their accesses.
unsafe impl Sync for Copied {}

impl Copied {
    /// Copies the elements of a region; None if memory is short.
    ///
    /// # Safety
    /// As for [`Region::copy`].
    pub(crate) unsafe fn new(region: &Region, first: *const u8) -> Option<Copied> {
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(region.length.checked_add(ALIGNMENT)?).ok()?;
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        bytes.resize(start.checked_add(region.length)?, 0);
        let target = bytes.get_mut(start..)?;
        // SAFETY: the caller's promise.
        unsafe { region.copy(first, target) };
        Some(Copied { elements: Elements::of_memory(target.as_mut_ptr(), region.length), _bytes: bytes })
    }

    /// Returns the elements, which stay where they are until this is dropped.
    pub(crate) fn elements(&self) -> Elements {
        self.elements
    }
}
