//! Slices that a call passes in place.
//!
//! A program may keep what it is called with: in a global, a list, a command buffer, an operation that still runs when the
//! call has failed. So a buffer over a slice is [movable memory](super::movable), and [`BorrowScope`] ends the borrow of each of
//! its buffers before the caller goes on. A buffer that the program has not kept is dropped; of any other one, the bytes are
//! copied, and the pins of the slice are waited for, which takes as long as the chunks that run. From then on no thread knows
//! the caller's address.
#![allow(unsafe_code, reason = "memory of callers; see above")]
#![cfg_attr(not(feature = "std"), allow(dead_code, reason = "sessions borrow slices"))]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::allocator::Allocator;
use super::buffer::Buffer;
use super::movable::Borrowed;
use super::parameters::BufferParameters;
use super::pool::MINIMUM_ALIGNMENT;
use super::promise::InputsOnlyRead;
use super::storage::Storage;
use crate::Result;

/// The slices that a call passes in place. Their borrows are ended before [`BorrowScope::enter`] returns or unwinds.
pub struct BorrowScope<'env> {
    buffers: Cell<Vec<Arc<Buffer>>>,
    /// Invariant: slices must outlive the scope, not only a part of it.
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> BorrowScope<'env> {
    /// Calls the closure with an empty scope, and then ends the borrows. The scope belongs to this function, so no caller can
    /// forget it.
    #[inline(always)]
    pub fn enter<R>(body: impl FnOnce(&BorrowScope<'env>) -> R) -> R {
        let scope = BorrowScope { buffers: Cell::new(Vec::new()), env: PhantomData };
        body(&scope)
    }

    /// Returns true if bytes can be passed in place: if they are aligned as kernels rely on.
    #[inline]
    pub fn accepts(bytes: *const [u8]) -> bool {
        bytes.len() > 0 && bytes.cast::<u8>().addr().is_multiple_of(MINIMUM_ALIGNMENT)
    }

    /// Creates a buffer over bytes, in place until the buffer is written or the scope ends. Without a promise, machine code is
    /// taken to write to it.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the bytes are not aligned to [`MINIMUM_ALIGNMENT`] bytes.
    #[inline(never)]
    pub fn borrow(
        &self,
        allocator: &Allocator,
        bytes: &'env [u8],
        promise: Option<InputsOnlyRead>,
    ) -> Result<Arc<Buffer>> {
        // SAFETY: the bytes outlive the call of `enter` that created this scope, as `'env` says.
        unsafe { self.borrow_memory(allocator, NonNull::from(bytes), promise) }
    }

    /// As [`BorrowScope::borrow`], of memory that others may write meanwhile: a program that reads it then sees any mixture of old
    /// and new bytes.
    ///
    /// # Safety
    /// The memory is valid for reads until the call of [`BorrowScope::enter`] that created this scope returns or unwinds.
    ///
    /// # Errors
    /// Those of [`BorrowScope::borrow`].
    pub unsafe fn borrow_memory(
        &self,
        allocator: &Allocator,
        bytes: NonNull<[u8]>,
        promise: Option<InputsOnlyRead>,
    ) -> Result<Arc<Buffer>> {
        // SAFETY: scopes are created and dropped by `enter` only, which the caller's promise lasts for. `drop` ends the borrow, after
        // which `Movable` does not access the storage any more.
        let memory = unsafe { Storage::from_memory(bytes) };
        let borrowed = Borrowed { memory, is_only_read: promise.is_some() };
        let buffer = allocator.wrap_borrowed(borrowed, BufferParameters::DEVICE)?;
        let mut buffers = self.buffers.take();
        buffers.push(Arc::clone(&buffer));
        self.buffers.set(buffers);
        Ok(buffer)
    }
}

impl Drop for BorrowScope<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let buffers = self.buffers.get_mut();
        if !buffers.is_empty() {
            end_all(buffers);
        }
    }
}

#[inline(never)]
fn end_all(buffers: &mut Vec<Arc<Buffer>>) {
    for mut buffer in buffers.drain(..) {
        // Without another share of the buffer there is no pin of it, and the borrow ends when the buffer is dropped.
        if Arc::get_mut(&mut buffer).is_none()
            && let Some(movable) = buffer.storage().ok().and_then(Storage::as_movable)
        {
            movable.end_borrow();
        }
    }
}

impl fmt::Debug for BorrowScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BorrowScope")
    }
}
