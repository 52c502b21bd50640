//! The methods of `HalDevice`: operations of its queue, profiles, DLPack.

use std::sync::Arc;

use incarnate_runtime::Error;
use incarnate_runtime::hal::{BufferParameters, BufferUsage, Fences, MemoryType, Semaphore, SignalFence};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::allocator::HalAllocator;
use super::buffer::{HalBuffer, HalBufferView};
use super::command_buffer::HalCommandBuffer;
use super::device::HalDevice;
use super::dlpack;
use super::status::{OrRaise, exception};
use super::timeline::{HalSemaphore, SemaphoreList};

/// The fences of a queue operation.
fn fences<'a>(wait: &'a SemaphoreList, signal: &SemaphoreList) -> Fences<'a> {
    let signal = signal.0.clone().map_or(SignalFence::None, SignalFence::Given);
    Fences { wait: wait.0.as_deref(), signal, ..Fences::default() }
}

#[pymethods]
impl HalDevice {
    /// The allocator of the device's memory.
    #[getter]
    fn allocator(&self) -> HalAllocator {
        HalAllocator(Arc::clone(&self.device))
    }

    /// Does nothing without a mode: profiles of modes need a sink, which `incarnate bench --profile` has.
    #[pyo3(signature = (mode = None))]
    fn begin_profiling(&self, mode: Option<&str>) -> PyResult<()> {
        match mode {
            None => Ok(()),
            Some(mode) => Err(PyValueError::new_err(format!(
                "profiling of mode '{mode}' needs a profile sink, which Python has none of; use incarnate bench --profile"
            ))),
        }
    }

    /// Does nothing.
    fn flush_profiling(&self) {}

    /// Does nothing.
    fn end_profiling(&self) {}

    /// Refused: devices of the host have no capture tools.
    #[pyo3(signature = (provider, file_path = None, label = None))]
    fn begin_external_capture(
        &self,
        py: Python<'_>,
        provider: &str,
        file_path: Option<&str>,
        label: Option<&str>,
    ) -> PyResult<()> {
        let _ = (file_path, label);
        let error = Error::unimplemented(format!("device {} is not captured by '{provider}'", self.device.id()));
        Err(exception(py, "starting external device capture", &error))
    }

    /// Refused: no capture can begin.
    fn end_external_capture(&self, py: Python<'_>) -> PyResult<()> {
        let error = Error::failed_precondition("no capture has begun");
        Err(exception(py, "ending external device capture", &error))
    }

    /// Creates a semaphore with a payload.
    fn create_semaphore(&self, initial_value: u64) -> HalSemaphore {
        HalSemaphore(Arc::new(Semaphore::new(initial_value)))
    }

    /// Allocates a buffer, which is ready when the semaphores to signal are signalled.
    fn queue_alloca<'py>(
        &self,
        py: Python<'py>,
        allocation_size: u64,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<Bound<'py, HalBuffer>> {
        self.check()?;
        let usage = BufferUsage::TRANSFER | BufferUsage::DISPATCH_STORAGE;
        let parameters = BufferParameters { memory_type: MemoryType::DEVICE_LOCAL, usage };
        let fences = fences(&wait_semaphores, &signal_semaphores);
        let buffer = py.detach(|| self.device.queue_alloca(fences, parameters, allocation_size));
        HalBuffer::wrap(py, buffer.or_raise(py, "allocating memory on queue")?)
    }

    /// Gives a share of a buffer up when the semaphores to wait for are signalled. The memory lives as long as other shares, such as
    /// that of the object in Python.
    fn queue_dealloca(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, HalBuffer>,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<()> {
        self.check()?;
        let (buffer, fences) = (Arc::clone(&buffer.get().0), fences(&wait_semaphores, &signal_semaphores));
        py.detach(|| self.device.queue_dealloca(fences, buffer)).or_raise(py, "deallocating memory on queue")
    }

    /// Executes a command buffer, or nothing if it is None, when the semaphores to wait for are signalled.
    fn queue_execute(
        &self,
        py: Python<'_>,
        command_buffers: Option<&Bound<'_, HalCommandBuffer>>,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<()> {
        self.check()?;
        let fences = fences(&wait_semaphores, &signal_semaphores);
        let commands = command_buffers.map(|commands| Arc::clone(&commands.get().commands));
        let submitted = py.detach(|| match &commands {
            Some(commands) => self.device.queue_execute(fences, commands, &[]),
            None => self.device.queue_barrier(fences),
        });
        submitted.or_raise(py, "executing command buffers")
    }

    /// Copies all of a buffer to the beginning of another one when the semaphores to wait for are signalled.
    fn queue_copy(
        &self,
        py: Python<'_>,
        source_buffer: &Bound<'_, HalBuffer>,
        target_buffer: &Bound<'_, HalBuffer>,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<()> {
        self.check()?;
        let (source, target) = (Arc::clone(&source_buffer.get().0), Arc::clone(&target_buffer.get().0));
        let (length, available) = (source.byte_length(), target.byte_length());
        if length > available {
            return Err(PyValueError::new_err(format!(
                "the source's length must be less than or equal to the target's, and they are {length} and {available} bytes"
            )));
        }
        let fences = fences(&wait_semaphores, &signal_semaphores);
        let copied = py.detach(|| self.device.queue_copy(fences, (source, 0), (target, 0), length));
        copied.or_raise(py, "Copying buffer on queue")
    }

    /// Creates a DLPack capsule of a buffer view, which keeps its memory, for a DLPack device that the caller chooses.
    fn create_dlpack_capsule<'py>(
        &self,
        py: Python<'py>,
        buffer_view: &Bound<'py, HalBufferView>,
        device_type_code: i32,
        device_id: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        dlpack::export(py, &buffer_view.get().0, device_type_code, device_id)
    }

    #[expect(clippy::wrong_self_convention, reason = "the interface is given")]
    /// Creates a buffer view of a DLPack capsule: in place if the memory is aligned to 64 bytes, and else of a copy.
    fn from_dlpack_capsule<'py>(&self, capsule: &Bound<'py, PyAny>) -> PyResult<Bound<'py, HalBufferView>> {
        dlpack::import(&self.device, capsule)
    }

    fn __repr__(&self) -> String {
        self.device.id().to_owned()
    }
}
