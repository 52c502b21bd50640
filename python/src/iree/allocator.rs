//! `HalAllocator`.

use std::sync::Arc;

use incarnate_runtime::hal::{Buffer, BufferParameters, Device, ElementType, MemoryType};
use incarnate_runtime::{Result, vm};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::buffer::{HalBuffer, HalBufferView, create_view, parameters};
use super::device::HalDevice;
use super::flags;
use super::memory::{PythonMemory, python_memory};
use super::status::OrRaise;

/// Bytes from which a copy lets other threads of Python run: those that are copied in the time of a switch between threads, some
/// microseconds.
const DETACHED_FROM: u64 = 64 << 10;

/// Allocates memory of a device.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct HalAllocator(pub(super) Arc<Device>);

/// Allocates a buffer for a copy of a Python object's memory.
fn copy_of(
    py: Python<'_>,
    device: &Device,
    memory: &PythonMemory,
    parameters: BufferParameters,
) -> PyResult<Arc<Buffer>> {
    let (source, length) = (&memory.bytes, memory.bytes.length());
    let copy = || -> Result<Arc<Buffer>> {
        let buffer = device.allocator().allocate(parameters, length)?;
        vm::Buffer::copy(source, 0, buffer.vm_buffer()?, 0, length)?;
        Ok(buffer)
    };
    let copied = if length < DETACHED_FROM { copy() } else { py.detach(copy) };
    copied.or_raise(py, "Failed to allocate buffer copy")
}

/// Copies an array to a device as a view of a type of elements.
pub(super) fn view_of_copy<'py>(
    device: &Device,
    array: &Bound<'py, PyAny>,
    element_type: ElementType,
) -> PyResult<Arc<incarnate_runtime::hal::BufferView>> {
    let memory = python_memory(array, false)?;
    let default = parameters(MemoryType::DEVICE_LOCAL.bits(), 0);
    let buffer = copy_of(array.py(), device, &memory, default)?;
    create_view(array.py(), &buffer, &memory.shape, element_type)
}

#[pymethods]
impl HalAllocator {
    /// Returns cached memory to the system.
    fn trim(&self, py: Python<'_>) {
        py.detach(|| self.0.trim());
    }

    /// True: there are statistics.
    #[getter]
    fn has_statistics(&self) -> bool {
        true
    }

    /// The bytes that were allocated and freed, and the most that were allocated at once.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (statistics, items) = (self.0.allocator().statistics(), PyDict::new(py));
        // All memory is the host's, and allocated as that of the device.
        for (memory, peak, allocated, freed) in
            [("host", 0, 0, 0), ("device", statistics.peak, statistics.allocated, statistics.freed)]
        {
            items.set_item(format!("{memory}_bytes_peak"), peak)?;
            items.set_item(format!("{memory}_bytes_allocated"), allocated)?;
            items.set_item(format!("{memory}_bytes_freed"), freed)?;
        }
        Ok(items)
    }

    /// The statistics as text.
    #[getter]
    fn formatted_statistics(&self) -> String {
        let statistics = self.0.allocator().statistics();
        let line = |memory: &str, peak: u64, allocated: u64, freed: u64, live: u64| {
            format!("{memory:>12}: {peak:12}B peak / {allocated:12}B allocated / {freed:12}B freed / {live:12}B live\n")
        };
        line("HOST_LOCAL", 0, 0, 0, 0)
            + &line("DEVICE_LOCAL", statistics.peak, statistics.allocated, statistics.freed, statistics.live)
    }

    /// Returns what the allocator can do with buffers of the given parameters, as bits of `BufferCompatibility`: everything, as all
    /// memory is the host's.
    fn query_buffer_compatibility(
        &self,
        memory_type: u32,
        allowed_usage: u32,
        intended_usage: u32,
        allocation_size: u64,
    ) -> u32 {
        let _ = (memory_type, allowed_usage, intended_usage, allocation_size);
        flags::COMPATIBILITIES.iter().fold(0, |bits, (_, bit)| bits | bit)
    }

    /// Allocates a buffer, whose contents are arbitrary.
    fn allocate_buffer<'py>(
        &self,
        py: Python<'py>,
        memory_type: u32,
        allowed_usage: u32,
        allocation_size: u64,
    ) -> PyResult<Bound<'py, HalBuffer>> {
        let buffer = self.0.allocator().allocate(parameters(memory_type, allowed_usage), allocation_size);
        HalBuffer::wrap(py, buffer.or_raise(py, "could not allocate buffer")?)
    }

    /// Allocates a buffer with a copy of an object's memory. With an element type it returns a view of the object's shape.
    #[pyo3(signature = (memory_type, allowed_usage, device, buffer, element_type = None))]
    fn allocate_buffer_copy<'py>(
        &self,
        py: Python<'py>,
        memory_type: u32,
        allowed_usage: u32,
        device: &Bound<'py, HalDevice>,
        buffer: &Bound<'py, PyAny>,
        element_type: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let memory = python_memory(buffer, false)?;
        let copy = copy_of(py, &device.get().device, &memory, parameters(memory_type, allowed_usage))?;
        match element_type {
            None => Ok(HalBuffer::wrap(py, copy)?.into_any()),
            Some(element_type) => {
                let element_type = ElementType::from_raw(element_type);
                Ok(HalBufferView::create(py, &copy, &memory.shape, element_type)?.into_any())
            }
        }
    }

    /// Allocates a buffer for transfers with a copy of an object's memory.
    fn allocate_host_staging_buffer_copy<'py>(
        &self,
        py: Python<'py>,
        device: &Bound<'py, HalDevice>,
        initial_contents: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, HalBuffer>> {
        let usage = incarnate_runtime::hal::BufferUsage::TRANSFER.bits();
        let memory = python_memory(initial_contents, false)?;
        let copy = copy_of(py, &device.get().device, &memory, parameters(MemoryType::DEVICE_LOCAL.bits(), usage))?;
        HalBuffer::wrap(py, copy)
    }

    /// Creates a buffer over an object's memory in place, for transfers. The buffer keeps the object.
    fn import_host_allocation<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        memory_type: u32,
        allowed_usage: u32,
    ) -> PyResult<Bound<'py, HalBuffer>> {
        let bytes = python_memory(buffer, true)?.bytes;
        let parameters = parameters(memory_type, allowed_usage);
        let imported = self.0.allocator().import_for_transfers(&bytes, parameters);
        HalBuffer::wrap(py, imported.or_raise(py, "could not import host allocation")?)
    }
}
