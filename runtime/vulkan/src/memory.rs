//! Device memory: the allocations in [blocks](crate::block).
//!
//! An allocation is a range of the buffer of a block. Small allocations share blocks; a large one has its own, which is kept for the
//! next allocation of about its size.
#![allow(unsafe_code, reason = "calls Vulkan, and contains addresses of mapped memory")]

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use incarnate_hal::backend::{DeviceAllocator, DeviceMemory, HostMemory};
use incarnate_hal::{AllocatorStatistics, BindingPointer, BufferParameters, MemoryType};

use crate::block::{ALIGNMENT, Block, BlockKind, buffer_memory_types};
use crate::gpu::Gpu;
use crate::{Error, Result};

/// The size of blocks that allocations share, in bytes.
const BLOCK: u64 = 64 << 20;
/// An allocation from this length on has a block of its own.
const DEDICATED_FROM: u64 = BLOCK / 4;
/// Bytes of unused blocks that may always be kept, whatever the peak was.
const CACHE_FLOOR: u64 = BLOCK;

/// Whether host code accesses device memory in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostAccess {
    /// If host and device share one memory.
    #[default]
    Automatic,
    /// Never: every access of the host is a copy by the device, as on cards with memory of their own.
    Staged,
}

/// A kind of memory that buffers are allocated in.
struct Kind {
    block: BlockKind,
    memory_type: MemoryType,
    /// The size of the heap in bytes.
    heap: u64,
    blocks: Mutex<Vec<Arc<Block>>>,
}

/// Allocates the memory of a device.
pub(crate) struct Heap {
    gpu: Arc<Gpu>,
    /// For buffers of programs.
    local: Kind,
    /// For transfers between host and device, and for buffers that must be mapped; `None` if `local` is mapped.
    host: Option<Kind>,
    limit: u64,
    next_id: AtomicU64,
    statistics: Mutex<AllocatorStatistics>,
}

/// A range of a block.
pub(crate) struct Allocation {
    heap: Arc<Heap>,
    block: Arc<Block>,
    offset: u64,
    length: u64,
    /// What is taken of the block.
    capacity: u64,
}

/// A position in a buffer of Vulkan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BufferPosition {
    pub(crate) buffer: vk::Buffer,
    pub(crate) offset: u64,
    /// The bytes that belong to the allocation from the offset on.
    pub(crate) available: u64,
    /// The device address of the first byte; 0 if the device has none.
    pub(crate) address: u64,
    /// The identity of the block.
    pub(crate) block: u64,
}

impl Heap {
    /// Creates the allocator of a device; live allocations take at most `limit` bytes.
    ///
    /// # Errors
    /// UNAVAILABLE if the device has no memory that buffers can use.
    pub(crate) fn new(gpu: Arc<Gpu>, limit: u64, access: HostAccess) -> Result<Heap> {
        let memory = &gpu.properties.memory;
        let bits = buffer_memory_types(&gpu)?;
        let find = |wanted: vk::MemoryPropertyFlags, unwanted: vk::MemoryPropertyFlags| {
            memory.memory_types_as_slice().iter().zip(0u32..).find_map(|(row, index)| {
                let flags = row.property_flags;
                let fits = flags.contains(wanted) && !flags.intersects(unwanted) && bits >> index & 1 != 0;
                fits.then_some((index, flags, row.heap_index))
            })
        };
        let none = vk::MemoryPropertyFlags::empty();
        let unusual = vk::MemoryPropertyFlags::LAZILY_ALLOCATED | vk::MemoryPropertyFlags::PROTECTED;
        let (local, visible) = (vk::MemoryPropertyFlags::DEVICE_LOCAL, vk::MemoryPropertyFlags::HOST_VISIBLE);
        let visible = visible | vk::MemoryPropertyFlags::HOST_COHERENT;
        let cached = visible | vk::MemoryPropertyFlags::HOST_CACHED;
        let missing = || Error::unavailable(format!("device '{}' has no memory for buffers", gpu.properties.name));
        let kind = |(index, flags, heap): (u32, vk::MemoryPropertyFlags, u32), is_mapped: bool| Kind {
            block: BlockKind { index, is_mapped },
            memory_type: memory_type(flags, is_mapped),
            heap: memory.memory_heaps_as_slice().get(heap as usize).map_or(0, |heap| heap.size),
            blocks: Mutex::default(),
        };
        let shared = (gpu.properties.shares_memory() && access == HostAccess::Automatic)
            .then(|| find(local | cached, none).or_else(|| find(local | visible, none)))
            .flatten();
        let (local, host) = match shared {
            Some(found) => (kind(found, true), None),
            None => {
                let local = find(local, visible | unusual).or_else(|| find(local, unusual));
                let local = local.or_else(|| find(none, unusual)).ok_or_else(missing)?;
                let host = find(cached, none).or_else(|| find(visible, none)).ok_or_else(missing)?;
                (kind(local, false), Some(kind(host, true)))
            }
        };
        let statistics = Mutex::default();
        Ok(Heap { gpu, local, host, limit, next_id: AtomicU64::new(1), statistics })
    }

    /// Allocates memory that the host can access, for transfers.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn allocate_mapped(self: &Arc<Heap>, length: u64) -> Result<Allocation> {
        self.allocate_in(self.host.as_ref().unwrap_or(&self.local), length)
    }

    /// Allocates memory of the device.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn allocate_local(self: &Arc<Heap>, length: u64) -> Result<Allocation> {
        self.allocate_in(&self.local, length)
    }

    fn allocate_in(self: &Arc<Heap>, kind: &Kind, length: u64) -> Result<Allocation> {
        let capacity = length.max(1).checked_next_multiple_of(ALIGNMENT);
        let capacity = capacity.filter(|capacity| *capacity <= kind.heap);
        let capacity = capacity.ok_or_else(|| {
            Error::resource_exhausted(format!("{length} bytes are more than the {} of the device's heap", kind.heap))
        })?;
        self.count(length)?;
        match self.take(kind, capacity) {
            Ok((block, offset)) => Ok(Allocation { heap: Arc::clone(self), block, offset, length, capacity }),
            Err(error) => {
                self.uncount(length);
                let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
                statistics.freed = statistics.freed.wrapping_sub(length);
                statistics.allocated = statistics.allocated.wrapping_sub(length);
                Err(error.context(format!("allocating {length} bytes")))
            }
        }
    }

    fn take(&self, kind: &Kind, capacity: u64) -> Result<(Arc<Block>, u64)> {
        let is_dedicated = capacity >= DEDICATED_FROM;
        let taken = || {
            let blocks = kind.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks.iter().find_map(|block| Some((Arc::clone(block), block.take(capacity, is_dedicated)?)))
        };
        if let Some(taken) = taken() {
            return Ok(taken);
        }
        let shared = BLOCK.min(kind.heap / 16).max(capacity);
        let size = if is_dedicated { capacity } else { shared };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let create = || Block::new(&self.gpu, id, kind.block, size, is_dedicated);
        // What is kept may be what is missing.
        let block = create().or_else(|_| {
            self.trim();
            create()
        })?;
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner).system_allocations += 1;
        let block = Arc::new(block);
        let offset = block.take(capacity, is_dedicated);
        let offset = offset.ok_or_else(|| Error::internal("new block of device memory is too small"))?;
        kind.blocks.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&block));
        Ok((block, offset))
    }

    fn count(&self, length: u64) -> Result<()> {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        let live = statistics.live.saturating_add(length);
        if live > self.limit {
            return Err(Error::resource_exhausted(format!(
                "{length} bytes exceed the device's limit of {} bytes, of which {} are in use",
                self.limit, statistics.live
            )));
        }
        statistics.live = live;
        statistics.peak = statistics.peak.max(live);
        statistics.allocated = statistics.allocated.wrapping_add(length);
        Ok(())
    }

    fn uncount(&self, length: u64) {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.live -= length;
        statistics.freed = statistics.freed.wrapping_add(length);
    }

    fn kinds(&self) -> impl Iterator<Item = &Kind> {
        std::iter::once(&self.local).chain(&self.host)
    }

    /// Frees unused blocks as long as more than `keep` bytes of them are kept.
    fn free_unused(&self, keep: u64) {
        let mut unused = 0;
        for kind in self.kinds() {
            let mut blocks = kind.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            // Blocks are taken under the lock, so an unused one stays so.
            let freed: Vec<_> = blocks
                .extract_if(.., |block| {
                    let is_unused = block.ranges.lock().unwrap_or_else(PoisonError::into_inner).is_unused();
                    unused += if is_unused { block.size } else { 0 };
                    is_unused && unused > keep
                })
                .collect();
            drop(blocks);
            drop(freed);
        }
    }
}

impl DeviceAllocator for Heap {
    fn allocate(
        self: Arc<Heap>,
        parameters: BufferParameters,
        length: usize,
    ) -> Result<(Arc<dyn DeviceMemory>, MemoryType)> {
        let asked = parameters.memory_type;
        let is_for_host = asked.contains(MemoryType::HOST_VISIBLE) && !asked.contains(MemoryType::DEVICE_LOCAL);
        let kind = self.host.as_ref().filter(|_| is_for_host).unwrap_or(&self.local);
        let allocation = self.allocate_in(kind, length as u64)?;
        Ok((Arc::new(allocation), kind.memory_type))
    }

    fn import(self: Arc<Self>, memory: HostMemory) -> Option<(Arc<dyn DeviceMemory>, MemoryType)> {
        // A device with memory of its own would reach that of the host by a bus, at each access.
        if self.host.is_some() {
            return None;
        }
        let (length, id) = (memory.length() as u64, self.next_id.fetch_add(1, Ordering::Relaxed));
        let (block, offset) = Block::import(&self.gpu, id, memory)?;
        let capacity = length.next_multiple_of(ALIGNMENT).min(block.size - offset);
        let memory_type = self.local.memory_type;
        let allocation = Allocation { heap: Arc::clone(&self), block: Arc::new(block), offset, length, capacity };
        Some((Arc::new(allocation), memory_type))
    }

    fn trim(&self) {
        self.free_unused(0);
    }

    fn statistics(&self) -> AllocatorStatistics {
        let mut statistics = *self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |kind: &Kind| {
            let blocks = kind.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks.iter().map(|block| block.size).sum::<u64>()
        };
        statistics.cached = self.kinds().map(of).sum::<u64>().saturating_sub(statistics.live);
        statistics
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heap(at most {} bytes)", self.limit)
    }
}

/// The memory's type as programs see it.
fn memory_type(flags: vk::MemoryPropertyFlags, is_mapped: bool) -> MemoryType {
    let mut memory_type = MemoryType::DEVICE_VISIBLE;
    if flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL) {
        memory_type |= MemoryType::DEVICE_LOCAL;
    }
    if is_mapped {
        memory_type |= MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT;
    }
    if is_mapped && flags.contains(vk::MemoryPropertyFlags::HOST_CACHED) {
        memory_type |= MemoryType::HOST_CACHED;
    }
    memory_type
}

impl Allocation {
    /// Returns the position of a byte in the buffer of Vulkan.
    pub(crate) fn position(&self, offset: u64) -> BufferPosition {
        let address = if self.block.address == 0 { 0 } else { self.block.address + self.offset + offset };
        BufferPosition {
            buffer: self.block.buffer,
            offset: self.offset + offset,
            available: self.capacity.saturating_sub(offset),
            address,
            block: self.block.id,
        }
    }

    /// Returns true if the memory is of the device.
    pub(crate) fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.heap.gpu, gpu)
    }

    pub(crate) fn heap(&self) -> &Arc<Heap> {
        &self.heap
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.heap.gpu
    }

    /// Returns the number of bytes.
    pub(crate) fn length(&self) -> usize {
        self.length as usize
    }

    /// Returns the address at which the host accesses the memory; `None` if it is not mapped.
    pub(crate) fn mapped_address(&self) -> Option<BindingPointer> {
        self.block.host.map(|address| BindingPointer(address.0.wrapping_add(self.offset as usize)))
    }

    /// Copies bytes to mapped memory.
    ///
    /// # Errors
    /// INTERNAL if the range exceeds the allocation or the memory is not mapped.
    pub(crate) fn write_mapped(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let target = self.mapped(offset, bytes.len())?;
        // SAFETY: `mapped` checked the range; no reference to mapped memory exists.
        unsafe { incarnate_vm::guest::copy(bytes.as_ptr(), target, bytes.len()) };
        Ok(())
    }

    /// Copies bytes out of mapped memory.
    ///
    /// # Errors
    /// Those of [`Allocation::write_mapped`].
    pub(crate) fn read_mapped(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let source = self.mapped(offset, bytes.len())?;
        // SAFETY: `mapped` checked the range; `bytes` is exclusively borrowed.
        unsafe { incarnate_vm::guest::copy(source, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn mapped(&self, offset: usize, length: usize) -> Result<*mut u8> {
        let end = offset.checked_add(length).filter(|end| *end as u64 <= self.length);
        match (self.mapped_address(), end) {
            (Some(address), Some(_)) => Ok(address.0.wrapping_add(offset)),
            _ => Err(Error::internal("range of mapped device memory is not there")),
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.block.imported.is_some() {
            return;
        }
        self.block.ranges.lock().unwrap_or_else(PoisonError::into_inner).put(self.offset, self.capacity);
        self.heap.uncount(self.length);
        if self.block.is_dedicated {
            let peak = self.heap.statistics.lock().unwrap_or_else(PoisonError::into_inner).peak;
            self.heap.free_unused(peak.max(CACHE_FLOOR));
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.block.host.is_some() { "mapped" } else { "local" };
        write!(f, "{kind} device memory of {} bytes", self.length)
    }
}
