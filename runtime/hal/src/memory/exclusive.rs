//! The bytes of a buffer as a slice that the program owns.
#![allow(unsafe_code, reason = "a slice that a buffer of the same value keeps")]

use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::buffer::Buffer;

/// The bytes of a buffer that has no other holder.
#[derive(Debug)]
pub struct ExclusiveBytes {
    bytes: NonNull<[u8]>,
    /// Keeps the bytes. It is not shared as long as the value lives.
    buffer: Arc<Buffer>,
}

// SAFETY: no other holder of the buffer can reach the bytes, and a buffer may be dropped on any thread.
unsafe impl Send for ExclusiveBytes {}
// SAFETY: as above; a shared value only reads.
unsafe impl Sync for ExclusiveBytes {}

impl ExclusiveBytes {
    /// Takes a buffer.
    ///
    /// # Errors
    /// The buffer, if another holder shares its memory, or it is a part of an allocation.
    pub fn new(mut buffer: Arc<Buffer>) -> Result<ExclusiveBytes, Arc<Buffer>> {
        match buffer.exclusive_bytes().map(NonNull::from) {
            Some(bytes) => Ok(ExclusiveBytes { bytes, buffer }),
            None => Err(buffer),
        }
    }

    /// Returns the buffer.
    #[must_use]
    pub fn into_buffer(self) -> Arc<Buffer> {
        self.buffer
    }
}

impl DerefMut for ExclusiveBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow of this value is exclusive.
        unsafe { self.bytes.as_mut() }
    }
}

impl Deref for ExclusiveBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `exclusive_bytes` found the buffer, whose memory does not move with it, to have no other holder, and this value
        // keeps it without sharing it: nothing writes to the bytes, and they live as long as the value.
        unsafe { self.bytes.as_ref() }
    }
}
