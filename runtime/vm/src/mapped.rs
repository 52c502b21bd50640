//! The bytes of a mapped file.
#![allow(unsafe_code, reason = "the address of bytes that another process can change")]

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use super::guest;
use incarnate_bytecode::{Contents, MappedContents};

/// Bytes that another process can change: never borrowed as a slice, only copied, or reached by their address.
///
/// Only [`MappedBytes::new`] creates them, so that buffers may rely on the address.
pub struct MappedBytes {
    data: NonNull<u8>,
    length: usize,
    owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the owner is Send and Sync and keeps the bytes, which are reached through raw pointers only.
unsafe impl Send for MappedBytes {}
// SAFETY: as above.
unsafe impl Sync for MappedBytes {}

impl MappedBytes {
    /// Takes over the bytes that `owner` keeps in place.
    ///
    /// # Safety
    /// `data` must be valid for reads of `length` bytes until `owner` is dropped, and no Rust reference to the bytes may exist
    /// meanwhile. The bytes may change at any time.
    pub unsafe fn new(data: NonNull<u8>, length: usize, owner: Box<dyn Any + Send + Sync>) -> MappedBytes {
        MappedBytes { data, length, owner }
    }

    /// Returns what keeps the bytes, if it is a `T`.
    #[must_use]
    pub fn owner<T: Any>(&self) -> Option<&T> {
        self.owner.downcast_ref()
    }

    /// Returns the address of the first byte of a range.
    #[must_use]
    pub fn address(&self, range: &Range<usize>) -> Option<NonNull<u8>> {
        let is_within = range.start <= range.end && range.end <= self.length;
        // SAFETY: the range is within the bytes, or empty at their end.
        is_within.then(|| unsafe { self.data.add(range.start) })
    }

    /// Shares the bytes as the contents of a file.
    #[must_use]
    pub fn contents(self) -> Contents {
        Contents::mapped(self)
    }
}

impl MappedContents for MappedBytes {
    fn length(&self) -> usize {
        self.length
    }

    fn read(&self, offset: usize, target: &mut [u8]) -> bool {
        let range = offset..offset.saturating_add(target.len());
        let Some(source) = self.address(&range) else { return false };
        // SAFETY: `address` checked the range, which the owner keeps; the target is borrowed exclusively.
        unsafe { guest::copy(source.as_ptr(), target.as_mut_ptr(), target.len()) };
        true
    }
}

impl fmt::Debug for MappedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedBytes({} bytes)", self.length)
    }
}
