//! The module's functions.

use alloc::sync::Arc;

use super::HalInlineState;
use crate::hal::{Buffer, BufferParameters, BufferUsage, MINIMUM_ALIGNMENT, MemoryType};
use crate::vm::{Buffer as VmBuffer, Caller};
use crate::{Error, Result};

/// The memory of the program's own buffers: host memory for any use.
const PARAMETERS: BufferParameters = BufferParameters {
    memory_type: MemoryType::HOST_LOCAL.union(MemoryType::DEVICE_VISIBLE),
    usage: BufferUsage::TRANSFER
        .union(BufferUsage::DISPATCH_STORAGE)
        .union(BufferUsage::MAPPING_SCOPED)
        .union(BufferUsage::MAPPING_PERSISTENT),
};

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalInlineState {
    #[inline(always)]
    fn allocate(&self, caller: &Caller<'_>, minimum_alignment: u32, length: u64) -> Result<Arc<Buffer>> {
        // No access needs an alignment beyond the allocator's; a larger one only affects speed. It is validated all the
        // same.
        if !minimum_alignment.is_power_of_two() && minimum_alignment != 0 {
            return Err(Error::invalid_argument(alloc::format!(
                "buffer alignment {minimum_alignment} is not a power of two; {MINIMUM_ALIGNMENT} is the least"
            )));
        }
        self.options.allocator.allocate_charged(PARAMETERS, length, caller.ledger())
    }

    pub fn buffer_allocate(
        &self,
        caller: &mut Caller<'_>,
        minimum_alignment: u32,
        length: u64,
    ) -> Result<(Arc<Buffer>, Arc<VmBuffer>)> {
        let buffer = self.allocate(caller, minimum_alignment, length)?;
        let storage = Arc::clone(buffer.vm_buffer()?);
        Ok((buffer, storage))
    }

    /// Allocates a buffer like `buffer_allocate`, and returns it without its storage.
    #[inline]
    pub fn buffer_allocate_alone(
        &self,
        caller: &mut Caller<'_>,
        minimum_alignment: u32,
        length: u64,
    ) -> Result<Arc<Buffer>> {
        self.allocate(caller, minimum_alignment, length)
    }

    pub fn buffer_allocate_initialized(
        &self,
        caller: &mut Caller<'_>,
        minimum_alignment: u32,
        source: Arc<VmBuffer>,
        offset: u64,
        length: u64,
    ) -> Result<(Arc<Buffer>, Arc<VmBuffer>)> {
        if offset.checked_add(length).is_none_or(|end| end > source.length()) {
            return Err(Error::out_of_range(alloc::format!(
                "range of {length} bytes at offset {offset} leaves the source of {} bytes",
                source.length()
            )));
        }
        let buffer = self.allocate(caller, minimum_alignment, length)?;
        let storage = Arc::clone(buffer.vm_buffer()?);
        VmBuffer::copy(&source, offset, &storage, 0, length)?;
        Ok((buffer, storage))
    }

    pub fn buffer_wrap(
        &self,
        caller: &mut Caller<'_>,
        source: Arc<VmBuffer>,
        offset: u64,
        length: u64,
    ) -> Result<Arc<Buffer>> {
        let mut parameters = PARAMETERS;
        if !source.is_mutable() {
            parameters.usage |= BufferUsage::SHARING_IMMUTABLE;
        }
        self.options.allocator.import_vm_buffer_charged(&source, offset, length, parameters, caller.ledger())
    }

    #[inline]
    pub fn buffer_storage(&self, _: &mut Caller<'_>, buffer: &Buffer) -> Result<Arc<VmBuffer>> {
        buffer.vm_buffer().cloned()
    }

    /// Answers queries about the host.
    pub fn device_query(&self, _: &mut Caller<'_>, category: &VmBuffer, key: &VmBuffer) -> Result<(i32, i64)> {
        let answer = match &*category.text()? {
            "hal.cpu" => has_feature(&key.text()?).map(i64::from),
            _ => None,
        };
        Ok((i32::from(answer.is_some()), answer.unwrap_or(0)))
    }
}

#[cfg(feature = "std")]
use crate::hal::local::has_feature;

/// Without `std` no processor features are known.
#[cfg(not(feature = "std"))]
fn has_feature(_: &str) -> Option<bool> {
    None
}
