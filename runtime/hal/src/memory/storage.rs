//! The bytes behind buffers: the one module of the HAL that touches them.
//!
//! # The memory model
//!
//! Buffer memory is shared, mutable and untyped. Kernels on any thread reach it through raw addresses
//! ([`BindingPointer`]), several buffers may be views of the same bytes, and what orders accesses to a byte is the
//! program: its execution barriers, semaphores and fences. So the safe interface never returns a `&[u8]` or a
//! `&mut [u8]` into buffer memory that another holder could reach. It copies in and out and fills, by the accesses of
//! [`guest`], which may race. A program that orders its accesses wrongly reads bytes of a mixture of writes; no bound, length
//! or address is ever taken from buffer memory without being copied out and checked first, so that it cannot do worse.
//!
//! Memory from the pool is zeroed when it is first obtained from the system; a reused block holds what its last user
//! left there.
//!
//! A [`Storage`] owns its memory or shares an owner that keeps it. Its bytes are accessed under a [`PinGuard`], which keeps
//! the address: for free, but for [memory that may move](super::movable). A thread that passes an address to a kernel keeps the
//! guard and the buffer until the kernel returns.
#![allow(unsafe_code, reason = "raw access to memory that kernels share; see the memory model above")]

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ptr::NonNull;

use super::address::BindingPointer;
use super::constant::Constant;
use super::device_memory::DeviceMemory;
use super::movable::{Access, Movable, PinGuard};
use super::pool::Pool;
#[cfg(feature = "std")]
use crate::memory::mapping::WritableMapping;
#[cfg(feature = "std")]
use crate::vm::Charge;
use crate::vm::{Ledger, SharedCharge, array, guest};
use crate::{Error, Result, vm};

/// What keeps the bytes of a storage.
enum Backing {
    /// A byte buffer that was made of a block of a pool, for this storage; `None` only while being dropped.
    Pooled(Option<Arc<vm::Buffer>>),
    /// Memory from elsewhere, used in place.
    External(Owner),
    /// Memory that moves while it is not pinned.
    Movable(Box<Movable>),
    /// Memory that a device allocated.
    Device(Arc<dyn DeviceMemory>),
}

/// Bytes that are copied at once from or to memory that the host cannot access. It bounds the memory for a copy.
const STAGED_BYTES: usize = 16 << 20;

/// What keeps external memory.
enum Owner {
    /// There are no bytes, or the user of the storage keeps them.
    None,
    /// A byte buffer of a program.
    Buffer(Arc<vm::Buffer>),
    Other(Arc<dyn Any + Send + Sync>),
}

/// A range of bytes.
pub(crate) struct Storage {
    /// The address of the first byte; dangling if the memory is movable, or is a device's that the host cannot access.
    pointer: NonNull<u8>,
    length: usize,
    writable: bool,
    backing: Backing,
    constant: Option<Arc<Constant>>,
}

// SAFETY: the memory belongs to the storage or to an owner that is Send and Sync; accesses follow the memory model above.
unsafe impl Send for Storage {}
// SAFETY: as above: all accesses go through raw pointers, and what orders them is the program.
unsafe impl Sync for Storage {}

/// Aligned like the smallest block, so that a storage without bytes has a well-aligned address too.
#[repr(align(64))]
struct Aligned;

impl Storage {
    /// Allocates `length` bytes of a pool, which are charged to a ledger as long as they are in use.
    // Inlined, since a storage that is returned is copied from memory that was just written in other pieces.
    #[inline(always)]
    pub(super) fn allocate(pool: &Arc<Pool>, length: u64, ledger: &Ledger) -> Result<Storage> {
        if length == 0 {
            return Ok(Storage::empty());
        }
        Storage::from_pool(pool.allocate(length, ledger)?)
    }

    /// All of a buffer that was made of a block of a pool, as its only share.
    #[inline(always)]
    fn from_pool(buffer: Arc<vm::Buffer>) -> Result<Storage> {
        let pointer = NonNull::new(buffer.as_ptr()).ok_or_else(|| Error::internal("byte buffer at address zero"))?;
        let length = buffer.length() as usize;
        Ok(Storage { pointer, length, writable: true, backing: Backing::Pooled(Some(buffer)), constant: None })
    }

    /// No bytes.
    pub(crate) fn empty() -> Storage {
        let pointer = NonNull::<Aligned>::dangling().cast();
        Storage { pointer, length: 0, writable: true, backing: Backing::External(Owner::None), constant: None }
    }

    /// Borrows the bytes of an owner, for reading only, and keeps the owner.
    pub(super) fn from_owner<T: AsRef<[u8]> + Send + Sync + 'static>(owner: Arc<T>) -> Storage {
        let bytes: &[u8] = (*owner).as_ref();
        // The owner is behind an `Arc` of which we hold a share, so it is neither moved nor mutably borrowed while the
        // storage lives, and a slice that a shared borrow of it gave stays valid for as long as one is possible.
        let (pointer, length) = (NonNull::from(bytes).cast(), bytes.len());
        Storage { pointer, length, writable: false, backing: Backing::External(Owner::Other(owner)), constant: None }
    }

    /// Takes over a mapping that may be written, and its charge.
    #[cfg(feature = "std")]
    pub(crate) fn from_mapping(mut mapping: WritableMapping, charge: Charge) -> Storage {
        let (pointer, length) = mapping.as_mut_ptr();
        let pointer = NonNull::new(pointer).unwrap_or(NonNull::<Aligned>::dangling().cast());
        Storage {
            pointer,
            length,
            writable: true,
            backing: Backing::External(Owner::Other(Arc::new((mapping, charge)))),
            constant: None,
        }
    }

    /// Shares a range of a program's byte buffer, which is kept. It may be written where the source may, and `writable`
    /// says so.
    pub(crate) fn from_vm_buffer(
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
        Ok(Storage {
            pointer,
            length,
            writable,
            backing: Backing::External(Owner::Buffer(Arc::clone(source))),
            constant: None,
        })
    }

    /// Says that the bytes are those of a constant from an offset in it on.
    pub(super) fn of_constant(mut self, source: &Arc<vm::Buffer>, offset: usize) -> Storage {
        self.constant = Constant::new(source, offset);
        self
    }

    /// Returns the constant that the bytes are those of, or were until something wrote to them.
    pub(super) fn constant(&self) -> Option<&Arc<Constant>> {
        self.constant.as_ref()
    }

    /// To be called before anyone gets an address to which they may write.
    pub(super) fn mark_written(&self) {
        if let Some(constant) = self.constant.as_ref().filter(|_| self.writable) {
            constant.set_written();
        }
    }

    /// Takes memory that a device allocated.
    pub(super) fn from_device(memory: Arc<dyn DeviceMemory>) -> Storage {
        let address = memory.host_address().and_then(|address| NonNull::new(address.0));
        let pointer = address.unwrap_or(NonNull::<Aligned>::dangling().cast());
        let length = memory.length();
        Storage { pointer, length, writable: true, backing: Backing::Device(memory), constant: None }
    }

    /// Returns the memory of a device, if this is some.
    pub(super) fn device_memory(&self) -> Option<&dyn DeviceMemory> {
        match &self.backing {
            Backing::Device(memory) => Some(&**memory),
            _ => None,
        }
    }

    /// Returns the memory if the host cannot access it.
    #[inline]
    fn unmapped(&self) -> Option<&dyn DeviceMemory> {
        self.device_memory().filter(|memory| memory.host_address().is_none())
    }

    /// Uses bytes without an owner, for reading only.
    ///
    /// # Safety
    /// The bytes outlive every access to the storage.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "sessions borrow memory for calls"))]
    pub(super) unsafe fn from_memory(bytes: NonNull<[u8]>) -> Storage {
        Storage {
            pointer: bytes.cast(),
            length: bytes.len(),
            writable: false,
            backing: Backing::External(Owner::None),
            constant: None,
        }
    }

    /// Contains memory that may move. What is written to borrowed memory is written to a copy.
    pub(super) fn movable(movable: Movable) -> Storage {
        let (pointer, length) = (NonNull::<Aligned>::dangling().cast(), movable.length());
        Storage { pointer, length, writable: true, backing: Backing::Movable(Box::new(movable)), constant: None }
    }

    /// Returns the memory that moves, if this is some.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    #[inline]
    pub(super) fn as_movable(&self) -> Option<&Movable> {
        match &self.backing {
            Backing::Movable(movable) => Some(movable),
            _ => None,
        }
    }

    /// Pins the bytes for an access.
    ///
    /// # Errors
    /// Those of [`Movable::pin`].
    #[inline]
    pub(super) fn pin(&self, access: Access) -> Result<PinGuard<'_>> {
        match &self.backing {
            Backing::Movable(movable) => movable.pin(access),
            Backing::Device(_) if self.unmapped().is_some() => Err(not_mapped(self.length)),
            _ => {
                if !matches!(access, Access::Read) {
                    self.mark_written();
                }
                Ok(PinGuard::fixed(self.base()))
            }
        }
    }

    /// Returns another storage of the same block of a pool, if neither a storage nor a program has a share of it. The block
    /// returns to the pool when both are dropped.
    #[cfg(feature = "std")]
    pub(super) fn share_sole_block(&self) -> Option<Storage> {
        self.mark_written();
        match &self.backing {
            Backing::Pooled(Some(block)) if Arc::strong_count(block) == 1 => {
                // The holders of the other shares were done with the memory when they gave them up.
                core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
                Storage::from_pool(Arc::clone(block)).ok()
            }
            Backing::Movable(movable) => movable.with_memory(Storage::share_sole_block),
            _ => None,
        }
    }

    /// Whether the memory is an unshared block of a pool.
    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn is_sole(&mut self) -> bool {
        match &mut self.backing {
            Backing::Pooled(Some(block)) => Arc::get_mut(block).is_some(),
            _ => false,
        }
    }

    /// Whether the memory is a block of a pool.
    #[cfg(feature = "std")]
    pub(super) fn is_pooled(&self) -> bool {
        matches!(self.backing, Backing::Pooled(_))
    }

    /// Returns the byte buffer that the storage is all of, if there is one.
    #[inline]
    pub(super) fn vm_buffer(&self) -> Option<&Arc<vm::Buffer>> {
        self.mark_written();
        match &self.backing {
            Backing::Pooled(buffer) => buffer.as_ref(),
            Backing::External(Owner::Buffer(source)) => {
                let same = source.as_ptr() == self.pointer.as_ptr()
                    && source.length() == self.length as u64
                    && source.is_mutable() == self.writable;
                same.then_some(source)
            }
            Backing::External(_) | Backing::Device(_) => None,
            Backing::Movable(movable) => movable.fix().ok()?.vm_buffer(),
        }
    }

    /// Returns a range as a byte buffer of programs, which keeps the memory and not the storage. It may be written where the
    /// storage may.
    /// `charge` is that of the buffer for which it is created.
    pub(super) fn make_vm_buffer(&self, offset: usize, length: usize, charge: SharedCharge) -> Result<Arc<vm::Buffer>> {
        self.check_range(offset, length)?;
        self.mark_written();
        let owner: Arc<dyn Send + Sync> = match &self.backing {
            // Byte buffers of programs never move.
            Backing::Movable(movable) => return movable.fix()?.make_vm_buffer(offset, length, charge),
            Backing::Pooled(Some(buffer)) | Backing::External(Owner::Buffer(buffer)) => {
                let start = self.pointer.as_ptr().addr() - buffer.as_ptr().addr();
                return vm::Buffer::part(buffer, (start + offset) as u64, length as u64, self.writable, charge);
            }
            Backing::External(Owner::Other(owner)) => Arc::clone(owner) as _,
            Backing::Device(_) if self.unmapped().is_some() => return Err(not_mapped(self.length)),
            Backing::Device(memory) => Arc::new(Arc::clone(memory)),
            Backing::Pooled(None) | Backing::External(Owner::None) => Arc::new(()),
        };
        let data = NonNull::new(self.pointer.as_ptr().wrapping_add(offset));
        let data = data.ok_or_else(|| Error::internal("buffer at address zero"))?;
        // SAFETY: `check_range` checked that the bytes belong to the storage, whose backing keeps them and is kept as the
        // owner. A storage without one has no bytes, or is borrowed memory, which is only reached through the `Movable` that
        // contains it. They may be written where `writable` is set. No slice of memory that may be written is ever borrowed
        // while the backing is shared, see `exclusive`.
        Ok(unsafe { vm::Buffer::from_raw(data, length, self.writable, owner, charge) })
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// False where the memory must never be written.
    pub(super) fn writable(&self) -> bool {
        self.writable
    }

    /// Returns the address of the first byte if it never changes.
    pub(super) fn fixed_address(&self) -> Option<BindingPointer> {
        (self.as_movable().is_none() && self.unmapped().is_none()).then(|| self.base())
    }

    /// Returns the address of the first byte of memory that is not movable.
    #[inline]
    pub(super) fn base(&self) -> BindingPointer {
        BindingPointer(self.pointer.as_ptr())
    }

    #[inline]
    fn check_range(&self, offset: usize, length: usize) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(out_of_range(offset, length, self.length)),
        }
    }

    /// Pins a range for reading and returns its address, which the guard keeps.
    #[inline]
    fn readable(&self, offset: usize, length: usize) -> Result<(*const u8, PinGuard<'_>)> {
        self.check_range(offset, length)?;
        let pin = self.pin(Access::Read)?;
        Ok((pin.address().0.wrapping_add(offset), pin))
    }

    /// Pins a range for writing and returns its address, which the guard keeps.
    #[inline]
    fn writable_range(&self, offset: usize, length: usize) -> Result<(*mut u8, PinGuard<'_>)> {
        if !self.writable {
            return Err(read_only());
        }
        self.check_range(offset, length)?;
        let pin = self.pin(Access::Write)?;
        Ok((pin.address().0.wrapping_add(offset), pin))
    }

    /// Copies `target.len()` bytes from `offset` out of the storage.
    pub(super) fn read(&self, offset: usize, target: &mut [u8]) -> Result<()> {
        if let Some(memory) = self.unmapped() {
            self.check_range(offset, target.len())?;
            return memory.read(offset, target);
        }
        let (source, _pin) = self.readable(offset, target.len())?;
        // SAFETY: `readable` checked and pinned the source; `target` is exclusively borrowed.
        unsafe { guest::copy(source, target.as_mut_ptr(), target.len()) };
        Ok(())
    }

    /// Copies bytes into the storage at `offset`.
    pub(super) fn write(&self, offset: usize, source: &[u8]) -> Result<()> {
        if let Some(memory) = self.unmapped() {
            self.check_range(offset, source.len())?;
            return memory.write(offset, source);
        }
        let (target, _pin) = self.writable_range(offset, source.len())?;
        // SAFETY: `writable_range` checked and pinned the target. The source may lie in external memory that is only read,
        // never in memory that a storage writes.
        unsafe { guest::copy(source.as_ptr(), target, source.len()) };
        Ok(())
    }

    /// Repeats the low `pattern_length` bytes (1, 2, 4 or 8) of `pattern`, little-endian first, over a range. What is left
    /// over where the length is no multiple of the pattern's keeps its contents; callers check that.
    pub(super) fn fill(&self, offset: usize, length: usize, pattern: u64, pattern_length: usize) -> Result<()> {
        let bytes = pattern.to_le_bytes();
        if self.unmapped().is_some() {
            let pattern = bytes.get(..pattern_length).unwrap_or_default();
            return self.fill_by_writes(offset, length - length % pattern_length.max(1), pattern);
        }
        let (target, _pin) = self.writable_range(offset, length)?;
        let [b0, b1, b2, b3, ..] = bytes;
        let count = length / pattern_length.max(1);
        // SAFETY: `writable_range` checked and pinned `length` bytes from `target`, and `count * pattern_length <= length`.
        unsafe {
            match pattern_length {
                1 => guest::fill(target, b0, count),
                2 => guest::repeat(target, count, [b0, b1]),
                4 => guest::repeat(target, count, [b0, b1, b2, b3]),
                8 => guest::repeat(target, count, bytes),
                _ => return Err(Error::invalid_argument(format!("fill pattern of {pattern_length} bytes"))),
            }
        }
        Ok(())
    }

    /// Copies a range of another storage, or of this one, into this one; ranges may overlap.
    #[inline]
    pub(super) fn copy(&self, offset: usize, source: &Storage, source_offset: usize, length: usize) -> Result<()> {
        if self.unmapped().is_some() || source.unmapped().is_some() {
            return self.copy_by_device(offset, source, source_offset, length);
        }
        // Pinned first, because writing to borrowed memory moves it.
        let (to, _target_pin) = self.writable_range(offset, length)?;
        let (from, _source_pin) = source.readable(source_offset, length)?;
        // SAFETY: both ranges were checked against their storages and pinned; they may overlap.
        unsafe { guest::copy(from, to, length) };
        Ok(())
    }

    /// Repeats a pattern over memory that the host cannot access.
    #[cold]
    fn fill_by_writes(&self, offset: usize, length: usize, pattern: &[u8]) -> Result<()> {
        self.check_range(offset, length)?;
        let block = STAGED_BYTES.min(length);
        let mut bytes: Vec<u8> = array::filled(block, 0)?;
        bytes.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, value)| *byte = *value);
        let mut written = 0;
        while written < length {
            // A block is a multiple of every pattern's length.
            let count = block.min(length - written);
            self.write(offset + written, bytes.get(..count).unwrap_or(&bytes))?;
            written += count;
        }
        Ok(())
    }

    /// Copies from or to memory that the host cannot access: by the device, or else by way of host memory.
    #[cold]
    fn copy_by_device(&self, offset: usize, source: &Storage, source_offset: usize, length: usize) -> Result<()> {
        self.check_range(offset, length)?;
        source.check_range(source_offset, length)?;
        if let (Some(to), Some(from)) = (self.device_memory(), source.device_memory())
            && let Some(result) = to.copy_from(offset, from, source_offset, length)
        {
            return result;
        }
        let mut bytes: Vec<u8> = array::filled(STAGED_BYTES.min(length), 0)?;
        let mut copied = 0;
        while copied < length {
            let count = bytes.len().min(length - copied);
            let Some(block) = bytes.get_mut(..count) else { return Err(Error::internal("staged block is too short")) };
            source.read(source_offset + copied, block)?;
            self.write(offset + copied, block)?;
            copied += count;
            if length > STAGED_BYTES {
                tracing::debug!(copied, total = length, "copying memory of a device");
            }
        }
        Ok(())
    }

    /// The bytes, where no other holder can reach them: memory of the pool behind an exclusive borrow.
    pub(super) fn exclusive(&mut self) -> Option<&mut [u8]> {
        self.mark_written();
        match self.backing {
            Backing::Pooled(ref mut buffer) => {
                // A program may hold the byte buffer.
                Arc::get_mut(buffer.as_mut()?)?;
                // SAFETY: the borrow of the storage is exclusive, no other storage and no program has a share
                // of the block (checked in the line above), and no address of it outlives the buffer that its holder keeps
                // (which would be a second share of the buffer).
                Some(unsafe { core::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) })
            }
            Backing::External(_) => {
                if self.length == 0 {
                    Some(&mut [])
                } else {
                    None
                }
            }
            Backing::Movable(ref mut movable) => movable.get_mut()?.exclusive(),
            Backing::Device(ref mut memory) => {
                Arc::get_mut(memory)?.host_address()?;
                // SAFETY: the memory is mapped (line above), so that its `length` bytes are valid as long as it lives (contract of
                // `DeviceMemory`). The borrow is exclusive and there is no other share of the memory, and operations that a device
                // has not finished keep shares of the buffers that they use.
                Some(unsafe { core::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) })
            }
        }
    }
}

impl Drop for Storage {
    #[inline]
    fn drop(&mut self) {
        if let Backing::Pooled(buffer) = &mut self.backing
            && let Some(buffer) = buffer.take()
        {
            vm::Buffer::recycle(buffer);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backing {
            Backing::Pooled(_) => write!(f, "pooled {} bytes at {:p}", self.length, self.pointer),
            Backing::External(_) => write!(f, "external {} bytes at {:p}", self.length, self.pointer),
            Backing::Movable(movable) => write!(f, "{movable:?} {} bytes", self.length),
            Backing::Device(memory) => write!(f, "{memory:?}"),
        }
    }
}

#[cold]
fn out_of_range(offset: usize, length: usize, available: usize) -> Error {
    Error::out_of_range(format!("range of {length} bytes at offset {offset} leaves the storage of {available} bytes"))
}

#[cold]
fn not_mapped(length: usize) -> Error {
    Error::failed_precondition(format!(
        "{length} bytes of device memory are not accessible by the host and were not copied to another device"
    ))
}

#[cold]
fn read_only() -> Error {
    Error::permission_denied("buffer memory is read-only")
}
