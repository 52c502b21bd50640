//! An image as plain bytes, between loading the segments and protecting the pages.

use alloc::format;
use core::ops::Range;

use object::Pod;
use object::pod::from_bytes;

use super::layout::Layout;
use crate::{Error, Result};
/// The bytes of an image with their addresses in the file and at run time. All accesses are bounds-checked.
/// against the bytes.
#[derive(Debug)]
pub(super) struct Image<'a> {
    bytes: &'a mut [u8],
    /// The file's address of the first byte.
    start: u64,
    /// The difference between run-time addresses and the file's, modulo 2^64.
    pub(super) bias: u64,
}

impl<'a> Image<'a> {
    /// Creates an image over zeroed bytes, one for each address of the layout's span, and copies the segments'
    /// contents. `base` is the run-time address of the first byte.
    ///
    /// # Errors
    /// INTERNAL if the number of bytes differs from the span.
    pub(super) fn new(layout: &Layout<'_>, bytes: &'a mut [u8], base: u64) -> Result<Image<'a>> {
        let start = layout.span.start;
        let mut image = Image { bytes, start, bias: base.wrapping_sub(start) };
        if image.bytes.len() as u64 != layout.span.end - start {
            return Err(Error::internal(format!("{} bytes for an image at {:#x?}", image.bytes.len(), layout.span)));
        }
        for segment in &layout.segments {
            let length = segment.contents.len() as u64;
            image.slice_mut(segment.addresses.start, length, "segment")?.copy_from_slice(segment.contents);
        }
        Ok(image)
    }

    fn range(&self, address: u64, size: u64, what: &str) -> Result<Range<usize>> {
        let total = self.bytes.len() as u64;
        let offset = address.wrapping_sub(self.start);
        if offset > total || size > total - offset {
            return Err(Error::invalid_argument(format!(
                "ELF {what} of {size} bytes at {address:#x} lies outside of the image, which has {total} bytes at {:#x}",
                self.start
            )));
        }
        // Both are at most `total`, which is a length in memory.
        Ok(offset as usize..(offset + size) as usize)
    }

    /// Returns the bytes at an address.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, with `what`, if they exceed the image.
    pub(super) fn slice(&self, address: u64, size: u64, what: &str) -> Result<&[u8]> {
        let range = self.range(address, size, what)?;
        Ok(self.bytes.get(range).unwrap_or_default())
    }

    /// Returns the bytes from an address to the end of the image; empty beyond it.
    pub(super) fn tail(&self, address: u64) -> &[u8] {
        usize::try_from(address.wrapping_sub(self.start))
            .ok()
            .and_then(|start| self.bytes.get(start..))
            .unwrap_or_default()
    }

    /// Returns the mutable bytes at an address.
    ///
    /// # Errors
    /// Those of [`Image::slice`].
    pub(super) fn slice_mut(&mut self, address: u64, size: u64, what: &str) -> Result<&mut [u8]> {
        let range = self.range(address, size, what)?;
        Ok(self.bytes.get_mut(range).unwrap_or_default())
    }

    /// Copies entry `index` of a table at an address.
    ///
    /// # Errors
    /// Those of [`Image::slice`].
    pub(super) fn entry<T: Pod + Copy>(&self, table: u64, index: u64, what: &str) -> Result<T> {
        let size = size_of::<T>() as u64;
        let address = table.wrapping_add(index.wrapping_mul(size));
        let bytes = self.slice(address, size, what)?;
        from_bytes::<T>(bytes).map(|(value, _)| *value).map_err(|()| misaligned(what, address))
    }

    /// Reads a little-endian number of `size` bytes.
    pub(super) fn word(&self, address: u64, size: u64, what: &str) -> Result<u64> {
        let bytes = self.slice(address, size, what)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

#[cold]
fn misaligned(what: &str, address: u64) -> Error {
    Error::invalid_argument(format!("ELF {what} at {address:#x} is misaligned"))
}
