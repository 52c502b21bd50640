//! Checks of the ranges of buffers that commands name.

use alloc::format;

use super::recorded::{BufferRef, SharedBuffer};
use crate::memory::buffer::Buffer;
use crate::memory::parameters::BufferUsage;
use crate::{Error, Result};

/// A range of a buffer that a command uses. Only recording creates one, so that the range is within the buffer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BufferRange<'a> {
    /// The buffer.
    pub buffer: &'a Buffer,
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

impl<'a> BufferRange<'a> {
    /// Checks a range of a command that runs while it is recorded: command buffers with slots have none.
    #[inline(always)]
    pub(super) fn of(range: &'a BufferRef<impl SharedBuffer>, usage: BufferUsage) -> Result<Self> {
        let Some(buffer) = range.buffer.as_ref().map(SharedBuffer::buffer) else {
            check_slot(range.slot, 0)?;
            return Err(Error::internal("a slot of a command buffer without slots"));
        };
        if !buffer.usage().intersects(usage) {
            return Err(not_for(usage, buffer.usage()));
        }
        let (offset, length) = buffer.range(range.offset, range.length)?;
        Ok(BufferRange { buffer, offset, length })
    }

    /// As [`BufferRange::of`], for a range that the command writes.
    pub(super) fn of_target(range: &'a BufferRef) -> Result<Self> {
        if let Some(buffer) = &range.buffer {
            buffer.check_writable()?;
        }
        BufferRange::of(range, BufferUsage::TRANSFER_TARGET)
    }
}

#[cold]
pub(super) fn not_for(needed: BufferUsage, usage: BufferUsage) -> Error {
    Error::permission_denied(format!("command needs a buffer for {} and has one for {}", needed.names(), usage.names()))
}

pub(super) fn check_slot(slot: u32, capacity: u32) -> Result<()> {
    if slot < capacity {
        return Ok(());
    }
    Err(Error::out_of_range(format!("slot {slot} of a command buffer with a binding capacity of {capacity}")))
}
