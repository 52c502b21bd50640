//! `HalCommandBuffer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use incarnate_runtime::Error;
use incarnate_runtime::hal::{BufferRef, CommandBuffer, CommandBufferMode, CommandCategory};
use incarnate_runtime::vm::Ref;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::buffer::HalBuffer;
use super::device::HalDevice;
use super::memory::python_memory;
use super::reference::RefObject;
use super::status::{OrRaise, exception};

/// Recorded commands, which a device executes.
#[pyclass(module = "incarnate.iree.runtime", extends = RefObject, frozen)]
pub(super) struct HalCommandBuffer {
    pub(super) commands: Arc<CommandBuffer>,
    is_begun: AtomicBool,
}

impl HalCommandBuffer {
    pub(super) fn wrap(py: Python<'_>, commands: Arc<CommandBuffer>) -> PyResult<Bound<'_, HalCommandBuffer>> {
        Bound::new(py, HalCommandBuffer::initializer(commands, true))
    }

    fn initializer(commands: Arc<CommandBuffer>, is_begun: bool) -> PyClassInitializer<HalCommandBuffer> {
        let base = RefObject::new(Ref::from(Arc::clone(&commands)));
        PyClassInitializer::from(base).add_subclass(HalCommandBuffer { commands, is_begun: AtomicBool::new(is_begun) })
    }

    fn check_begun(&self, py: Python<'_>, operation: &str) -> PyResult<()> {
        if self.is_begun.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(exception(py, operation, &Error::failed_precondition("recording has not begun")))
    }

    fn finish(&self, py: Python<'_>, end: bool) -> PyResult<()> {
        if end { self.end(py) } else { Ok(()) }
    }
}

fn range(buffer: &Bound<'_, HalBuffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(Arc::clone(&buffer.get().0)), slot: 0, offset, length }
}

#[pymethods]
impl HalCommandBuffer {
    #[new]
    #[pyo3(signature = (device, binding_capacity = 0, begin = true))]
    fn new(device: &Bound<'_, HalDevice>, binding_capacity: u32, begin: bool) -> PyClassInitializer<HalCommandBuffer> {
        let categories = CommandCategory::TRANSFER | CommandCategory::DISPATCH;
        let device = &device.get().device;
        let commands = device.create_command_buffer(CommandBufferMode::ONE_SHOT, categories, binding_capacity);
        HalCommandBuffer::initializer(Arc::new(commands), begin)
    }

    /// Begins recording, which a command buffer does when it is created unless it is told not to.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_begun.swap(true, Ordering::AcqRel) {
            let error = Error::failed_precondition("recording has begun already");
            return Err(exception(py, "command buffer begin", &error));
        }
        Ok(())
    }

    /// Ends recording.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.check_begun(py, "command buffer end")?;
        self.commands.finalize().or_raise(py, "command buffer end")
    }

    /// Copies a range between buffers. Without a length, they are copied as a whole and must have the same length.
    #[pyo3(signature = (source_buffer, target_buffer, source_offset = 0, target_offset = 0, length = None, end = false))]
    #[expect(clippy::too_many_arguments, reason = "the interface is given")]
    fn copy(
        &self,
        py: Python<'_>,
        source_buffer: &Bound<'_, HalBuffer>,
        target_buffer: &Bound<'_, HalBuffer>,
        source_offset: u64,
        target_offset: u64,
        length: Option<u64>,
        end: bool,
    ) -> PyResult<()> {
        self.check_begun(py, "copy command")?;
        let whole = source_buffer.get().0.byte_length();
        if length.is_none() && whole != target_buffer.get().0.byte_length() {
            return Err(PyValueError::new_err(format!(
                "the source has {whole} bytes and the target {}: pass the length of the copy",
                target_buffer.get().0.byte_length()
            )));
        }
        let length = length.unwrap_or(whole);
        let copied = self
            .commands
            .copy(range(source_buffer, source_offset, length), range(target_buffer, target_offset, length));
        copied.or_raise(py, "copy command")?;
        self.finish(py, end)
    }

    /// Repeats a pattern of 1, 2, 4 or 8 bytes over a range; without a length over all of the buffer from the offset on.
    #[pyo3(signature = (target_buffer, pattern, target_offset = 0, length = None, end = false))]
    fn fill(
        &self,
        py: Python<'_>,
        target_buffer: &Bound<'_, HalBuffer>,
        pattern: &Bound<'_, PyAny>,
        target_offset: u64,
        length: Option<u64>,
        end: bool,
    ) -> PyResult<()> {
        self.check_begun(py, "command buffer fill")?;
        let bytes = python_memory(pattern, false)?.bytes;
        let (mut word, count) = ([0; 8], bytes.length());
        let target = word.get_mut(..usize::try_from(count).unwrap_or(usize::MAX));
        let target =
            target.ok_or_else(|| PyValueError::new_err(format!("pattern of {count} bytes, and 8 are the most")))?;
        bytes.read(0, target).or_raise(py, "command buffer fill")?;
        let length = length.unwrap_or_else(|| target_buffer.get().0.byte_length().saturating_sub(target_offset));
        let filled =
            self.commands.fill(range(target_buffer, target_offset, length), u64::from_le_bytes(word), count as usize);
        filled.or_raise(py, "command buffer fill")?;
        self.finish(py, end)
    }
}
