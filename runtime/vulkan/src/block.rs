//! Blocks of memory: one allocation of Vulkan, or imported memory of the host, and one buffer over all of it.
#![allow(unsafe_code, reason = "calls Vulkan, and contains addresses of mapped memory")]

use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use incarnate_hal::backend::HostMemory;
use incarnate_hal::{BindingPointer, MINIMUM_ALIGNMENT};

use crate::error::Checked;
use crate::gpu::Gpu;
use crate::ranges::Ranges;
use crate::{Error, Result};

/// The alignment of allocations in bytes: the greatest `minStorageBufferOffsetAlignment` that Vulkan permits.
pub(crate) const ALIGNMENT: u64 = 256;

/// The type of memory of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockKind {
    pub(crate) index: u32,
    pub(crate) is_mapped: bool,
}

/// Memory that buffers are ranges of.
pub(crate) struct Block {
    gpu: Arc<Gpu>,
    /// Distinguishes it from every other block of the device, also those that are gone.
    pub(crate) id: u64,
    memory: vk::DeviceMemory,
    pub(crate) buffer: vk::Buffer,
    pub(crate) size: u64,
    /// The device address; 0 if the device has none.
    pub(crate) address: u64,
    /// The address at which the host accesses it.
    pub(crate) host: Option<BindingPointer>,
    pub(crate) is_dedicated: bool,
    pub(crate) ranges: Mutex<Ranges>,
    /// Keeps memory of the host that was imported.
    pub(crate) imported: Option<HostMemory>,
}

fn buffer_info(gpu: &Gpu, size: u64) -> vk::BufferCreateInfo<'_> {
    let usage = vk::BufferUsageFlags::TRANSFER_SRC
        | vk::BufferUsageFlags::TRANSFER_DST
        | vk::BufferUsageFlags::UNIFORM_BUFFER
        | vk::BufferUsageFlags::STORAGE_BUFFER
        | vk::BufferUsageFlags::INDIRECT_BUFFER;
    let addresses = gpu.properties.features.has_device_addresses();
    let addresses = if addresses { vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS } else { vk::BufferUsageFlags::empty() };
    // Buffers belong to all families at once, so that no submission hands them over.
    let sharing = if gpu.families.len() > 1 { vk::SharingMode::CONCURRENT } else { vk::SharingMode::EXCLUSIVE };
    let info = vk::BufferCreateInfo::default().size(size).usage(usage | addresses);
    info.sharing_mode(sharing).queue_family_indices(&gpu.families)
}

/// The types of memory that buffers can use, by bit.
pub(crate) fn buffer_memory_types(gpu: &Gpu) -> Result<u32> {
    // SAFETY: the device lives; the buffer has no memory and is destroyed at once.
    unsafe {
        let buffer = gpu.raw.create_buffer(&buffer_info(gpu, ALIGNMENT), None).checked("creating a buffer")?;
        let bits = gpu.raw.get_buffer_memory_requirements(buffer).memory_type_bits;
        gpu.raw.destroy_buffer(buffer, None);
        Ok(bits)
    }
}

impl Block {
    /// Allocates a block in memory of a type.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn new(gpu: &Arc<Gpu>, id: u64, kind: BlockKind, size: u64, is_dedicated: bool) -> Result<Block> {
        if size > gpu.properties.maximum_allocation {
            return Err(Error::resource_exhausted(format!(
                "{size} bytes exceed maxMemoryAllocationSize {} of the device",
                gpu.properties.maximum_allocation
            )));
        }
        let mut block = Block::without_memory(gpu, id, size, &mut buffer_info(gpu, size))?;
        block.is_dedicated = is_dedicated;
        let info = vk::MemoryAllocateInfo::default().allocation_size(block.requirements().size);
        // SAFETY: the memory has the size and the type that the buffer requires (the type is one of `buffer_memory_types`). Mapped
        // memory is of a type that the host can access, and is unmapped when it is freed.
        unsafe {
            block.allocate(info.memory_type_index(kind.index))?;
            if kind.is_mapped {
                let address = gpu.raw.map_memory(block.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty());
                block.host = Some(BindingPointer(address.checked("mapping device memory")?.cast()));
            }
        }
        Ok(block)
    }

    /// Creates a block of memory of the host: of the whole pages that contain it. Returns the offset of the memory in the block.
    /// `None` if the device cannot use it in place.
    pub(crate) fn import(gpu: &Arc<Gpu>, id: u64, memory: HostMemory) -> Option<(Block, u64)> {
        let functions = gpu.external_host_memory.as_ref()?;
        let page = usize::try_from(gpu.properties.host_pointer_alignment?).ok()?;
        let (start, size) = memory.pages(page)?;
        let offset = memory.address().0.addr() - start.0.addr();
        // What `DeviceMemory` guarantees and what bindings of any kind require: all are powers of two.
        let limits = &gpu.properties.limits;
        let alignment = limits.min_storage_buffer_offset_alignment.max(limits.min_uniform_buffer_offset_alignment);
        if !(offset as u64).is_multiple_of(alignment.max(MINIMUM_ALIGNMENT as u64)) {
            return None;
        }
        let handle = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the device has the extension; the pages are memory of this process, as `HostMemory` guarantees.
        let asked = unsafe {
            let device = gpu.raw.handle();
            (functions.fp().get_memory_host_pointer_properties_ext)(device, handle, start.0.cast(), &mut properties)
        };
        asked.result().ok()?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handle);
        let mut info = buffer_info(gpu, size as u64).push_next(&mut external);
        let mut block = Block::without_memory(gpu, id, size as u64, &mut info).ok()?;
        let requirements = block.requirements();
        let types = gpu.properties.memory.memory_types_as_slice().iter().zip(0u32..);
        let usable = requirements.memory_type_bits & properties.memory_type_bits;
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let (_, index) =
            types.into_iter().find(|(row, index)| usable >> index & 1 != 0 && row.property_flags.contains(wanted))?;
        if requirements.size > size as u64 {
            return None;
        }
        let mut pointer =
            vk::ImportMemoryHostPointerInfoEXT::default().handle_type(handle).host_pointer(start.0.cast());
        let info = vk::MemoryAllocateInfo::default().allocation_size(size as u64).memory_type_index(index);
        // SAFETY: pages of this process that the block keeps, in the multiple and of a type that the device asks for.
        unsafe { block.allocate(info.push_next(&mut pointer)) }.ok()?;
        block.host = Some(start);
        block.imported = Some(memory);
        Some((block, offset as u64))
    }

    fn without_memory(gpu: &Arc<Gpu>, id: u64, size: u64, info: &mut vk::BufferCreateInfo<'_>) -> Result<Block> {
        // SAFETY: the device lives, as the block keeps a share.
        let buffer = unsafe { gpu.raw.create_buffer(info, None) }.checked("creating a buffer")?;
        Ok(Block {
            gpu: Arc::clone(gpu),
            id,
            memory: vk::DeviceMemory::null(),
            buffer,
            size,
            address: 0,
            host: None,
            is_dedicated: false,
            ranges: Mutex::new(Ranges::all(size)),
            imported: None,
        })
    }

    fn requirements(&self) -> vk::MemoryRequirements {
        // SAFETY: the buffer is of the device.
        unsafe { self.gpu.raw.get_buffer_memory_requirements(self.buffer) }
    }

    /// Allocates and binds the memory of a block that has none.
    ///
    /// # Safety
    /// The memory has the size and the type that the buffer requires.
    unsafe fn allocate(&mut self, info: vk::MemoryAllocateInfo<'_>) -> Result<()> {
        let raw = &self.gpu.raw;
        let has_addresses = self.gpu.properties.features.has_device_addresses();
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let info = if has_addresses { info.push_next(&mut flags) } else { info };
        // SAFETY: buffer and memory are of the device, and are bound once; the caller chose size and type.
        unsafe {
            self.memory = raw.allocate_memory(&info, None).checked("allocating device memory")?;
            raw.bind_buffer_memory(self.buffer, self.memory, 0).checked("binding device memory")?;
            if has_addresses {
                let info = vk::BufferDeviceAddressInfo::default().buffer(self.buffer);
                self.address = raw.get_buffer_device_address(&info);
            }
        }
        Ok(())
    }

    /// Takes a range. A block of its own is for an allocation that takes most of it.
    pub(crate) fn take(&self, capacity: u64, is_dedicated: bool) -> Option<u64> {
        if is_dedicated != self.is_dedicated || is_dedicated && capacity < self.size - self.size / 4 {
            return None;
        }
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if is_dedicated && !ranges.is_unused() {
            return None;
        }
        ranges.take(capacity)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: no allocation of the block is left, and operations that are not done keep their allocations. Null handles are
        // ignored.
        unsafe {
            self.gpu.raw.destroy_buffer(self.buffer, None);
            self.gpu.raw.free_memory(self.memory, None);
        }
    }
}
