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
//! address to a kernel keeps the buffer, and so the storage, alive until the kernel returns.
#![allow(unsafe_code, reason = "raw access to memory that kernels share; see the memory model above")]

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::format;
use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;

use super::buffer::Buffer;
use super::memory::MemoryAccess;
use super::pool::Pool;
#[cfg(feature = "std")]
use crate::mapping::WritableMapping;
use crate::{Error, Result, vm};

/// A region of memory that a dispatch works on. The dispatch's caller keeps it alive and mapped while workgroups run.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct BindingPointer(pub *mut u8);

// SAFETY: a binding pointer is an address. What is reached through it is shared between workgroups by the contract of
// `LocalExecutable::dispatch`, whose caller keeps the memory alive; see "The memory model" in ARCHITECTURE.md.
unsafe impl Send for BindingPointer {}
// SAFETY: as above.
unsafe impl Sync for BindingPointer {}

/// What [`Block::allocate`] asks the system allocator for; more is had by moving the start up.
const BASE_ALIGNMENT: usize = 16;

/// A piece of memory from the system allocator or of a [`Chunk`], zeroed when it was obtained. Returned when dropped.
pub(super) struct Block {
    origin: Origin,
    pointer: NonNull<u8>,
    capacity: usize,
}

/// Where a block's memory goes back to.
enum Origin {
    System(NonNull<u8>, Layout),
    Chunk(#[expect(dead_code, reason = "unmapped when its last block is dropped")] Arc<Chunk>),
}

/// Memory mapped from the system in units that it can back by huge pages: blocks of one chunk are next to each other in
/// physical memory too, which saves TLB misses and conflicts in caches that are indexed by physical addresses.
pub(super) struct Chunk {
    pointer: NonNull<u8>,
    length: usize,
}

// SAFETY: a chunk owns its memory, which is not tied to a thread, and gives out nothing but addresses.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    #[cfg(all(unix, feature = "std"))]
    /// Alignment of chunks and unit of their lengths, in bytes: the common size of a huge page.
    pub(super) const UNIT: usize = 2 << 20;

    /// Maps at least `length` bytes of zeros, or `None` where the system has none or no such mapping.
    #[cfg(all(unix, feature = "std"))]
    pub(super) fn map(length: usize) -> Option<Arc<Chunk>> {
        let length = length.checked_next_multiple_of(Chunk::UNIT)?;
        let span = length.checked_add(Chunk::UNIT)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no memory that exists.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), span, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let before = base.cast::<u8>().align_offset(Chunk::UNIT).min(Chunk::UNIT);
        // SAFETY: what lies before and behind the aligned part belongs to the mapping and is used by nobody.
        unsafe {
            let pointer = base.cast::<u8>().add(before);
            if before > 0 {
                libc::munmap(base, before);
            }
            if before < Chunk::UNIT {
                libc::munmap(pointer.add(length).cast(), Chunk::UNIT - before);
            }
            #[cfg(target_os = "linux")]
            libc::madvise(pointer.cast(), length, libc::MADV_HUGEPAGE);
            Some(Arc::new(Chunk { pointer: NonNull::new(pointer)?, length }))
        }
    }

    /// No mapping on this system.
    #[cfg(not(all(unix, feature = "std")))]
    pub(super) fn map(_: usize) -> Option<Arc<Chunk>> {
        None
    }

    /// Length in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        #[cfg(all(unix, feature = "std"))]
        // SAFETY: the range was mapped by `map`, and no block of it is left.
        unsafe {
            libc::munmap(self.pointer.as_ptr().cast(), self.length);
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({:p}, {} bytes)", self.pointer, self.length)
    }
}

// SAFETY: a block owns its memory, which is not tied to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out nothing but its address and its layout.
unsafe impl Sync for Block {}

impl Block {
    /// Obtains `capacity` bytes (at least 1) aligned to `alignment` (a power of two), or `None` where the system has
    /// none.
    pub(super) fn allocate(capacity: usize, alignment: usize) -> Option<Block> {
        // The standard library turns a request for zeroed memory of a large alignment into an allocation and a
        // `memset`, which touches every page. With the base alignment it is `calloc`, whose large pieces are untouched.
        let slack = alignment.saturating_sub(BASE_ALIGNMENT);
        let layout = Layout::from_size_align(capacity.max(1).checked_add(slack)?, BASE_ALIGNMENT).ok()?;
        // SAFETY: the layout's size is at least 1.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let offset = base.as_ptr().align_offset(alignment);
        if offset > slack {
            // SAFETY: `base` was just allocated with `layout`.
            unsafe { dealloc(base.as_ptr(), layout) };
            return None;
        }
        // SAFETY: `offset <= slack`, and the allocation is `capacity + slack` bytes.
        let pointer = unsafe { base.add(offset) };
        Some(Block { origin: Origin::System(base, layout), pointer, capacity })
    }

    /// A range of a chunk that no other block has; `None` where the chunk does not have it.
    pub(super) fn of_chunk(chunk: Arc<Chunk>, offset: usize, capacity: usize) -> Option<Block> {
        if offset.checked_add(capacity)? > chunk.length {
            return None;
        }
        // SAFETY: the range was checked in the lines above.
        let pointer = unsafe { chunk.pointer.add(offset) };
        Some(Block { origin: Origin::Chunk(chunk), pointer, capacity })
    }

    /// Number of bytes from the aligned start on, as asked for.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Origin::System(base, layout) = &self.origin {
            // SAFETY: `base` was allocated with `layout` in `allocate`, and nothing else frees it.
            unsafe { dealloc(base.as_ptr(), *layout) };
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:p}, {} bytes)", self.pointer, self.capacity)
    }
}

/// What keeps the bytes of a storage in place.
enum Backing {
    /// Nothing: there are no bytes.
    Empty,
    /// A block that goes back to its pool; `None` only while being dropped.
    Pool(Option<Block>, Arc<Pool>),
    /// A byte buffer of a program, or a part of one.
    Vm(Arc<vm::Buffer>),
    /// Memory that somebody else owns, and lends as long as the owner lives.
    #[allow(dead_code, reason = "held so that the memory stays; never looked at")]
    Owner(Arc<dyn Send + Sync>),
}

/// A run of bytes that stays in place as long as it lives.
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
    /// Takes `length` bytes out of `block`, which goes back to `pool` afterwards. The block has at least that many.
    pub(super) fn from_pool(block: Block, length: usize, pool: Arc<Pool>) -> Result<Storage> {
        if block.capacity < length {
            return Err(Error::internal(format!("block of the pool is smaller than {length} bytes")));
        }
        Ok(Storage { pointer: block.pointer, length, writable: true, backing: Backing::Pool(Some(block), pool) })
    }

    /// No bytes.
    pub(super) fn empty() -> Storage {
        Storage { pointer: NonNull::<Aligned>::dangling().cast(), length: 0, writable: true, backing: Backing::Empty }
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

    /// The bytes that a buffer views, as a byte buffer of programs: the one that the storage shares, where it is that, or one
    /// that keeps the buffer. It may be written where the buffer may.
    pub(super) fn to_vm_buffer(&self, view: &Arc<Buffer>, offset: usize, length: usize) -> Result<Arc<vm::Buffer>> {
        let writable = self.writable && view.access().contains(MemoryAccess::WRITE);
        let start = self.range(offset, length)?;
        if let Backing::Vm(source) = &self.backing
            && source.as_ptr() == start
            && source.length() == length as u64
            && source.is_mutable() == writable
        {
            return Ok(Arc::clone(source));
        }
        let data = NonNull::new(start).ok_or_else(|| Error::internal("buffer at address zero"))?;
        if !core::ptr::eq(view.storage()?, self) {
            return Err(Error::internal("storage of another buffer"));
        }
        // SAFETY: `range` checked that the bytes belong to the storage, which the view keeps in place (compared in the lines
        // above), and which may be written where `writable` is set. No slice of memory that may be written is ever lent while
        // the view is shared, see `exclusive`.
        Ok(unsafe { vm::Buffer::from_raw(data, length, writable, Arc::clone(view) as _) })
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// False where the memory must never be written.
    pub(super) fn writable(&self) -> bool {
        self.writable
    }

    /// The address of the first byte, for kernels.
    pub(super) fn address(&self) -> BindingPointer {
        BindingPointer(self.pointer.as_ptr())
    }

    /// The address of a range that is within the storage; the base of every access below.
    fn range(&self, offset: usize, length: usize) -> Result<*mut u8> {
        match offset.checked_add(length) {
            // SAFETY: `offset <= end <= self.length`, so the address is in the run of bytes or one past its end.
            Some(end) if end <= self.length => Ok(unsafe { self.pointer.as_ptr().add(offset) }),
            _ => Err(out_of_range(offset, length, self.length)),
        }
    }

    fn writable_range(&self, offset: usize, length: usize) -> Result<*mut u8> {
        if !self.writable {
            return Err(read_only());
        }
        self.range(offset, length)
    }

    /// Copies `target.len()` bytes from `offset` out of the storage.
    pub(super) fn read(&self, offset: usize, target: &mut [u8]) -> Result<()> {
        let source = self.range(offset, target.len())?;
        // SAFETY: `range` checked the source; `target` is exclusively borrowed, and buffer memory is never lent as a
        // slice, so that the two do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        Ok(())
    }

    /// Copies bytes into the storage at `offset`.
    pub(super) fn write(&self, offset: usize, source: &[u8]) -> Result<()> {
        let target = self.writable_range(offset, source.len())?;
        // SAFETY: `writable_range` checked the target. The source may lie in memory that a read-only storage borrows,
        // never in the writable memory of one; `copy` allows any overlap.
        unsafe { core::ptr::copy(source.as_ptr(), target, source.len()) };
        Ok(())
    }

    /// Repeats the low `pattern_length` bytes (1, 2, 4 or 8) of `pattern`, little-endian first, over a range. What is left
    /// over where the length is no multiple of the pattern's keeps its contents; callers check that.
    pub(super) fn fill(&self, offset: usize, length: usize, pattern: u64, pattern_length: usize) -> Result<()> {
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
    pub(super) fn copy(&self, offset: usize, source: &Storage, source_offset: usize, length: usize) -> Result<()> {
        let from = source.range(source_offset, length)?;
        let to = self.writable_range(offset, length)?;
        // SAFETY: both ranges were checked against their storages; `copy` allows overlap.
        unsafe { core::ptr::copy(from, to, length) };
        Ok(())
    }

    /// The bytes, where nobody else can reach them: memory of the pool behind an exclusive borrow.
    pub(super) fn exclusive(&mut self) -> Option<&mut [u8]> {
        match self.backing {
            // SAFETY: the borrow of the storage is exclusive, blocks of the pool belong to one storage, and no address of
            // it outlives the buffer that its holder keeps (which would be a second share of the buffer).
            Backing::Pool(..) => Some(unsafe { core::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }),
            Backing::Empty => Some(&mut []),
            Backing::Vm(_) | Backing::Owner(_) => None,
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Backing::Pool(block, pool) = &mut self.backing
            && let Some(block) = block.take()
        {
            pool.give_back(block, self.length);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.backing {
            Backing::Empty => "empty",
            Backing::Pool(..) => "pooled",
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
