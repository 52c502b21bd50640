//! The allocator of a device: pooled memory, and memory of the host that is used in place.

use alloc::format;
use alloc::sync::Arc;

use super::buffer::{Buffer, resolve_range};
#[cfg(feature = "std")]
use super::late::Late;
use super::loan::{InputsOnlyRead, Loan};
use super::memory::{BufferParameters, BufferUsage, MemoryType};
pub use super::pool::AllocatorStatistics;
use super::pool::{MINIMUM_ALIGNMENT, Pool};
use super::storage::Storage;
#[cfg(feature = "std")]
use crate::bytecode::Contents;
#[cfg(feature = "std")]
use crate::mapping::MappedFile;
use crate::{Error, Result, ref_object, vm};

/// Allocates buffers (`!hal.allocator`). Memory of dropped buffers is kept and reused; see [`Allocator::trim`].
#[derive(Debug)]
pub struct Allocator {
    pool: Arc<Pool>,
}

ref_object!(Allocator, "hal.allocator");

/// What every buffer of host memory can do whatever was asked for, because its memory is the host's.
const HOST_USAGE: BufferUsage = BufferUsage::TRANSFER
    .union(BufferUsage::MAPPING_SCOPED)
    .union(BufferUsage::MAPPING_PERSISTENT)
    .union(BufferUsage::MAPPING_ACCESS_RANDOM);

/// Constants of up to this many bytes that are not in a mapped file are copied when they are imported.
pub const COPIED_CONSTANTS: usize = 64 << 10;

/// Lengths in bytes of buffers whose memory is obtained late: what is copied faster is not worth it, and of what is larger the
/// program learns at once whether it can have it.
#[cfg(feature = "std")]
const LATE: core::ops::RangeInclusive<u64> = 16 << 10..=1 << 30;

impl Default for Allocator {
    fn default() -> Allocator {
        Allocator::new()
    }
}

impl Allocator {
    /// An allocator that is bounded by the system's memory alone.
    #[must_use]
    pub fn new() -> Allocator {
        Allocator::with_limit(u64::MAX)
    }

    /// An allocator whose live buffers take at most `limit` bytes; imported memory is not counted.
    #[must_use]
    pub fn with_limit(limit: u64) -> Allocator {
        Allocator { pool: Pool::new(limit) }
    }

    /// Allocates a buffer of `length` bytes, aligned to 64 bytes or, when large, to a page. Memory that is new from the
    /// system is zero; memory that is reused holds anything.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the limit or the system's memory is used up.
    pub fn allocate(&self, parameters: BufferParameters, length: u64) -> Result<Arc<Buffer>> {
        Ok(self.wrap(self.pool.allocate(length)?, parameters))
    }

    /// As [`Allocator::allocate`] for what is about to be computed: the memory of a large buffer is obtained when it is first
    /// used, and may be that of another buffer by then ([`moves`](super::moves)).
    ///
    /// # Errors
    /// As above.
    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn allocate_late(&self, parameters: BufferParameters, length: u64) -> Result<Arc<Buffer>> {
        // Where there is a limit, what exceeds it is refused here.
        if !LATE.contains(&length) || self.pool.is_limited() {
            return self.allocate(parameters, length);
        }
        // In the range.
        let late = Late::new(length as usize, Arc::clone(&self.pool));
        Ok(self.wrap(Storage::late(late), parameters))
    }

    /// Makes a buffer of memory that the host owns, in place; the owner is kept as long as the buffer. What is written to the
    /// buffer is written to a copy, which is made when a transfer writes to it, a program asks for its bytes, or a kernel gets
    /// it that is not known to only read it: of machine code none is.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the memory is not aligned to [`MINIMUM_ALIGNMENT`] bytes, on which kernels rely.
    pub fn import<T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        parameters: BufferParameters,
    ) -> Result<Arc<Buffer>> {
        let loan = Loan::of_owner(owner, Arc::clone(&self.pool));
        self.wrap_aligned(Storage::lent(Arc::new(loan)), parameters)
    }

    /// The same, read-only and never copied: machine code only reads it, by the program's promise.
    ///
    /// # Errors
    /// As above.
    pub fn import_read_only<T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        parameters: BufferParameters,
        _: InputsOnlyRead,
    ) -> Result<Arc<Buffer>> {
        self.wrap_aligned(Storage::from_owner(owner), parameters)
    }

    /// Makes a buffer of a range of a program's byte buffer, in place: read-only where the parameters say that the contents
    /// never change.
    ///
    /// Constants of a module are not, whatever is said: compiler 3.13 makes programs that sort or scatter within a constant.
    /// In a file that is mapped they are mapped once more, to be copied page by page where they are written; of what is in
    /// memory at most [`COPIED_CONSTANTS`] bytes are copied, and more are used in place and refuse to be written.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range leaves the source or is not aligned to [`MINIMUM_ALIGNMENT`] bytes;
    /// PERMISSION_DENIED where a source that is read-only is imported for uses that are not.
    pub fn import_vm_buffer(
        &self,
        source: &Arc<vm::Buffer>,
        offset: u64,
        length: u64,
        parameters: BufferParameters,
    ) -> Result<Arc<Buffer>> {
        let available = usize::try_from(source.length()).unwrap_or(usize::MAX);
        let (offset, length) = resolve_range(available, offset, length)?;
        let immutable = parameters.usage.contains(BufferUsage::SHARING_IMMUTABLE);
        if !source.is_mutable() && !immutable {
            return Err(Error::permission_denied("a read-only source can be imported for constant uses only"));
        }
        if let Some(storage) = self.copied_on_write(source, offset, length)? {
            return self.wrap_aligned(storage, parameters);
        }
        self.wrap_aligned(Storage::from_vm_buffer(source, offset, length, !immutable)?, parameters)
    }

    /// Makes a buffer of a range of a file's bytes without copying them, if it can be: `None` where the range is not aligned to
    /// [`MINIMUM_ALIGNMENT`] bytes, or is not of a mapped file and may be written.
    ///
    /// What is written to the buffer stays there: of a mapped file, pages that are written to are copied.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range leaves the file.
    #[cfg(feature = "std")]
    pub fn import_contents(
        &self,
        contents: &Arc<Contents>,
        offset: u64,
        length: u64,
        parameters: BufferParameters,
    ) -> Result<Option<Arc<Buffer>>> {
        let bytes = contents.as_bytes();
        let (start, length) = resolve_range(bytes.len(), offset, length)?;
        if length == 0 || !bytes.as_ptr().wrapping_add(start).addr().is_multiple_of(MINIMUM_ALIGNMENT) {
            return Ok(None);
        }
        if let Some(file) = contents.owner::<MappedFile>()
            && let Ok(mapping) = file.private(start..start + length)
        {
            return self.wrap_aligned(Storage::from_mapping(mapping), parameters).map(Some);
        }
        if !parameters.usage.contains(BufferUsage::SHARING_IMMUTABLE) {
            return Ok(None);
        }
        let whole = self.wrap(Storage::from_owner(contents.clone()), parameters);
        whole.subspan(start as u64, length as u64).map(Some)
    }

    /// A range of a module's constants as memory of its own; `None` for what is no constant, or is used in place.
    fn copied_on_write(&self, source: &Arc<vm::Buffer>, offset: usize, length: usize) -> Result<Option<Storage>> {
        let (Some(contents), Some(bytes)) = (source.contents(), source.as_bytes()) else { return Ok(None) };
        let Some(bytes) = bytes.get(offset..).and_then(|bytes| bytes.get(..length)).filter(|_| length > 0) else {
            return Ok(None);
        };
        #[cfg(feature = "std")]
        if let Some(file) = contents.owner::<MappedFile>() {
            let start = bytes.as_ptr().addr() - file.as_bytes().as_ptr().addr();
            // Without another mapping the constant is used in place.
            return Ok(file.private(start..start + length).ok().map(Storage::from_mapping));
        }
        let _ = contents;
        if length > COPIED_CONSTANTS {
            return Ok(None);
        }
        let storage = self.pool.allocate(length as u64)?;
        storage.write(0, bytes)?;
        Ok(Some(storage))
    }

    /// As [`Allocator::import`] where the alignment allows it, else a buffer of a copy.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where there is no memory for a copy.
    pub fn import_or_copy<T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        parameters: BufferParameters,
    ) -> Result<Arc<Buffer>> {
        let bytes: &[u8] = (*owner).as_ref();
        if bytes.as_ptr().align_offset(MINIMUM_ALIGNMENT) == 0 {
            return self.import(owner, parameters);
        }
        let buffer = self.allocate(parameters, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// The pool that buffers come from.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(super) fn wrap_aligned(&self, storage: Storage, parameters: BufferParameters) -> Result<Arc<Buffer>> {
        if storage.length() > 0 && storage.address().0.align_offset(MINIMUM_ALIGNMENT) != 0 {
            return Err(Error::out_of_range(format!(
                "memory at {:p} is not aligned to {MINIMUM_ALIGNMENT} bytes and cannot be used in place",
                storage.address().0
            )));
        }
        Ok(self.wrap(storage, parameters))
    }

    #[inline(always)]
    fn wrap(&self, storage: Storage, parameters: BufferParameters) -> Arc<Buffer> {
        // All memory here is the host's; `OPTIMAL` asks for a choice, which has been made.
        let memory_type = parameters.memory_type.union(MemoryType::HOST_VISIBLE).difference(MemoryType::OPTIMAL);
        vm::arc_of(|| Buffer::new(storage, memory_type, parameters.usage.union(HOST_USAGE)))
    }

    /// Returns cached memory to the system.
    pub fn trim(&self) {
        self.pool.trim();
    }

    /// What is and was allocated, in bytes.
    #[must_use]
    pub fn statistics(&self) -> AllocatorStatistics {
        self.pool.statistics()
    }
}
