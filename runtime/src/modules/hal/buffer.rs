//! Imports on allocators, buffers and buffer views.

use alloc::sync::Arc;

use super::{HalState, message_text};
use crate::hal::{Allocator, Buffer, BufferParameters, BufferUsage, Device, MemoryType};
use crate::vm::{Buffer as VmBuffer, Caller, Span};
use crate::{Error, Result, StatusCode};

fn parameters(memory_type: u32, usage: u32) -> BufferParameters {
    BufferParameters {
        memory_type: MemoryType::from_bits_retain(memory_type),
        usage: BufferUsage::from_bits_retain(usage),
    }
}

/// The widest value of `hal.buffer.load` and `hal.buffer.store`, in bytes.
const SCALAR_BYTES: usize = 4;

/// Returns the number of bytes in use of a loaded or stored value.
fn scalar_length(length: u32) -> Result<usize> {
    usize::try_from(length).ok().filter(|length| *length <= SCALAR_BYTES).ok_or_else(|| {
        Error::invalid_argument(alloc::format!("scalar of {length} bytes is longer than {SCALAR_BYTES}"))
    })
}

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    /// Returns the first device: all of them share the host's memory.
    pub fn allocator_select(
        &self,
        _: &mut Caller<'_>,
        _memory_type: u32,
        _usage: u32,
        _flags: u64,
        devices: Span<(Arc<Device>, i64)>,
    ) -> Result<(Arc<Device>, i64)> {
        devices.first().cloned().ok_or_else(|| Error::invalid_argument("no device to select an allocator from"))
    }

    pub fn allocator_allocate(
        &self,
        caller: &mut Caller<'_>,
        allocator: &Allocator,
        _affinity: u64,
        memory_type: u32,
        usage: u32,
        length: u64,
    ) -> Result<Arc<Buffer>> {
        allocator.allocate_charged(parameters(memory_type, usage), length, caller.ledger())
    }

    pub fn allocator_import(
        &self,
        caller: &mut Caller<'_>,
        allocator: &Allocator,
        attempt: i32,
        _affinity: u64,
        memory_type: u32,
        usage: u32,
        source: Arc<VmBuffer>,
        offset: u64,
        length: u64,
    ) -> Result<Option<Arc<Buffer>>> {
        let parameters = parameters(memory_type, usage);
        match allocator.import_vm_buffer_charged(&source, offset, length, parameters, caller.ledger()) {
            Ok(buffer) => Ok(Some(buffer)),
            // The program copies memory that cannot be imported.
            Err(error) if attempt != 0 && error.code() != StatusCode::ResourceExhausted => {
                tracing::debug!(%error, "import of host memory was refused");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub fn buffer_assert(
        &self,
        _: &mut Caller<'_>,
        buffer: &Buffer,
        message: &VmBuffer,
        _allocator: &Allocator,
        minimum_length: u64,
        memory_type: u32,
        usage: u32,
    ) -> Result<()> {
        let parameters = parameters(memory_type, usage);
        buffer
            .check(minimum_length, parameters.memory_type, parameters.usage)
            .map_err(|error| error.context(message_text(message)))
    }

    pub fn buffer_allocation_preserve(&self, _: &mut Caller<'_>, buffer: &Buffer) -> Result<()> {
        buffer.preserve_allocation();
        Ok(())
    }

    pub fn buffer_allocation_discard(&self, _: &mut Caller<'_>, buffer: &Buffer) -> Result<i32> {
        Ok(i32::from(buffer.discard_allocation()))
    }

    pub fn buffer_allocation_is_terminal(&self, _: &mut Caller<'_>, buffer: &Buffer) -> Result<i32> {
        Ok(i32::from(buffer.is_terminal_allocation()))
    }

    pub fn buffer_load(&self, _: &mut Caller<'_>, buffer: &Buffer, offset: u64, length: u32) -> Result<u32> {
        let mut bytes = [0; SCALAR_BYTES];
        let length = scalar_length(length)?;
        buffer.read(offset, bytes.get_mut(..length).unwrap_or_default())?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub fn buffer_store(
        &self,
        _: &mut Caller<'_>,
        value: u32,
        buffer: Arc<Buffer>,
        offset: u64,
        length: u32,
    ) -> Result<()> {
        let bytes = value.to_le_bytes();
        let length = scalar_length(length)?;
        buffer.write(offset, bytes.get(..length).unwrap_or_default())
    }
}
