//! Strided regions of two dimensions within byte buffers.

use alloc::format;

use crate::vm::{Buffer, Scalar, Stack};
use crate::{Error, Result};

/// Elements that are copied at a time: some vectors, which stay in the first-level cache.
pub(super) const CHUNK: usize = 256;

/// Rows and columns of elements within a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'a> {
    buffer: &'a Buffer,
    /// Index of the first element, in elements.
    offset: u64,
    /// Distances between rows and between columns, in elements.
    strides: [u64; 2],
}

impl<'a> Region<'a> {
    /// Creates a region after checking that all of its elements of type `T` lie within the buffer.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for sizes and strides of more than 32 bits; OUT_OF_RANGE.
    pub(super) fn new<T: Scalar>(
        buffer: &'a Buffer,
        offset: u64,
        strides: [u64; 2],
        sizes: [u64; 2],
    ) -> Result<Region<'a>> {
        const LIMIT: u64 = u32::MAX as u64;
        if sizes.iter().chain(&strides).any(|number| *number > LIMIT) {
            return Err(Error::invalid_argument(format!(
                "region of sizes {sizes:?} and strides {strides:?} exceeds 32 bits"
            )));
        }
        if sizes.contains(&0) {
            return Ok(Region { buffer, offset, strides });
        }
        // The factors have 32 bits: neither product overflows.
        let last = ((sizes[0] - 1) * strides[0]).checked_add((sizes[1] - 1) * strides[1]);
        let available = buffer.length() / size_of::<T>() as u64;
        if last.and_then(|last| last.checked_add(offset)).is_none_or(|last| last >= available) {
            return Err(Error::out_of_range(format!(
                "region of sizes {sizes:?} and strides {strides:?} at element {offset} leaves the buffer of {available} \
                 elements"
            )));
        }
        Ok(Region { buffer, offset, strides })
    }

    fn index(&self, row: u64, column: u64) -> u64 {
        // Inside the region, which `new` found to be within the buffer.
        self.offset + row * self.strides[0] + column * self.strides[1]
    }

    /// Copies a run of a row from the buffer.
    #[inline]
    pub(super) fn load<T: Scalar>(&self, row: u64, column: u64, target: &mut [T]) -> Result<()> {
        let start = self.index(row, column);
        match self.strides[1] {
            1 => self.buffer.load_slice(start, target),
            0 if !target.is_empty() => {
                target.fill(self.buffer.load(start)?);
                Ok(())
            }
            stride => {
                let indices = (0..).map(|column| start + column * stride);
                target.iter_mut().zip(indices).try_for_each(|(element, index)| {
                    *element = self.buffer.load(index)?;
                    Ok(())
                })
            }
        }
    }

    /// Copies a run of a row into the buffer.
    #[inline]
    pub(super) fn store<T: Scalar>(&self, row: u64, column: u64, source: &[T]) -> Result<()> {
        let start = self.index(row, column);
        match self.strides[1] {
            1 => self.buffer.store_slice(start, source),
            stride => {
                let indices = (0..).map(|column| start + column * stride);
                source.iter().zip(indices).try_for_each(|(element, index)| self.buffer.store(index, *element))
            }
        }
    }
}

/// Merges and swaps dimensions so that rows become long and dense: one row if all regions are dense, transposed if the
/// first region's columns are dense. Only for operations whose order does not matter.
pub(super) fn lengthen_rows(sizes: [u64; 2], regions: &mut [&mut Region<'_>]) -> [u64; 2] {
    let [rows, columns] = sizes;
    if regions.iter().all(|region| region.strides[0] == columns * region.strides[1]) && rows > 1 {
        return [1, rows * columns];
    }
    let transposed = regions.first().is_some_and(|first| first.strides[0] == 1 && first.strides[1] != 1);
    if columns > 1 && !transposed {
        return sizes;
    }
    regions.iter_mut().for_each(|region| region.strides.reverse());
    [columns, rows]
}

/// Elements that a loop works on between two checks of the time: some tens of microseconds.
const ELEMENTS_PER_CHECK: usize = 1 << 16;

/// Checks the time of the call now and then in a loop.
pub(super) struct TimeCheck<'a> {
    stack: &'a Stack,
    elements: usize,
}

impl<'a> TimeCheck<'a> {
    pub(super) fn new(stack: &'a Stack) -> TimeCheck<'a> {
        TimeCheck { stack, elements: 0 }
    }

    /// Counts elements that are worked on next.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED.
    #[inline]
    pub(super) fn after(&mut self, elements: usize) -> Result<()> {
        self.elements = self.elements.saturating_add(elements.max(1));
        if self.elements < ELEMENTS_PER_CHECK {
            return Ok(());
        }
        self.elements = 0;
        self.stack.check_deadline()
    }
}

/// Calls `run` with the row, the column and the length of each run of at most [`CHUNK`] elements.
#[inline]
pub(super) fn for_each_run(
    stack: &Stack,
    sizes: [u64; 2],
    mut run: impl FnMut(u64, u64, usize) -> Result<()>,
) -> Result<()> {
    if sizes[1] == 0 {
        return Ok(());
    }
    let mut time = TimeCheck::new(stack);
    for row in 0..sizes[0] {
        let mut column = 0;
        while column < sizes[1] {
            let length = (sizes[1] - column).min(CHUNK as u64);
            time.after(length as usize)?;
            run(row, column, length as usize)?;
            column += length;
        }
    }
    Ok(())
}
