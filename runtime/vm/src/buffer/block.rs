//! Blocks of memory from the system, which pools keep and buffers use.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Buffer, Charge, Storage};
use crate::{Error, Result};

/// The destination of dropped buffers that use blocks.
pub trait BlockPool: Send + Sync + fmt::Debug {
    /// Takes a buffer back after its last share is dropped, with the length with which it was taken.
    fn give_back(&self, buffer: SoleBuffer);
}

/// The only share of a pool's buffer: checked once, and not shared until the pool returns it.
pub struct SoleBuffer(Arc<Buffer>);

impl SoleBuffer {
    /// A mutable buffer of a block, for a pool to keep.
    pub fn of_block(block: Block) -> SoleBuffer {
        let (data, length) = (block.pointer(), block.capacity());
        SoleBuffer(Arc::new(Buffer { data, length, mutable: true, storage: Storage::Pooled(block, None) }))
    }

    /// The same of the length with which another buffer of the block was taken.
    pub(super) fn with_length(mut self, length: usize) -> SoleBuffer {
        self.get_mut().length = length;
        self
    }

    /// Returns the buffer detached from its pool, if this is its only share. Its charge is returned.
    #[inline]
    pub(super) fn take(mut buffer: Arc<Buffer>) -> Option<(SoleBuffer, Arc<dyn BlockPool>)> {
        let (pool, _) = match Arc::get_mut(&mut buffer)? {
            Buffer { storage: Storage::Pooled(_, user), .. } => user.take()?,
            _ => return None,
        };
        Some((SoleBuffer(buffer), pool))
    }

    #[inline]
    fn get_mut(&mut self) -> &mut Buffer {
        // SAFETY: this is the only share: `of_block` has just created it, or `take` found no other one, strong or weak, and
        // none is created from a `SoleBuffer`, whose field is private. The exclusive borrow of it is one of the buffer.
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
    }

    /// Length in bytes with which it was taken.
    #[inline]
    pub fn length(&self) -> u64 {
        self.0.length()
    }

    /// Capacity in bytes of the buffer's block; 0 without one.
    #[inline]
    pub fn capacity(&self) -> usize {
        if let Storage::Pooled(block, _) = &self.0.storage { block.capacity() } else { 0 }
    }

    /// Converts it to a buffer of `length` bytes, which returns to the pool, and `charge` to its ledger.
    ///
    /// # Errors
    /// INTERNAL where the block has fewer bytes.
    #[inline]
    pub fn hand_out(mut self, length: usize, pool: Arc<dyn BlockPool>, charge: Charge) -> Result<Arc<Buffer>> {
        match self.get_mut() {
            Buffer { length: current, storage: Storage::Pooled(block, user), .. } if length <= block.capacity() => {
                *current = length;
                *user = Some((pool, charge));
            }
            _ => return Err(Error::internal("what a pool kept is not a buffer of the size")),
        }
        Ok(self.0)
    }
}

impl fmt::Debug for SoleBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What [`Block::allocate`] asks the system allocator for; more is had by moving the start up.
const BASE_ALIGNMENT: usize = 16;

/// A piece of memory from the system allocator or of a [`Chunk`], zeroed when it was obtained. Returned when dropped.
pub struct Block {
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
pub struct Chunk {
    pointer: NonNull<u8>,
    length: usize,
    /// The end of the ranges that blocks have.
    used: AtomicUsize,
}

// SAFETY: a chunk owns its memory, which is not tied to a thread, and exposes nothing but addresses.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Alignment of chunks and unit of their lengths, in bytes: the common size of a huge page.
    pub const UNIT: usize = 2 << 20;

    /// Maps at least `length` bytes of zeros, or `None` where the system has none or no such mapping.
    #[cfg(all(unix, feature = "std"))]
    pub fn map(length: usize) -> Option<Arc<Chunk>> {
        let length = length.checked_next_multiple_of(Chunk::UNIT)?;
        let span = length.checked_add(Chunk::UNIT)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no memory that exists.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), span, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let before = base.cast::<u8>().align_offset(Chunk::UNIT).min(Chunk::UNIT);
        // SAFETY: what lies before and behind the aligned part belongs to the mapping and is unused.
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
            Some(Arc::new(Chunk { pointer: NonNull::new(pointer)?, length, used: AtomicUsize::new(0) }))
        }
    }

    /// No mapping on this system.
    #[cfg(not(all(unix, feature = "std")))]
    pub fn map(_: usize) -> Option<Arc<Chunk>> {
        None
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
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
// SAFETY: a shared block exposes nothing but its address and its layout.
unsafe impl Sync for Block {}

impl Block {
    /// Obtains `capacity` bytes (at least 1) aligned to `alignment` (a power of two), or `None` where the system has
    /// none.
    pub fn allocate(capacity: usize, alignment: usize) -> Option<Block> {
        // The standard library converts a request for zeroed memory of a large alignment to an allocation and a
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

    /// A range of a chunk behind those of all its earlier blocks; `None` where the chunk does not have it.
    pub fn of_chunk(chunk: Arc<Chunk>, offset: usize, capacity: usize) -> Option<Block> {
        let end = offset.checked_add(capacity).filter(|end| *end <= chunk.length)?;
        // Ranges do not overlap, as each exchange of the one number takes what lies behind the one before.
        let take = |used| (used <= offset).then_some(end);
        chunk.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        // SAFETY: the range was checked in the lines above.
        let pointer = unsafe { chunk.pointer.add(offset) };
        Some(Block { origin: Origin::Chunk(chunk), pointer, capacity })
    }

    /// The first byte.
    pub(super) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Number of bytes from the aligned start on, as asked for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match &self.origin {
            // SAFETY: `base` was allocated with `layout` in `allocate`, and nothing else frees it.
            Origin::System(base, layout) => unsafe { dealloc(base.as_ptr(), *layout) },
            Origin::Chunk(_) => discard_pages(self.pointer, self.capacity),
        }
    }
}

/// Returns the pages within a range of a chunk to the system. The range itself remains mapped until the chunk is dropped.
fn discard_pages(start: NonNull<u8>, length: usize) {
    #[cfg(all(target_os = "linux", feature = "std"))]
    {
        const PAGE: usize = 4096;
        let before = start.as_ptr().align_offset(PAGE).min(length);
        let pages = (length - before) & !(PAGE - 1);
        // SAFETY: the pages lie within the range of a block of an anonymous mapping that is being dropped, so that no other
        // holder knows an address in them.
        unsafe { libc::madvise(start.as_ptr().add(before).cast(), pages, libc::MADV_DONTNEED) };
    }
    #[cfg(not(all(target_os = "linux", feature = "std")))]
    let _ = (start, length);
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:p}, {} bytes)", self.pointer, self.capacity)
    }
}
