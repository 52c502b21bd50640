//! The module's functions.

use alloc::sync::Arc;

use super::HalInlineState;
use crate::hal::{
    Buffer, BufferParameters, BufferUsage, BufferView, ElementType, EncodingType, MINIMUM_ALIGNMENT, MemoryType,
};
use crate::modules::bytes::message_text;
use crate::vm::{Buffer as VmBuffer, Caller, Span};
use crate::{Error, Result};

/// What the program's own buffers are: memory of the host that everything may be done with.
const PARAMETERS: BufferParameters = BufferParameters {
    memory_type: MemoryType::HOST_LOCAL.union(MemoryType::DEVICE_VISIBLE),
    usage: BufferUsage::TRANSFER
        .union(BufferUsage::DISPATCH_STORAGE)
        .union(BufferUsage::MAPPING_SCOPED)
        .union(BufferUsage::MAPPING_PERSISTENT),
};

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalInlineState {
    fn allocate(&self, minimum_alignment: u32, length: u64) -> Result<(Arc<Buffer>, Arc<VmBuffer>)> {
        // No access needs an alignment: one that is larger than what the allocator gives is for speed alone. That it
        // is one is checked all the same.
        if !minimum_alignment.is_power_of_two() && minimum_alignment != 0 {
            return Err(Error::invalid_argument(alloc::format!(
                "buffer alignment {minimum_alignment} is not a power of two; {MINIMUM_ALIGNMENT} is the least"
            )));
        }
        let buffer = self.options.allocator.allocate(PARAMETERS, length)?;
        let storage = buffer.to_vm_buffer()?;
        Ok((buffer, storage))
    }

    pub fn buffer_allocate(
        &self,
        _: &mut Caller<'_>,
        minimum_alignment: u32,
        length: u64,
    ) -> Result<(Arc<Buffer>, Arc<VmBuffer>)> {
        self.allocate(minimum_alignment, length)
    }

    pub fn buffer_allocate_initialized(
        &self,
        _: &mut Caller<'_>,
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
        let (buffer, storage) = self.allocate(minimum_alignment, length)?;
        VmBuffer::copy(&source, offset, &storage, 0, length)?;
        Ok((buffer, storage))
    }

    pub fn buffer_wrap(
        &self,
        _: &mut Caller<'_>,
        source: Arc<VmBuffer>,
        offset: u64,
        length: u64,
    ) -> Result<Arc<Buffer>> {
        let mut parameters = PARAMETERS;
        if !source.is_mutable() {
            parameters.usage |= BufferUsage::SHARING_IMMUTABLE;
        }
        self.options.allocator.import_vm_buffer(&source, offset, length, parameters)
    }

    pub fn buffer_subspan(
        &self,
        _: &mut Caller<'_>,
        buffer: Arc<Buffer>,
        offset: u64,
        length: u64,
    ) -> Result<Arc<Buffer>> {
        buffer.subspan(offset, length)
    }

    pub fn buffer_length(&self, _: &mut Caller<'_>, buffer: &Buffer) -> Result<u64> {
        Ok(buffer.byte_length())
    }

    pub fn buffer_storage(&self, _: &mut Caller<'_>, buffer: Arc<Buffer>) -> Result<Arc<VmBuffer>> {
        buffer.to_vm_buffer()
    }

    pub fn buffer_view_create(
        &self,
        _: &mut Caller<'_>,
        buffer: Arc<Buffer>,
        offset: u64,
        length: u64,
        element_type: u32,
        encoding_type: u32,
        shape: Span<u64>,
    ) -> Result<Arc<BufferView>> {
        let buffer =
            if offset == 0 && length == buffer.byte_length() { buffer } else { buffer.subspan(offset, length)? };
        let (element_type, encoding_type) =
            (ElementType::from_raw(element_type), EncodingType::from_raw(encoding_type));
        BufferView::new(buffer, &shape, element_type, encoding_type).map(Arc::new)
    }

    pub fn buffer_view_assert(
        &self,
        _: &mut Caller<'_>,
        view: &BufferView,
        message: &VmBuffer,
        element_type: u32,
        encoding_type: u32,
        shape: Span<u64>,
    ) -> Result<()> {
        view.check(ElementType::from_raw(element_type), EncodingType::from_raw(encoding_type), &shape)
            .map_err(|error| error.context(message_text(message)))
    }

    pub fn buffer_view_buffer(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<Arc<Buffer>> {
        Ok(Arc::clone(view.buffer()))
    }

    pub fn buffer_view_element_type(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<u32> {
        Ok(view.element_type().raw())
    }

    pub fn buffer_view_encoding_type(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<u32> {
        Ok(view.encoding_type().raw())
    }

    pub fn buffer_view_rank(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<u32> {
        view.rank()
    }

    pub fn buffer_view_dim(&self, _: &mut Caller<'_>, view: &BufferView, index: u32) -> Result<u64> {
        view.dimension(index)
    }

    pub fn buffer_view_trace(
        &self,
        _: &mut Caller<'_>,
        key: Arc<VmBuffer>,
        views: Span<Arc<BufferView>>,
    ) -> Result<()> {
        self.options.trace_sink.trace(&key.to_text()?, &views)
    }

    /// Facts about the host: whether there is one, and what it is.
    pub fn device_query(&self, _: &mut Caller<'_>, category: &VmBuffer, key: &VmBuffer) -> Result<(i32, i64)> {
        let answer = match &*category.to_text()? {
            "hal.cpu" => has_feature(&key.to_text()?).map(i64::from),
            _ => None,
        };
        Ok((i32::from(answer.is_some()), answer.unwrap_or(0)))
    }
}

#[cfg(feature = "std")]
use crate::hal::local::has_feature;

/// Without `std` nothing is known of the processor.
#[cfg(not(feature = "std"))]
fn has_feature(_: &str) -> Option<bool> {
    None
}
