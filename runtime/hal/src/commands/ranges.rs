//! Checks of the ranges of buffers that commands name.

use alloc::format;

use super::recorded::{BufferRef, SharedBuffer};
use crate::memory::buffer::Buffer;
use crate::memory::parameters::BufferUsage;
use crate::{Error, Result};

/// A range of a buffer that a command uses. All functions that create one check it, so that the range is within the buffer.
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
    /// Returns a range for a use, if the buffer has it.
    #[inline(always)]
    fn for_use(buffer: &'a Buffer, usage: BufferUsage, (offset, length): (u64, u64)) -> Option<Self> {
        let (offset, length) = buffer.range(offset, length).ok()?;
        buffer.usage().intersects(usage).then_some(BufferRange { buffer, offset, length })
    }

    /// As [`BufferRange::for_use`], with the reason where the buffer has no such range.
    #[inline(always)]
    pub(super) fn checked(buffer: &'a Buffer, usage: BufferUsage, range: (u64, u64)) -> Result<Self> {
        match BufferRange::for_use(buffer, usage, range) {
            Some(range) => Ok(range),
            None => Err(refused(buffer, usage, range)),
        }
    }

    /// Returns a range that a kernel may have, if it is one.
    #[inline(always)]
    #[must_use]
    pub fn of_dispatch(buffer: &'a Buffer, offset: u64, length: u64) -> Option<Self> {
        BufferRange::for_use(buffer, BufferUsage::DISPATCH, (offset, length))
    }

    /// Returns a range that may be copied, if it is one.
    #[inline(always)]
    #[must_use]
    pub fn of_source(buffer: &'a Buffer, offset: u64, length: u64) -> Option<Self> {
        BufferRange::for_use(buffer, BufferUsage::TRANSFER_SOURCE, (offset, length))
    }

    /// Returns a range that may be written, of memory that does not move, if it is one.
    #[inline(always)]
    #[must_use]
    pub fn of_fixed_target(buffer: &'a Buffer, offset: u64, length: u64) -> Option<Self> {
        if buffer.is_movable() || buffer.check_writable().is_err() {
            return None;
        }
        BufferRange::for_use(buffer, BufferUsage::TRANSFER_TARGET, (offset, length))
    }

    /// Checks a range of a command that runs while it is recorded: command buffers with slots have none.
    #[inline(always)]
    pub(super) fn of(range: &'a BufferRef<impl SharedBuffer>, usage: BufferUsage) -> Result<Self> {
        let Some(buffer) = range.buffer.as_ref().map(SharedBuffer::buffer) else {
            check_slot(range.slot, 0)?;
            return Err(Error::internal("a slot of a command buffer without slots"));
        };
        BufferRange::checked(buffer, usage, (range.offset, range.length))
    }

    /// As [`BufferRange::of`], for a range that the command writes.
    pub(super) fn of_target(range: &'a BufferRef) -> Result<Self> {
        if let Some(buffer) = &range.buffer {
            buffer.check_writable()?;
        }
        BufferRange::of(range, BufferUsage::TRANSFER_TARGET)
    }
}

/// Why a buffer has no such range for a use.
#[cold]
fn refused(buffer: &Buffer, usage: BufferUsage, (offset, length): (u64, u64)) -> Error {
    let has = buffer.usage();
    if !has.intersects(usage) {
        let (needed, has) = (usage.names(), has.names());
        return Error::permission_denied(format!("command needs a buffer for {needed} and has one for {has}"));
    }
    let error = buffer.range(offset, length).err();
    error.unwrap_or_else(|| Error::internal("a range that was refused is right"))
}

pub(super) fn check_slot(slot: u32, capacity: u32) -> Result<()> {
    if slot < capacity {
        return Ok(());
    }
    Err(Error::out_of_range(format!("slot {slot} of a command buffer with a binding capacity of {capacity}")))
}
