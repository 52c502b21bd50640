//! The memory of a buffer, borrowed: what accesses to it need.
#![allow(unsafe_code, reason = "memory whose address and length its owner gave")]

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use super::scalar::sealed;
use super::sip_hash::SipState;
use super::{Buffer, ConstantBytes, Scalar};
use crate::borrowed::BorrowedRef;
use crate::ledger::Ledger;
use crate::reference::Ref;
use crate::{Error, Result, guest};

/// The memory of a buffer for as long as it is borrowed: by kernels from the dispatch that binds it, by others from the [`Buffer`]. It counts no
/// reference, so that no kernel can keep it for longer.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    pub(super) data: NonNull<u8>,
    pub(super) length: usize,
    pub(super) mutable: bool,
    /// The bytes of a constant that are the first ones of the memory, if it has those of a constant.
    pub(super) constant: Option<ConstantBytes>,
    pub(super) buffer: PhantomData<&'a Buffer>,
}

// SAFETY: as for `Buffer`, whose address, length and access these are.
unsafe impl Send for Memory<'_> {}
// SAFETY: as above.
unsafe impl Sync for Memory<'_> {}

/// What has the memory of a buffer: memory itself, or a reference that may be one to a buffer.
pub trait HasMemory {
    /// Returns the memory; None for a reference that is null or not one to a buffer.
    fn memory(&self) -> Option<Memory<'_>>;

    /// Returns the memory.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the reference is null or not one to a buffer.
    fn expect_memory(&self) -> Result<Memory<'_>>;
}

impl HasMemory for Memory<'_> {
    #[inline(always)]
    fn memory(&self) -> Option<Memory<'_>> {
        Some(*self)
    }

    #[inline(always)]
    fn expect_memory(&self) -> Result<Memory<'_>> {
        Ok(*self)
    }
}

impl HasMemory for Ref {
    #[inline(always)]
    fn memory(&self) -> Option<Memory<'_>> {
        match self {
            Ref::Buffer(buffer) => Some(buffer.memory()),
            _ => None,
        }
    }

    #[inline(always)]
    fn expect_memory(&self) -> Result<Memory<'_>> {
        Ok(self.buffer()?.memory())
    }
}

impl HasMemory for BorrowedRef<'_> {
    #[inline(always)]
    fn memory(&self) -> Option<Memory<'_>> {
        (**self).memory()
    }

    #[inline(always)]
    fn expect_memory(&self) -> Result<Memory<'_>> {
        (**self).expect_memory()
    }
}

impl<T: HasMemory> HasMemory for &T {
    #[inline(always)]
    fn memory(&self) -> Option<Memory<'_>> {
        (**self).memory()
    }

    #[inline(always)]
    fn expect_memory(&self) -> Result<Memory<'_>> {
        (**self).expect_memory()
    }
}

impl Memory<'_> {
    /// Borrows memory, with the bytes of a constant that it has, so that kernels may keep them in another layout. Where the memory is null, so
    /// must the length be.
    ///
    /// # Safety
    /// For the lifetime, `data` is valid for reads of `length` bytes, and for writes where `mutable` is set, and no Rust reference to the memory
    /// exists, unless it is shared and `mutable` is not set. The constant lives as long, and has as many bytes from there on. Kernels compute
    /// with unspecified numbers where something has written to the memory.
    #[inline(always)]
    #[must_use]
    pub unsafe fn borrowed(data: *mut u8, length: usize, mutable: bool, constant: Option<ConstantBytes>) -> Self {
        let data = NonNull::new(data).unwrap_or(NonNull::<u128>::dangling().cast());
        Memory { data, length, mutable, constant, buffer: PhantomData }
    }

    /// Length in bytes.
    #[inline]
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length as u64
    }

    /// The address of the first byte, as a number.
    pub(super) fn first_address(&self) -> usize {
        self.data.addr().get()
    }

    /// Whether the bytes are those of a constant.
    pub(super) const fn is_of_constant(&self) -> bool {
        self.constant.is_some()
    }

    /// Returns which bytes of a constant are those from an address in the memory on.
    pub(super) fn constant_at(&self, address: *const u8) -> Option<ConstantBytes> {
        Some(self.constant?.moved(address.addr().wrapping_sub(self.data.as_ptr().addr())))
    }

    #[inline(always)]
    pub(super) fn address(&self, element: u64, count: u64, size: u64) -> Result<*mut u8> {
        // Elements, not bytes: `element + count` and the product may overflow.
        match element.checked_add(count).and_then(|end| end.checked_mul(size)) {
            // SAFETY: `element * size` is at most the length, hence inside of the allocation or one past its end.
            Some(end) if end <= self.length as u64 => Ok(unsafe { self.data.as_ptr().add((element * size) as usize) }),
            _ => Err(out_of_bounds(self.length, element, count, size)),
        }
    }

    #[inline(always)]
    pub(super) fn address_mut(&self, element: u64, count: u64, size: u64) -> Result<*mut u8> {
        if !self.mutable {
            return Err(read_only());
        }
        self.address(element, count, size)
    }

    /// As `address` of one element, for the inner loops: one comparison. Whether it is aligned is that of the memory.
    #[inline(always)]
    fn element<T>(&self, element: u64) -> Result<sealed::Address> {
        if element < (self.length / size_of::<T>()) as u64 {
            // SAFETY: the element ends within the length, hence inside of the allocation.
            let address = unsafe { self.data.as_ptr().add(element as usize * size_of::<T>()) };
            Ok(sealed::Address(address))
        } else {
            Err(out_of_bounds(self.length, element, 1, size_of::<T>() as u64))
        }
    }

    /// Loads the scalar at the given index, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    #[inline(always)]
    pub fn load<T: Scalar>(&self, element: u64) -> Result<T> {
        Ok(T::load(self.element::<T>(element)?))
    }

    /// Stores a scalar at the given index, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the memory is read-only.
    #[inline(always)]
    pub fn store<T: Scalar>(&self, element: u64, value: T) -> Result<()> {
        if !self.mutable {
            return Err(read_only());
        }
        T::store(self.element::<T>(element)?, value);
        Ok(())
    }

    /// Stores `count` times the same scalar, from the given index on, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the memory is read-only.
    pub fn fill<T: Scalar>(&self, element: u64, count: u64, value: T) -> Result<()> {
        let start = self.address_mut(element, count, size_of::<T>() as u64)?;
        value.repeat(sealed::Address(start), count as usize);
        Ok(())
    }

    /// Copies bytes, also within the same memory; offsets and length in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the target is read-only.
    pub fn copy(
        source: Memory<'_>,
        source_offset: u64,
        target: Memory<'_>,
        target_offset: u64,
        length: u64,
    ) -> Result<()> {
        let from = source.address(source_offset, length, 1)?;
        let to = target.address_mut(target_offset, length, 1)?;
        // SAFETY: both ranges were checked, and they may overlap.
        unsafe { guest::copy(from, to, length as usize) };
        Ok(())
    }

    /// True where the two ranges hold the same bytes; offsets and length in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    pub fn equal(lhs: Memory<'_>, lhs_offset: u64, rhs: Memory<'_>, rhs_offset: u64, length: u64) -> Result<bool> {
        let lhs = lhs.address(lhs_offset, length, 1)?;
        let rhs = rhs.address(rhs_offset, length, 1)?;
        // Atomic, as the answer decides where the program goes on.
        // SAFETY: both ranges were checked, bytes have no alignment, and memory that another thread may write meanwhile is never
        // borrowed as plain bytes.
        let byte =
            |start: *mut u8, index: usize| unsafe { AtomicU8::from_ptr(start.add(index)).load(Ordering::Relaxed) };
        Ok((0..length as usize).all(|index| byte(lhs, index) == byte(rhs, index)))
    }

    /// SipHash-2-4 of a range, with the key that `vm.buffer.hash` fixes; offset and length in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    pub fn hash(&self, offset: u64, length: u64) -> Result<i64> {
        let start = self.address(offset, length, 1)?;
        let mut state = SipState::new();
        let (words, rest) = (length as usize / 8, length as usize % 8);
        for word in 0..words {
            // SAFETY: the range was checked in the line above, and the word is within it.
            let word = unsafe { start.add(word * 8) };
            state.absorb(u64::from_le(u64::load(sealed::Address(word))));
        }
        let mut tail = [0; 8];
        // SAFETY: as above, of the bytes behind the words.
        unsafe { guest::copy(start.add(words * 8), tail.as_mut_ptr(), rest) };
        state.absorb(length << 56 | u64::from_le_bytes(tail));
        Ok(state.finish() as i64)
    }

    /// A buffer with a copy of a range; offset and length in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE and those of [`Buffer::zeroed`].
    pub fn clone_range(
        &self,
        offset: u64,
        length: u64,
        alignment: u32,
        ledger: Option<&Ledger>,
    ) -> Result<Arc<Buffer>> {
        self.address(offset, length, 1)?;
        let copy = Buffer::zeroed(length, alignment, ledger)?;
        Memory::copy(*self, offset, copy.memory(), 0, length)?;
        Ok(copy)
    }
}

#[cold]
#[inline(never)]
fn out_of_bounds(length: usize, element: u64, count: u64, size: u64) -> Error {
    Error::out_of_range(alloc::format!(
        "access to {count} elements of {size} bytes at element {element} of a buffer of {length} bytes"
    ))
}

#[cold]
fn read_only() -> Error {
    Error::permission_denied("buffer is read-only and cannot be written to")
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.mutable { "mutable" } else { "read-only" };
        write!(f, "memory of a !vm.buffer ({} bytes, {access})", self.length)
    }
}
