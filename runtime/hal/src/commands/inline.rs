//! Commands that run while they are recorded, on devices that can: nothing is kept of them.

use smallvec::SmallVec;

use super::command_buffer::{check_slot, not_for};
use super::executable::Executable;
use super::kernel::KernelNeeds;
use super::recorded::BufferRef;
use crate::Result;
use crate::memory::buffer::Buffer;
use crate::memory::parameters::BufferUsage;
use crate::vm::MaybeOwned;

/// A range of a buffer that a command uses. Only recording creates one, so that the range is within the buffer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BufferRange<'a> {
    /// The buffer.
    pub buffer: MaybeOwned<'a, Buffer>,
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

/// A dispatch that runs while it is recorded. Only recording creates one, so that it has been checked against its function.
#[derive(Debug)]
#[non_exhaustive]
pub struct InlineDispatch<'a> {
    /// The executable.
    pub executable: &'a Executable,
    /// The function's ordinal.
    pub function: usize,
    /// What the dispatch needs to know of the function.
    pub needs: KernelNeeds,
    /// The number of workgroups: x, y, z.
    pub workgroup_count: [u32; 3],
    /// Its constants.
    pub constants: &'a [u32],
    /// Its bindings.
    pub bindings: &'a [BufferRange<'a>],
}

/// How a device runs commands while they are recorded. Where it leaves one, that one and all behind it are recorded.
#[derive(Clone, Copy, Debug)]
pub struct InlineExecution {
    /// Runs a dispatch; None for one that it leaves.
    pub dispatch: fn(&InlineDispatch<'_>) -> Option<Result<()>>,
    /// Transfers of more bytes are left.
    pub longest_transfer: u64,
}

/// The bindings of a dispatch.
pub(super) type Ranges<'a> = SmallVec<[BufferRange<'a>; 8]>;

impl<'a> BufferRange<'a> {
    /// Checks a range of a command that runs while it is recorded: command buffers with slots have none.
    #[inline(always)]
    pub(super) fn of<B: Into<MaybeOwned<'a, Buffer>>>(range: BufferRef<B>, usage: BufferUsage) -> Result<Self> {
        let Some(buffer) = range.buffer else {
            check_slot(range.slot, 0)?;
            return Err(crate::Error::internal("a slot of a command buffer without slots"));
        };
        let buffer = buffer.into();
        if !buffer.usage().intersects(usage) {
            return Err(not_for(usage, buffer.usage()));
        }
        let (offset, length) = buffer.range(range.offset, range.length)?;
        Ok(BufferRange { buffer, offset, length })
    }

    /// As [`BufferRange::of`], for a range that the command writes.
    pub(super) fn of_target<B: Into<MaybeOwned<'a, Buffer>>>(range: BufferRef<B>) -> Result<Self> {
        let range = BufferRef {
            buffer: range.buffer.map(Into::into),
            slot: range.slot,
            offset: range.offset,
            length: range.length,
        };
        if let Some(buffer) = &range.buffer {
            buffer.check_writable()?;
        }
        BufferRange::of(range, BufferUsage::TRANSFER_TARGET)
    }
}
