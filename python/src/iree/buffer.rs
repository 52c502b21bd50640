//! `HalBuffer`, `HalBufferView`, `Shape`.

use std::sync::Arc;

use incarnate_runtime::hal::{Buffer, BufferUsage, BufferView, ElementType, EncodingType, MemoryAccess, MemoryType};
use incarnate_runtime::vm::{Ledger, Ref};
use pyo3::prelude::*;

use super::flags;
use super::memory::MappedMemory;
use super::reference::RefObject;
use super::status::OrRaise;

/// A buffer of a device.
#[pyclass(module = "incarnate.iree.runtime", extends = RefObject, frozen)]
pub(super) struct HalBuffer(pub(super) Arc<Buffer>);

impl HalBuffer {
    pub(super) fn wrap(py: Python<'_>, buffer: Arc<Buffer>) -> PyResult<Bound<'_, HalBuffer>> {
        let base = RefObject::new(Ref::from(Arc::clone(&buffer)));
        Bound::new(py, PyClassInitializer::from(base).add_subclass(HalBuffer(buffer)))
    }
}

/// Returns the number of an element type as `iree.runtime` shows it: its bytes as they are in memory, least significant first.
pub(super) fn shown_element_type(element_type: ElementType) -> String {
    format!("{:#010x}", element_type.raw().swap_bytes())
}

/// The bytes, memory type, access and usage of a buffer, as text.
fn described(buffer: &Buffer) -> String {
    let access = buffer.access().intersection(MemoryAccess::ALL);
    format!(
        "{} bytes (at offset {} into {}), memory_type={}, allowed_access={}, allowed_usage={}",
        buffer.byte_length(),
        buffer.byte_offset(),
        buffer.allocation_length(),
        flags::text(flags::MEMORY_TYPES, buffer.memory_type().bits()),
        flags::text(flags::MEMORY_ACCESSES, access.bits()),
        flags::text(flags::BUFFER_USAGES, buffer.usage().bits()),
    )
}

#[pymethods]
impl HalBuffer {
    /// Fills a range with zeros.
    fn fill_zero(&self, py: Python<'_>, byte_offset: u64, byte_length: u64) -> PyResult<()> {
        py.detach(|| self.0.fill(byte_offset, byte_length, 0, 1)).or_raise(py, "Error zero filling buffer")
    }

    /// Returns the number of bytes.
    fn byte_length(&self) -> u64 {
        self.0.byte_length()
    }

    /// Returns the bits of `MemoryType`.
    fn memory_type(&self) -> u32 {
        self.0.memory_type().bits()
    }

    /// Returns the bits of `BufferUsage`.
    fn allowed_usage(&self) -> u32 {
        self.0.usage().bits()
    }

    /// Creates a view of opaque elements of a number of bytes.
    fn create_view<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, Shape>,
        element_size: u8,
    ) -> PyResult<Bound<'py, HalBufferView>> {
        let element_type = ElementType::from_raw(u32::from(element_size.saturating_mul(8)));
        HalBufferView::create(py, &self.0, &shape.get().0, element_type)
    }

    /// Maps the buffer. The memory lives as long as the mapping, or an array of it.
    fn map<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, MappedMemory>> {
        MappedMemory::of_buffer(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!("<HalBuffer {}>", described(&self.0))
    }
}

/// A buffer with a shape and an element type.
#[pyclass(module = "incarnate.iree.runtime", extends = RefObject, frozen)]
pub(super) struct HalBufferView(pub(super) Arc<BufferView>);

impl HalBufferView {
    pub(super) fn wrap(py: Python<'_>, view: Arc<BufferView>) -> PyResult<Bound<'_, HalBufferView>> {
        Bound::new(py, HalBufferView::initializer(view))
    }

    fn initializer(view: Arc<BufferView>) -> PyClassInitializer<HalBufferView> {
        let base = RefObject::new(Ref::from(Arc::clone(&view)));
        PyClassInitializer::from(base).add_subclass(HalBufferView(view))
    }

    pub(super) fn create<'py>(
        py: Python<'py>,
        buffer: &Arc<Buffer>,
        shape: &[u64],
        element_type: ElementType,
    ) -> PyResult<Bound<'py, HalBufferView>> {
        HalBufferView::wrap(py, create_view(py, buffer, shape, element_type)?)
    }
}

/// Creates a dense view.
pub(super) fn create_view(
    py: Python<'_>,
    buffer: &Arc<Buffer>,
    shape: &[u64],
    element_type: ElementType,
) -> PyResult<Arc<BufferView>> {
    let dense = EncodingType::DENSE_ROW_MAJOR;
    let view = BufferView::shared(Arc::clone(buffer), shape, element_type, dense, Ledger::HOST);
    view.or_raise(py, "creating buffer view")
}

#[pymethods]
impl HalBufferView {
    #[new]
    fn new(
        py: Python<'_>,
        buffer: &Bound<'_, HalBuffer>,
        shape: Vec<u64>,
        element_type: u32,
    ) -> PyResult<PyClassInitializer<HalBufferView>> {
        let view = create_view(py, &buffer.get().0, &shape, ElementType::from_raw(element_type))?;
        Ok(HalBufferView::initializer(view))
    }

    /// Maps the buffer. The memory lives as long as the mapping, or an array of it.
    fn map<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, MappedMemory>> {
        MappedMemory::of_buffer(py, self.0.buffer())
    }

    /// Returns the buffer.
    fn get_buffer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, HalBuffer>> {
        HalBuffer::wrap(py, Arc::clone(self.0.buffer()))
    }

    /// The extents of the dimensions, outermost first.
    #[getter]
    fn shape(&self) -> Vec<u64> {
        self.0.shape().to_vec()
    }

    /// The number of `HalElementType`.
    #[getter]
    fn element_type(&self) -> u32 {
        self.0.element_type().raw()
    }

    /// The number of bytes of the elements.
    #[getter]
    fn byte_length(&self) -> u64 {
        self.0.byte_length()
    }

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.0.shape().iter().map(ToString::to_string).collect();
        format!(
            "<HalBufferView ({}), element_type={}, {}>",
            shape.join(", "),
            shown_element_type(self.0.element_type()),
            described(self.0.buffer())
        )
    }
}

/// The extents of dimensions.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct Shape(Vec<u64>);

#[pymethods]
impl Shape {
    #[new]
    fn new(indices: Vec<u64>) -> Shape {
        Shape(indices)
    }
}

/// Returns the parameters of an allocation; without usage those of most buffers.
pub(super) fn parameters(memory_type: u32, usage: u32) -> incarnate_runtime::hal::BufferParameters {
    let usage = if usage == 0 { flags::DEFAULT_USAGE } else { BufferUsage::from_bits_retain(usage) };
    incarnate_runtime::hal::BufferParameters { memory_type: MemoryType::from_bits_retain(memory_type), usage }
}
