//! The bytes behind buffers: the one module of the HAL that touches them.
//!
//! # The memory model
//!
//! Buffer memory is shared, mutable and untyped. Kernels on any thread reach it through raw addresses
//! ([`BindingPointer`]), several buffers may be views of the same bytes, and what orders accesses to a byte is the
//! program: its execution barriers, semaphores and fences. So the safe interface never lends a `&[u8]` or a
//! `&mut [u8]` into buffer memory that somebody else could reach. It copies in and out, fills and moves, all through raw
//! pointers. A program that orders its accesses wrongly reads bytes of a mixture of writes; no bound, length or
//! address is ever taken from buffer memory without being copied out and checked first, so that it cannot do worse.
//!
//! Memory from the pool is zeroed when it is first obtained from the system; a reused block holds what its last user
//! left there.
//!
//! Lifetimes: a [`Storage`] owns its memory or shares an owner that keeps it in place, and whoever hands an
//! address to a kernel keeps the buffer, and so the storage, alive until the kernel returns. Memory that a caller lends for a
//! call is reached through leases; see [`super::loan`].
#![allow(unsafe_code, reason = "raw access to memory that kernels share; see the memory model above")]

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::ptr::NonNull;

use super::late::Late;
use super::loan::{Lease, Loan};
#[cfg(feature = "std")]
use crate::mapping::WritableMapping;
use crate::{Error, Result, vm};

/// A region of memory that a dispatch works on. The dispatch's caller keeps it alive and mapped while workgroups run.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct BindingPointer(pub *mut u8);

// SAFETY: a binding pointer is an address. What is reached through it is shared between workgroups by the contract of
// `LocalExecutable::dispatch`, whose caller keeps the memory alive; see "VMVX kernels" in docs/memory.md.
unsafe impl Send for BindingPointer {}
// SAFETY: as above.
unsafe impl Sync for BindingPointer {}

/// What keeps the bytes of a storage in place.
enum Backing {
    /// Nothing: there are no bytes.
    Empty,
    /// A byte buffer that was made of a block of a pool, for this storage; `None` only while being dropped.
    Pool(Option<Arc<vm::Buffer>>),
    /// A byte buffer of a program, or a part of one.
    Vm(Arc<vm::Buffer>),
    /// Memory that somebody else owns, and lends as long as the owner lives.
    Owner(Arc<dyn Any + Send + Sync>),
    /// Memory of a caller until it is moved.
    Lent(Arc<Loan>),
    /// Memory that is obtained when it is first used.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    Late(Box<Late>),
}

/// A run of bytes that stays in place as long as it lives, unless it is elsewhere: then the bytes are where the backing says, a
/// [`Loan`] or [`Late`] memory, and the pointer is nothing to follow.
pub(super) struct Storage {
    pointer: NonNull<u8>,
    length: usize,
    writable: bool,
    backing: Backing,
}

// SAFETY: the memory belongs to the storage or to an owner that is Send and Sync; accesses follow the memory model above.
unsafe impl Send for Storage {}
// SAFETY: as above: all accesses go through raw pointers, and what orders them is the program.
unsafe impl Sync for Storage {}

/// Aligned like the smallest block, so that a storage without bytes has a well-aligned address too.
#[repr(align(64))]
struct Aligned;

impl Storage {
    /// All of a buffer that was made of a block of a pool; nobody else has a share of it.
    #[inline(always)]
    pub(super) fn from_pool(buffer: Arc<vm::Buffer>) -> Result<Storage> {
        let pointer = NonNull::new(buffer.as_ptr()).ok_or_else(|| Error::internal("byte buffer at address zero"))?;
        let length = buffer.length() as usize;
        Ok(Storage { pointer, length, writable: true, backing: Backing::Pool(Some(buffer)) })
    }

    /// No bytes.
    pub(super) fn empty() -> Storage {
        let pointer = NonNull::<Aligned>::dangling().cast();
        Storage { pointer, length: 0, writable: true, backing: Backing::Empty }
    }

    /// Borrows the bytes of an owner, for reading only, and keeps the owner.
    pub(super) fn from_owner<T: AsRef<[u8]> + Send + Sync + 'static>(owner: Arc<T>) -> Storage {
        let bytes: &[u8] = (*owner).as_ref();
        // The owner is behind an `Arc` of which we hold a share, so it is neither moved nor mutably borrowed while the
        // storage lives, and a slice that a shared borrow of it gave stays valid for as long as one is possible.
        let (pointer, length) = (NonNull::from(bytes).cast(), bytes.len());
        Storage { pointer, length, writable: false, backing: Backing::Owner(owner) }
    }

    /// Takes over a mapping that may be written.
    #[cfg(feature = "std")]
    pub(super) fn from_mapping(mut mapping: WritableMapping) -> Storage {
        let (pointer, length) = mapping.as_mut_ptr();
        let pointer = NonNull::new(pointer).unwrap_or(NonNull::<Aligned>::dangling().cast());
        Storage { pointer, length, writable: true, backing: Backing::Owner(Arc::new(mapping)) }
    }

    /// Shares a range of a program's byte buffer, which is kept. It may be written where the source may, and `writable`
    /// says so.
    pub(super) fn from_vm_buffer(
        source: &Arc<vm::Buffer>,
        offset: usize,
        length: usize,
        writable: bool,
    ) -> Result<Storage> {
        let available = usize::try_from(source.length()).unwrap_or(usize::MAX);
        if offset > available || length > available - offset {
            return Err(out_of_range(offset, length, available));
        }
        // A byte buffer neither moves nor frees its bytes while it lives, and reaches them through raw pointers too.
        let pointer = NonNull::new(source.as_ptr().wrapping_add(offset));
        let pointer = pointer.ok_or_else(|| Error::internal("byte buffer at address zero"))?;
        let writable = writable && source.is_mutable();
        Ok(Storage { pointer, length, writable, backing: Backing::Vm(Arc::clone(source)) })
    }

    /// Memory that is lent. What is written to it is written to a copy.
    pub(super) fn lent(loan: Arc<Loan>) -> Storage {
        let (pointer, length) = (loan.lent_address(), loan.length());
        Storage { pointer, length, writable: true, backing: Backing::Lent(loan) }
    }

    /// Memory that is obtained when it is first used.
    #[cfg(feature = "std")]
    pub(super) fn late(late: Late) -> Storage {
        let (pointer, length) = (NonNull::<Aligned>::dangling().cast(), late.length());
        Storage { pointer, length, writable: true, backing: Backing::Late(Box::new(late)) }
    }

    /// The loan, where it is memory that is lent.
    #[inline]
    pub(super) fn loan(&self) -> Option<&Loan> {
        match &self.backing {
            Backing::Lent(loan) => Some(loan),
            _ => None,
        }
    }

    /// The late memory, where it is some.
    #[inline]
    pub(super) fn as_late(&self) -> Option<&Late> {
        match &self.backing {
            Backing::Late(late) => Some(late),
            _ => None,
        }
    }

    /// True where the address does not say where the bytes are.
    #[inline]
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.backing, Backing::Lent(_) | Backing::Late(_))
    }

    /// The storage that the bytes are in, and stay in, when they are to be written: lent ones are moved to it.
    #[inline]
    pub(super) fn settled(&self) -> Result<&Storage> {
        match &self.backing {
            Backing::Lent(loan) => loan.own(),
            Backing::Late(late) => late.memory(),
            _ => Ok(self),
        }
    }

    /// The block of the pool that the bytes are in; `None` where they are elsewhere, or not there yet.
    #[cfg(feature = "std")]
    fn block(&self) -> Option<&Arc<vm::Buffer>> {
        match &self.backing {
            Backing::Late(late) => late.get()?.block(),
            Backing::Pool(block) => block.as_ref(),
            _ => None,
        }
    }

    /// Another storage of the same bytes, if they are in a block of the pool, which goes back to it when both are dropped.
    #[cfg(feature = "std")]
    pub(super) fn share_block(&self) -> Option<Storage> {
        Storage::from_pool(Arc::clone(self.block()?)).ok()
    }

    /// The same, where neither another storage nor a program has a share of the block.
    #[cfg(feature = "std")]
    pub(super) fn share_sole_block(&self) -> Option<Storage> {
        if Arc::strong_count(self.block()?) != 1 {
            return None;
        }
        // Who gave up the other shares is done with the memory.
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        self.share_block()
    }

    /// The byte buffer that the storage is all of, if there is one.
    #[inline]
    pub(super) fn vm_buffer(&self) -> Option<&Arc<vm::Buffer>> {
        match &self.backing {
            Backing::Pool(buffer) => buffer.as_ref(),
            Backing::Vm(source) => {
                let same = source.as_ptr() == self.pointer.as_ptr()
                    && source.length() == self.length as u64
                    && source.is_mutable() == self.writable;
                same.then_some(source)
            }
            Backing::Lent(_) | Backing::Late(_) => self.settled().ok()?.vm_buffer(),
            Backing::Empty | Backing::Owner(_) => None,
        }
    }

    /// A range as a byte buffer of programs, which keeps the memory and not the storage. It may be written where the storage
    /// may.
    pub(super) fn make_vm_buffer(&self, offset: usize, length: usize) -> Result<Arc<vm::Buffer>> {
        let owner: Arc<dyn Send + Sync> = match &self.backing {
            // Byte buffers of programs never move.
            Backing::Lent(_) | Backing::Late(_) => return self.settled()?.make_vm_buffer(offset, length),
            Backing::Empty | Backing::Pool(None) => Arc::new(()),
            Backing::Pool(Some(buffer)) | Backing::Vm(buffer) => Arc::clone(buffer) as _,
            Backing::Owner(owner) => Arc::clone(owner) as _,
        };
        let start = self.range(offset, length)?;
        let data = NonNull::new(start).ok_or_else(|| Error::internal("buffer at address zero"))?;
        // SAFETY: `range` checked that the bytes belong to the storage, whose backing keeps them in place and is kept as the
        // owner (only a storage that is being dropped has none and cannot be borrowed); they may be written where `writable`
        // is set. No slice of memory that may be written is ever lent while the backing is shared, see `exclusive`.
        Ok(unsafe { vm::Buffer::from_raw(data, length, self.writable, owner) })
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// False where the memory must never be written.
    pub(super) fn writable(&self) -> bool {
        self.writable
    }

    /// The address of the first byte, for kernels, unless it is elsewhere; of memory that is lent, what it is told apart by.
    pub(super) fn address(&self) -> BindingPointer {
        BindingPointer(self.pointer.as_ptr())
    }

    /// The address of a range that is within the storage, which must not be elsewhere; the base of every access below.
    #[inline]
    fn range(&self, offset: usize, length: usize) -> Result<*mut u8> {
        match offset.checked_add(length) {
            // SAFETY: `offset <= end <= self.length`, so the address is in the run of bytes or one past its end.
            Some(end) if end <= self.length => Ok(unsafe { self.pointer.as_ptr().add(offset) }),
            _ => Err(out_of_range(offset, length, self.length)),
        }
    }

    /// The same to be written.
    #[inline]
    fn writable_range(&self, offset: usize, length: usize) -> Result<*mut u8> {
        if !self.writable {
            return Err(read_only());
        }
        self.range(offset, length)
    }

    /// The address of a range to be read. Where the memory is lent, it holds as long as the lease, else as the storage.
    #[inline]
    fn readable_range(&self, offset: usize, length: usize) -> Result<(*const u8, Option<Lease<'_>>)> {
        match &self.backing {
            Backing::Lent(loan) => {
                if offset.checked_add(length).is_none_or(|end| end > self.length) {
                    return Err(out_of_range(offset, length, self.length));
                }
                let lease = loan.lease()?;
                Ok((lease.address().wrapping_add(offset), Some(lease)))
            }
            Backing::Late(late) => Ok((late.memory()?.range(offset, length)?, None)),
            _ => Ok((self.range(offset, length)?, None)),
        }
    }

    /// Copies `target.len()` bytes from `offset` out of the storage.
    pub(super) fn read(&self, offset: usize, target: &mut [u8]) -> Result<()> {
        let (source, _lease) = self.readable_range(offset, target.len())?;
        // SAFETY: `readable_range` checked the source; `target` is exclusively borrowed, and buffer memory is never lent as a
        // slice, so that the two do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        Ok(())
    }

    /// Copies bytes into the storage at `offset`.
    pub(super) fn write(&self, offset: usize, source: &[u8]) -> Result<()> {
        if self.is_elsewhere() {
            return self.settled()?.write(offset, source);
        }
        let target = self.writable_range(offset, source.len())?;
        // SAFETY: `writable_range` checked the target. The source may lie in memory that a read-only storage borrows or that
        // is lent, never in the writable memory of one; `copy` allows any overlap.
        unsafe { core::ptr::copy(source.as_ptr(), target, source.len()) };
        Ok(())
    }

    /// Repeats the low `pattern_length` bytes (1, 2, 4 or 8) of `pattern`, little-endian first, over a range. What is left
    /// over where the length is no multiple of the pattern's keeps its contents; callers check that.
    pub(super) fn fill(&self, offset: usize, length: usize, pattern: u64, pattern_length: usize) -> Result<()> {
        if self.is_elsewhere() {
            return self.settled()?.fill(offset, length, pattern, pattern_length);
        }
        let target = self.writable_range(offset, length)?;
        let bytes = pattern.to_le_bytes();
        let [b0, b1, b2, b3, ..] = bytes;
        let count = length / pattern_length.max(1);
        let uniform = bytes.iter().take(pattern_length).all(|byte| *byte == b0);
        // SAFETY: `writable_range` checked `length` bytes from `target`, and `count * pattern_length <= length`; arrays of
        // bytes need no alignment.
        unsafe {
            match pattern_length {
                1.. if uniform => core::ptr::write_bytes(target, b0, count * pattern_length),
                2 => repeat(target.cast(), count, [b0, b1]),
                4 => repeat(target.cast(), count, [b0, b1, b2, b3]),
                8 => repeat(target.cast(), count, bytes),
                _ => return Err(Error::invalid_argument(format!("fill pattern of {pattern_length} bytes"))),
            }
        }
        Ok(())
    }

    /// Copies a range of another storage, or of this one, into this one; ranges may overlap.
    #[inline]
    pub(super) fn copy(&self, offset: usize, source: &Storage, source_offset: usize, length: usize) -> Result<()> {
        if self.is_elsewhere() {
            return self.settled()?.copy(offset, source, source_offset, length);
        }
        let to = self.writable_range(offset, length)?;
        let (from, _lease) = source.readable_range(source_offset, length)?;
        // SAFETY: both ranges were checked against their storages; `copy` allows overlap.
        unsafe { core::ptr::copy(from, to, length) };
        Ok(())
    }

    /// The bytes, where nobody else can reach them: memory of the pool behind an exclusive borrow.
    pub(super) fn exclusive(&mut self) -> Option<&mut [u8]> {
        match self.backing {
            Backing::Pool(ref mut buffer) => {
                // A program may hold the byte buffer.
                Arc::get_mut(buffer.as_mut()?)?;
                // SAFETY: the borrow of the storage is exclusive, nobody else, neither a storage nor a program, has a share
                // of the block (checked in the line above), and no address of it outlives the buffer that its holder keeps
                // (which would be a second share of the buffer).
                Some(unsafe { core::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) })
            }
            Backing::Empty => Some(&mut []),
            Backing::Lent(ref mut loan) => Arc::get_mut(loan)?.own_mut()?.exclusive(),
            Backing::Late(ref mut late) => {
                late.memory().ok()?;
                late.get_mut()?.exclusive()
            }
            Backing::Vm(_) | Backing::Owner(_) => None,
        }
    }
}

impl Drop for Storage {
    #[inline]
    fn drop(&mut self) {
        if let Backing::Pool(buffer) = &mut self.backing
            && let Some(buffer) = buffer.take()
        {
            vm::Buffer::recycle(buffer);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.backing {
            Backing::Empty => "empty",
            Backing::Pool(..) => "pooled",
            Backing::Lent(_) => "lent",
            Backing::Late(_) => "late",
            Backing::Vm(_) | Backing::Owner(_) => "imported",
        };
        write!(f, "{kind} {} bytes at {:p}", self.length, self.pointer)
    }
}

/// Writes `pattern` `count` times from `target` on.
///
/// # Safety
/// `count` patterns from `target` on are writable memory.
unsafe fn repeat<const N: usize>(target: *mut [u8; N], count: usize, pattern: [u8; N]) {
    for index in 0..count {
        // SAFETY: `index < count`.
        unsafe { target.add(index).write(pattern) };
    }
}

#[cold]
fn out_of_range(offset: usize, length: usize, available: usize) -> Error {
    Error::out_of_range(format!("range of {length} bytes at offset {offset} leaves the storage of {available} bytes"))
}

#[cold]
fn read_only() -> Error {
    Error::permission_denied("buffer memory is read-only")
}
