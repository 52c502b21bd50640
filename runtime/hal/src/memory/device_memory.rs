//! Memory that a device allocates, instead of the [pool](super::pool) of host memory.
//!
//! The host reads and writes it in place if it is mapped and coherent; otherwise the device copies.
#![allow(unsafe_code, reason = "declares the contract of addresses of mapped memory")]

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use super::address::BindingPointer;
use super::parameters::{BufferParameters, MemoryType};
use super::pool::AllocatorStatistics;
use crate::Result;
#[cfg(feature = "std")]
use crate::memory::mapping::WritableMapping;

/// An allocation of a device. Callers check ranges before they pass them.
///
/// # Safety
/// `length` and `host_address` return the same values each time. If there is an address, the `length` bytes from it on are valid
/// for reads and writes, by several threads at once, as long as the value lives; the address is a multiple of
/// [`MINIMUM_ALIGNMENT`](crate::MINIMUM_ALIGNMENT).
pub unsafe trait DeviceMemory: Any + Send + Sync + fmt::Debug {
    /// Returns the number of bytes.
    fn length(&self) -> usize;

    /// Returns the address at which the host accesses the memory in place; `None` if it cannot.
    fn host_address(&self) -> Option<BindingPointer>;

    /// Copies bytes out of memory that the host cannot access, and waits for the copy.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED without memory for the copy; the failure of the device.
    fn read(&self, offset: usize, target: &mut [u8]) -> Result<()>;

    /// Copies bytes into memory that the host cannot access, and waits for the copy.
    ///
    /// # Errors
    /// Those of [`DeviceMemory::read`].
    fn write(&self, offset: usize, source: &[u8]) -> Result<()>;

    /// Copies a range of other memory if this device can, and waits for the copy. `None` if it cannot. Ranges may overlap.
    fn copy_from(
        &self,
        offset: usize,
        source: &dyn DeviceMemory,
        source_offset: usize,
        length: usize,
    ) -> Option<Result<()>> {
        let _ = (offset, source, source_offset, length);
        None
    }
}

/// Memory of the host that a device may use in place, with what keeps it.
///
/// Its bytes are valid for reads and writes, by several threads at once, as long as the value lives. So are the pages of the system
/// that contain it, which it shares with nothing that is written.
pub struct HostMemory {
    address: BindingPointer,
    length: usize,
    #[expect(dead_code, reason = "keeps the memory")]
    owner: Arc<dyn Any + Send + Sync>,
}

/// The smallest page of the systems whose files are mapped.
const PAGE: usize = 4096;

impl HostMemory {
    /// Contains bytes of a private mapping of a file, which starts and ends with whole pages.
    #[cfg(feature = "std")]
    pub(super) fn of_mapping(mut mapping: WritableMapping, charges: impl Any + Send + Sync) -> HostMemory {
        let (address, length) = mapping.as_mut_ptr();
        HostMemory { address: BindingPointer(address), length, owner: Arc::new((mapping, charges)) }
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn address(&self) -> BindingPointer {
        self.address
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the address and the length of the pages that contain the memory, both multiples of `alignment`; `None` if the memory
    /// is not known to fill so large pages.
    #[must_use]
    pub fn pages(&self, alignment: usize) -> Option<(BindingPointer, usize)> {
        if alignment == 0 || !PAGE.is_multiple_of(alignment) || self.length == 0 {
            return None;
        }
        let before = self.address.0.addr() % PAGE;
        let length = before.checked_add(self.length)?.checked_next_multiple_of(PAGE)?;
        Some((BindingPointer(self.address.0.wrapping_sub(before)), length))
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes)", self.length)
    }
}

/// Allocates the memory of a device.
pub trait DeviceAllocator: Send + Sync + fmt::Debug {
    /// Allocates at least one byte, with the type of memory that it is. The memory returns to the allocator when its last share is
    /// dropped.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the limit or the device's memory is exhausted.
    fn allocate(
        self: Arc<Self>,
        parameters: BufferParameters,
        length: usize,
    ) -> Result<(Arc<dyn DeviceMemory>, MemoryType)>;

    /// Returns memory of the host as memory of the device that both access in place; `None` if the device cannot, or would access it
    /// slowly. It counts for no limit.
    fn import(self: Arc<Self>, memory: HostMemory) -> Option<(Arc<dyn DeviceMemory>, MemoryType)> {
        drop(memory);
        None
    }

    /// Returns cached memory to the system.
    fn trim(&self);

    /// Returns the numbers of live and allocated bytes.
    fn statistics(&self) -> AllocatorStatistics;
}
