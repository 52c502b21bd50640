//! The allocator of a device: pooled memory, and memory of the host that is used in place.

use alloc::sync::Arc;

use super::buffer::Buffer;
use super::memory::{BufferParameters, BufferUsage, MemoryType};
pub use super::pool::AllocatorStatistics;
use super::pool::Pool;
use super::storage::Storage;
use crate::{Result, ref_object};

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

    /// Makes a read-only buffer of memory that the host owns, in place, whatever its alignment; the owner is kept as long
    /// as the buffer.
    #[must_use]
    pub fn import<T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        parameters: BufferParameters,
    ) -> Arc<Buffer> {
        self.wrap(Storage::from_owner(owner), parameters)
    }

    fn wrap(&self, storage: Storage, parameters: BufferParameters) -> Arc<Buffer> {
        // All memory here is the host's; `OPTIMAL` asks for a choice, which has been made.
        let memory_type = parameters.memory_type.union(MemoryType::HOST_VISIBLE).difference(MemoryType::OPTIMAL);
        Arc::new(Buffer::new(storage, memory_type, parameters.usage.union(HOST_USAGE)))
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
