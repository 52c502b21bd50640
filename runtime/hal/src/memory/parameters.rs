//! Types, access and usage of buffer memory, with the bits of IREE's `iree/hal/buffer.h`, which modules contain.

use bitflags::bitflags;

use crate::flags;

/// A length that means "to the end of the buffer" (`IREE_HAL_WHOLE_BUFFER`).
pub const WHOLE_BUFFER: u64 = u64::MAX;

bitflags! {
    /// The location and visibility of memory (`iree_hal_memory_type_t`). Unknown bits are kept.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct MemoryType: u32 {
        /// Lets the allocator choose; never a property of an allocated buffer.
        const OPTIMAL = 1 << 0;
        /// The host can read and write the memory.
        const HOST_VISIBLE = 1 << 1;
        /// The host and the device see each other's writes without flushing.
        const HOST_COHERENT = 1 << 2;
        /// The host accesses the memory through its caches.
        const HOST_CACHED = 1 << 3;
        /// Host memory.
        const HOST_LOCAL = Self::HOST_VISIBLE.bits() | Self::HOST_COHERENT.bits() | 1 << 6;
        /// The device can read and write the memory.
        const DEVICE_VISIBLE = 1 << 4;
        /// Device memory.
        const DEVICE_LOCAL = Self::DEVICE_VISIBLE.bits() | 1 << 5;
        const _ = !0;
    }
}

bitflags! {
    /// The allowed access to memory (`iree_hal_memory_access_t`). Unknown bits are kept.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct MemoryAccess: u32 {
        /// The memory may be read.
        const READ = 1 << 0;
        /// The memory may be written.
        const WRITE = 1 << 1;
        /// The contents may be discarded before a write.
        const DISCARD = 1 << 2;
        /// The memory may be mapped several times at once.
        const MAY_ALIAS = 1 << 3;
        /// Accesses may be unaligned.
        const UNALIGNED = 1 << 4;
        /// Any access, unchecked.
        const ANY = 1 << 5;
        /// Read, write and discard.
        const ALL = Self::READ.bits() | Self::WRITE.bits() | Self::DISCARD.bits();
        const _ = !0;
    }
}

bitflags! {
    /// The allowed usage of a buffer (`iree_hal_buffer_usage_t`). Unknown bits are kept.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct BufferUsage: u32 {
        /// Source of copies.
        const TRANSFER_SOURCE = 1 << 0;
        /// Target of copies, fills and updates.
        const TRANSFER_TARGET = 1 << 1;
        /// Source and target of transfers.
        const TRANSFER = Self::TRANSFER_SOURCE.bits() | Self::TRANSFER_TARGET.bits();
        /// Contains the workgroup counts of indirect dispatches.
        const DISPATCH_INDIRECT_PARAMETERS = 1 << 8;
        /// Read by dispatches as uniform values.
        const DISPATCH_UNIFORM_READ = 1 << 9;
        /// Read by dispatches.
        const DISPATCH_STORAGE_READ = 1 << 10;
        /// Written by dispatches.
        const DISPATCH_STORAGE_WRITE = 1 << 11;
        /// Read and written by dispatches.
        const DISPATCH_STORAGE = Self::DISPATCH_STORAGE_READ.bits() | Self::DISPATCH_STORAGE_WRITE.bits();
        /// Read by dispatches as an image.
        const DISPATCH_IMAGE_READ = 1 << 12;
        /// Written by dispatches as an image.
        const DISPATCH_IMAGE_WRITE = 1 << 13;
        /// Any access of dispatches.
        const DISPATCH = Self::DISPATCH_INDIRECT_PARAMETERS.bits()
            | Self::DISPATCH_UNIFORM_READ.bits()
            | Self::DISPATCH_STORAGE.bits()
            | Self::DISPATCH_IMAGE_READ.bits()
            | Self::DISPATCH_IMAGE_WRITE.bits();
        /// May be exported to other processes or programming interfaces.
        const SHARING_EXPORT = 1 << 16;
        /// May be replicated across devices.
        const SHARING_REPLICATE = 1 << 17;
        /// May be used by several devices at once.
        const SHARING_CONCURRENT = 1 << 18;
        /// Never written after initialisation.
        const SHARING_IMMUTABLE = 1 << 19;
        /// May be mapped for the duration of an access.
        const MAPPING_SCOPED = 1 << 24;
        /// May stay mapped while devices use it.
        const MAPPING_PERSISTENT = 1 << 25;
        /// Mapping is a hint, not a requirement.
        const MAPPING_OPTIONAL = 1 << 26;
        /// Mapped accesses are in random order.
        const MAPPING_ACCESS_RANDOM = 1 << 27;
        /// Mapped writes are sequential.
        const MAPPING_ACCESS_SEQUENTIAL_WRITE = 1 << 28;
        const _ = !0;
    }
}

flags::show_by_name!(MemoryType, MemoryAccess, BufferUsage);

/// Parameters of a buffer allocation (`iree_hal_buffer_params_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferParameters {
    /// The requested memory.
    pub memory_type: MemoryType,
    /// The intended usage.
    pub usage: BufferUsage,
}

impl BufferParameters {
    /// The parameters of results and temporaries: device memory for transfers and dispatches.
    pub const DEVICE: BufferParameters = BufferParameters {
        memory_type: MemoryType::DEVICE_LOCAL,
        usage: BufferUsage::TRANSFER.union(BufferUsage::DISPATCH_STORAGE),
    };
}

impl Default for BufferParameters {
    fn default() -> BufferParameters {
        BufferParameters::DEVICE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants that iree-compile 3.13.0 emits for a 4xf32 multiply, as `iree-dump-module` shows them.
    #[test]
    fn bits_are_those_in_modules() {
        assert_eq!(MemoryType::DEVICE_VISIBLE.bits(), 16);
        assert_eq!(MemoryType::DEVICE_LOCAL.bits(), 48);
        assert_eq!(MemoryType::HOST_LOCAL.bits(), 0x46);
        assert_eq!((BufferUsage::TRANSFER | BufferUsage::DISPATCH_STORAGE).bits(), 3075);
        assert_eq!(BufferUsage::DISPATCH.bits(), 0x3F00);
    }
}
