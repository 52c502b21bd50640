//! `!vm.buffer`: a range of bytes that programs read and write.
//!
//! This is one of the modules that may use `unsafe`: a buffer's bytes are shared by all holders of a reference to it, and
//! are reached through a raw pointer whose range is checked at every access. [`scalar`] loads and stores scalars; ranges are
//! copied and filled by [`guest`].
#![allow(unsafe_code, reason = "the storage of byte buffers")]

use alloc::alloc::{Layout, dealloc};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;

mod allocation;
mod block;
mod contraction;
mod elements;
mod layouts;
pub(crate) mod lines;
mod memory;
mod region;
mod scalar;
mod sip_hash;

pub use block::{Block, BlockPool, Chunk, SoleBuffer};
pub(crate) use contraction::{Compute, Elements, FactorSource};
pub use contraction::{Computed, Contract, Extended, One, View};
pub use elements::{Element, Gather, Grid, GridMut, Misses, Number, keep_iteration_order, settle_memory, settled};
pub(crate) use elements::{elements_of, is_element};
pub(crate) use incarnate_bytecode::trip_count::Reach;
pub use layouts::ConstantBytes;
pub use memory::{HasMemory, Memory};
pub(crate) use region::Region;
pub use scalar::Scalar;

use super::ledger::{Charge, Ledger, SharedCharge};
use super::mapped::MappedBytes;
use super::ref_type::RefType;
use super::{array, guest};
use crate::{Error, Result};
use incarnate_bytecode::Contents;
use layouts::Layouts;

/// The largest alignment that a program can ask for, in bytes.
const MAX_ALIGNMENT: usize = 4096;
/// Alignment of a buffer for which the program asks for less, in bytes.
const MIN_ALIGNMENT: usize = 16;

/// The longest name, in bytes, that is copied out of memory which may change: names of functions, parameters and keys are
/// shorter.
const LONGEST_NAME: usize = 64 << 10;
/// Bytes that [`Buffer::holds`] copies at a time.
const COMPARED_BYTES: usize = 256;

/// A range of bytes, shared by reference.
pub struct Buffer {
    data: NonNull<u8>,
    length: usize,
    mutable: bool,
    storage: Storage,
}

/// Who owns the bytes.
enum Storage {
    /// This buffer, an allocation of a layout.
    Owned { allocation: NonNull<u8>, layout: Layout, _charge: Charge },
    /// A module's file, and parts of it in another layout.
    Contents(Arc<Contents>, Layouts),
    /// A part of another buffer, which is none itself: owners are at most one deep.
    Part(Arc<Buffer>, #[expect(dead_code, reason = "returned when dropped")] SharedCharge),
    /// Something else, kept alive as long as the buffer.
    Foreign(
        #[expect(dead_code, reason = "keeps the bytes alive")] Arc<dyn Send + Sync>,
        #[expect(dead_code, reason = "returned when dropped")] SharedCharge,
    ),
    /// A block; the pool that it goes back to and the charge of its user, or None while the pool has it.
    Pooled(Block, Option<(Arc<dyn BlockPool>, Charge)>),
    /// The owner of borrowed memory, see [`Buffer::borrowed`], and the constant whose bytes it has.
    Borrowed(Option<ConstantBytes>),
}

// SAFETY: the bytes stay at their address until the storage is dropped; access to them is discussed in the module's
// documentation.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The type's name in modules.
    pub const TYPE: RefType = RefType::BUFFER;

    /// A mutable buffer that starts as a copy of `bytes`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where memory is used up.
    pub fn copy_of(bytes: &[u8]) -> Result<Arc<Buffer>> {
        let buffer = Buffer::zeroed(bytes.len() as u64, 0, None)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// A read-only buffer over a range of a module's file, which is shared and not copied.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the file has no such range.
    pub fn of_contents(contents: Arc<Contents>, range: Range<usize>) -> Result<Arc<Buffer>> {
        let length = range.len();
        let data = if let Some(mapped) = contents.owner::<MappedBytes>() {
            mapped.address(&range)
        } else {
            // What a shared borrow of the owner has returned once stays valid and the same while the borrow may last. The
            // storage keeps the owner, behind an `Arc`, so that nothing moves it or borrows it exclusively.
            contents.as_bytes().and_then(|bytes| bytes.get(range.clone())).map(|bytes| NonNull::from(bytes).cast())
        };
        let data = data.ok_or_else(|| {
            Error::out_of_range(alloc::format!("bytes {range:?} of a file of {} bytes", contents.length()))
        })?;
        Ok(Arc::new(Buffer { data, length, mutable: false, storage: Storage::Contents(contents, Layouts::default()) }))
    }

    /// A buffer over a range of another one, in place; offset and length in bytes. It keeps the buffer of which `source` itself
    /// is a part, so that parts of parts do not keep each other. It may be written where the source may and `mutable` is
    /// set. `charge` is returned when the buffer is dropped.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the source has no such range.
    pub fn part(
        source: &Arc<Buffer>,
        offset: u64,
        length: u64,
        mutable: bool,
        charge: SharedCharge,
    ) -> Result<Arc<Buffer>> {
        let data = NonNull::new(source.memory().address(offset, length, 1)?).unwrap_or(source.data);
        let root = match &source.storage {
            Storage::Part(root, _) => root,
            _ => source,
        };
        // `address` checked the range. The source's bytes are those of the root, which is kept.
        let storage = Storage::Part(Arc::clone(root), charge);
        Ok(Arc::new(Buffer { data, length: length as usize, mutable: mutable && source.mutable, storage }))
    }

    /// A buffer over memory that `owner` keeps alive. `charge` is returned when the buffer is dropped.
    ///
    /// # Safety
    /// `data` must be valid for reads of `length` bytes, and for writes where `mutable` is set, until `owner` is dropped.
    /// No Rust reference to the memory may exist while the buffer lives, unless it is shared and `mutable` is not set. The
    /// owner must not own another buffer of which a program can make a part: [`Buffer::part`] bounds how deep owners are.
    pub unsafe fn from_raw(
        data: NonNull<u8>,
        length: usize,
        mutable: bool,
        owner: Arc<dyn Send + Sync>,
        charge: SharedCharge,
    ) -> Arc<Buffer> {
        Arc::new(Buffer { data, length, mutable, storage: Storage::Foreign(owner, charge) })
    }

    /// Creates a buffer over borrowed memory, such as a kernel's binding. Where the memory is null, so must the length
    /// be.
    ///
    /// # Safety
    /// As long as the buffer may be accessed, `data` must be valid for reads of `length` bytes, and for writes where
    /// `mutable` is set, and no Rust reference to the memory may exist, unless it is shared and `mutable` is not set.
    /// The owner of the memory takes it back from a program by ensuring that the program has no share of the buffer
    /// ([`Arc::get_mut`]) or never runs again.
    #[must_use]
    pub unsafe fn borrowed(data: *mut u8, length: usize, mutable: bool) -> Buffer {
        let data = NonNull::new(data).unwrap_or(NonNull::<u128>::dangling().cast());
        Buffer { data, length, mutable, storage: Storage::Borrowed(None) }
    }

    /// Makes a borrowed buffer one over other memory, which has the bytes of a constant if one is given, so that kernels may keep them in
    /// another layout. Other buffers are left as they are.
    ///
    /// # Safety
    /// As for [`Buffer::borrowed`]. As long as the buffer may be accessed, the constant lives and has as many bytes from there on. Kernels
    /// compute with unspecified numbers where something has written to the buffer's memory.
    #[inline]
    pub unsafe fn borrow_other(
        &mut self,
        (data, length, mutable): (*mut u8, usize, bool),
        constant: Option<ConstantBytes>,
    ) {
        if let Storage::Borrowed(slot) = &mut self.storage {
            *slot = constant;
            self.data = NonNull::new(data).unwrap_or(NonNull::<u128>::dangling().cast());
            (self.length, self.mutable) = (length, mutable);
        }
    }

    /// Its memory, for accesses.
    #[inline(always)]
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        let constant = match self.storage {
            Storage::Borrowed(constant) => constant,
            _ => None,
        };
        Memory { data: self.data, length: self.length, mutable: self.mutable, constant, buffer: PhantomData }
    }

    /// Drops a share of a buffer. If it is the last one of a pool's buffer, the buffer returns to the pool as it is.
    #[inline]
    #[doc(hidden)]
    pub fn recycle(buffer: Arc<Buffer>) {
        if let Some((buffer, pool)) = SoleBuffer::take(buffer) {
            pool.give_back(buffer);
        }
    }

    /// Length in bytes.
    #[inline]
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// True where programs may write to it.
    #[inline]
    #[must_use]
    pub fn is_mutable(&self) -> bool {
        self.mutable
    }

    /// The address of the first byte, for foreign code such as kernels. What is valid is in [`Buffer::length`] and
    /// [`Buffer::is_mutable`], as long as the buffer lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// The bytes of a constant in memory. None for all other buffers, also for read-only ones: a part of a mutable buffer may
    /// be read-only, and what a kernel or a host binds, or a file that is mapped, may be written elsewhere.
    ///
    /// What decides is the storage, which only its constructor chooses, and not what the buffer allows:
    ///
    /// ```
    /// # use incarnate_vm::Buffer;
    /// let memory = Buffer::zeroed(16, 0, None)?;
    /// let read_only = Buffer::part(&memory, 0, 16, false, None)?;
    /// assert!(!read_only.is_mutable() && read_only.as_bytes().is_none());
    /// # Ok::<(), incarnate_vm::Error>(())
    /// ```
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        let Storage::Contents(contents, _) = &self.storage else { return None };
        if matches!(**contents, Contents::Mapped(_)) {
            return None;
        }
        // SAFETY: `of_contents` took pointer and length from a slice of a shared borrow of the contents, which are kept.
        // Such a slice never changes, and as the buffer is not mutable, none of its methods writes there.
        Some(unsafe { core::slice::from_raw_parts(self.data.as_ptr(), self.length) })
    }

    /// True where these are the buffer's bytes, at the moment at which each is compared.
    #[must_use]
    pub fn holds(&self, bytes: &[u8]) -> bool {
        match self.as_bytes() {
            Some(own) => core::ptr::eq(own, bytes) || own == bytes,
            None => {
                let mut part = [0; COMPARED_BYTES];
                let mut parts = bytes.chunks(COMPARED_BYTES).zip((0..).step_by(COMPARED_BYTES));
                self.length == bytes.len()
                    && parts.all(|(bytes, offset)| {
                        let part = &mut part[..bytes.len()];
                        self.read(offset, part).is_ok() && part == bytes
                    })
            }
        }
    }

    /// The file that a read-only buffer lies in, if it does.
    #[must_use]
    pub fn contents(&self) -> Option<&Arc<Contents>> {
        match &self.storage {
            Storage::Contents(contents, _) => Some(contents),
            _ => None,
        }
    }

    /// A copy of all bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the host has no memory for the copy.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = array::filled(self.length, 0)?;
        // SAFETY: both are valid for `length` bytes.
        unsafe { guest::copy(self.data.as_ptr(), bytes.as_mut_ptr(), self.length) };
        Ok(bytes)
    }

    /// The bytes as text, which is a copy where they may change.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where they are not UTF-8, or more than `LONGEST_NAME` bytes that may change; RESOURCE_EXHAUSTED where the
    /// host has no memory for the copy.
    pub fn text(&self) -> Result<Cow<'_, str>> {
        let text = match self.as_bytes() {
            Some(bytes) => core::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            None if self.length > LONGEST_NAME => None,
            None => String::from_utf8(self.to_vec()?).ok().map(Cow::Owned),
        };
        text.ok_or_else(|| match self.length > LONGEST_NAME {
            true => {
                Error::invalid_argument(alloc::format!("a name of {} bytes is too long, or not UTF-8", self.length))
            }
            false => Error::invalid_argument("a name in a buffer is not UTF-8"),
        })
    }

    /// Loads the scalar at the given index, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    #[inline(always)]
    pub fn load<T: Scalar>(&self, element: u64) -> Result<T> {
        self.memory().load(element)
    }

    /// Stores a scalar at the given index, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the buffer is read-only.
    #[inline(always)]
    pub fn store<T: Scalar>(&self, element: u64, value: T) -> Result<()> {
        self.memory().store(element, value)
    }

    /// Stores `count` times the same scalar, from the given index on, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the buffer is read-only.
    pub fn fill<T: Scalar>(&self, element: u64, count: u64, value: T) -> Result<()> {
        self.memory().fill(element, count, value)
    }

    /// Copies scalars out, as many as the target has, from the given index on, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    #[inline]
    pub fn load_slice<T: Scalar>(&self, element: u64, target: &mut [T]) -> Result<()> {
        let source = self.memory().address(element, target.len() as u64, size_of::<T>() as u64)?;
        let bytes = size_of_val(target);
        // SAFETY: the range was checked; the caller's slice is exclusive; all bit patterns are values of a scalar.
        unsafe { guest::copy(source, target.as_mut_ptr().cast(), bytes) };
        Ok(())
    }

    /// Copies scalars in, from the given index on, in elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the buffer is read-only.
    #[inline]
    pub fn store_slice<T: Scalar>(&self, element: u64, source: &[T]) -> Result<()> {
        let target = self.memory().address_mut(element, source.len() as u64, size_of::<T>() as u64)?;
        // SAFETY: the range was checked, and the source is borrowed: no memory that a buffer may write is ever borrowed.
        unsafe { guest::copy(source.as_ptr().cast(), target, size_of_val(source)) };
        Ok(())
    }

    /// Copies bytes out; offset in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let source = self.memory().address(offset, target.len() as u64, 1)?;
        // SAFETY: the range was checked; the caller's slice is exclusive.
        unsafe { guest::copy(source, target.as_mut_ptr(), target.len()) };
        Ok(())
    }

    /// Copies bytes in; offset in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the buffer is read-only.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let target = self.memory().address_mut(offset, source.len() as u64, 1)?;
        // SAFETY: as in `store_slice`.
        unsafe { guest::copy(source.as_ptr(), target, source.len()) };
        Ok(())
    }

    /// Copies bytes between buffers, which may be one and the same; offsets and length in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE, PERMISSION_DENIED where the target is read-only.
    pub fn copy(source: &Buffer, source_offset: u64, target: &Buffer, target_offset: u64, length: u64) -> Result<()> {
        Memory::copy(source.memory(), source_offset, target.memory(), target_offset, length)
    }

    /// True where the two ranges hold the same bytes; offsets and length in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    pub fn equal(lhs: &Buffer, lhs_offset: u64, rhs: &Buffer, rhs_offset: u64, length: u64) -> Result<bool> {
        Memory::equal(lhs.memory(), lhs_offset, rhs.memory(), rhs_offset, length)
    }

    /// SipHash-2-4 of a range, with the key that `vm.buffer.hash` fixes; offset and length in bytes.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    pub fn hash(&self, offset: u64, length: u64) -> Result<i64> {
        self.memory().hash(offset, length)
    }

    /// A mutable copy of a range; offset and length in bytes.
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
        self.memory().clone_range(offset, length, alignment, ledger)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match core::mem::replace(&mut self.storage, Storage::Borrowed(None)) {
            // SAFETY: `allocate` allocated it with this layout, and no reference to the buffer remains.
            Storage::Owned { allocation, layout, .. } => unsafe { dealloc(allocation.as_ptr(), layout) },
            Storage::Pooled(block, Some((pool, charge))) => {
                drop(charge);
                pool.give_back(SoleBuffer::of_block(block).with_length(self.length));
            }
            Storage::Pooled(_, None)
            | Storage::Contents(..)
            | Storage::Part(..)
            | Storage::Foreign(..)
            | Storage::Borrowed(_) => {}
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.mutable { "mutable" } else { "read-only" };
        write!(f, "!vm.buffer ({} bytes, {access})", self.length)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn loads_what_was_stored_and_checks_the_range() {
        let buffer = Buffer::zeroed(10, 0, None).unwrap();
        buffer.store::<u32>(1, 0xDEAD_BEEF).unwrap();
        assert_eq!(buffer.load::<u16>(2).unwrap(), 0xBEEF);
        assert_eq!(buffer.load::<u32>(2).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(buffer.load::<u64>(u64::MAX).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(buffer.fill::<u64>(u64::MAX / 8, 2, 1).unwrap_err().code(), StatusCode::OutOfRange);
    }

    #[test]
    fn unaligned_scalars_are_those_of_their_bytes() {
        static BYTES: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let owner: Arc<dyn Send + Sync> = Arc::new(());
        // SAFETY: the bytes are static and the buffer is read-only.
        let buffer = unsafe { Buffer::from_raw(NonNull::from(&BYTES[1..]).cast(), 8, false, owner, None) };
        assert_eq!(buffer.load::<u64>(0).unwrap(), u64::from_ne_bytes([2, 3, 4, 5, 6, 7, 8, 9]));
        assert_eq!(buffer.store::<u8>(0, 1).unwrap_err().code(), StatusCode::PermissionDenied);
    }

    #[test]
    fn hash_is_siphash_2_4() {
        // The reference vector of the SipHash paper's appendix A: 15 bytes 00..0E under the same key.
        let bytes: Vec<u8> = (0..15).collect();
        let buffer = Buffer::copy_of(&bytes).unwrap();
        assert_eq!(buffer.hash(0, 15).unwrap() as u64, 0xA129_CA61_49BE_45E5);
    }

    #[test]
    fn the_ledger_is_charged_and_gets_its_bytes_back() {
        let ledger = Ledger::new(100, 10);
        let buffer = Buffer::zeroed(60, 0, Some(&ledger)).unwrap();
        assert_eq!(Buffer::zeroed(60, 0, Some(&ledger)).unwrap_err().code(), StatusCode::ResourceExhausted);
        drop(buffer);
        assert_eq!(ledger.bytes(), 0);
        assert_eq!(Buffer::zeroed(u64::MAX, 0, None).unwrap_err().code(), StatusCode::ResourceExhausted);
    }
}
