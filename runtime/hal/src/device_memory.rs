//! Memory that a device allocates, instead of the [pool](super::pool) of host memory.
//!
//! The host reads and writes it in place if it is mapped and coherent; otherwise the device copies.
#![allow(unsafe_code, reason = "declares the contract of addresses of mapped memory")]

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use super::memory::{BufferParameters, MemoryType};
use super::pool::AllocatorStatistics;
use super::storage::BindingPointer;
use crate::Result;

/// An allocation of a device. Callers check ranges before they pass them.
///
/// # Safety
/// `length` and `host_address` return the same values each time. If there is an address, the `length` bytes from it on are valid
/// for reads and writes, by several threads at once, as long as the value lives; the address is a multiple of
/// [`MINIMUM_ALIGNMENT`](super::MINIMUM_ALIGNMENT).
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

    /// Returns cached memory to the system.
    fn trim(&self);

    /// Returns the numbers of live and allocated bytes.
    fn statistics(&self) -> AllocatorStatistics;
}
