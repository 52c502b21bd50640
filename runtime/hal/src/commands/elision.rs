//! Copy elision: the target of a copy takes over the memory of a source that no command needs any more.
//!
//! A program that computes a result step by step allocates a buffer for each step, writes what is new to it, copies the rest
//! from the buffer of the step before, and drops that: so does every scan over a sequence. The target takes over the block
//! of the source, and only the bytes beside the copied range are copied.
//!
//! When recording ends and all shares of the source are the commands' own, no other holder can appear. If no later command
//! names the source either, nothing reads it after the copy. The copy stands behind a barrier, so that the commands before
//! it are done with the source. The target may be in use: where it is pinned, or fixed, the bytes are copied.

use alloc::sync::Arc;
use core::sync::atomic::{Ordering, fence};

use super::ranges::BufferRange;
use super::recorded::{BufferRef, Command, Commands};
use crate::Result;
use crate::memory::buffer::Buffer;

/// Returns true if a copy that is recorded next may be elided.
pub(super) fn is_candidate(commands: &Commands, source: &BufferRef, target: &BufferRef) -> bool {
    let (Some(from), Some(to)) = (&source.buffer, &target.buffer) else { return false };
    matches!(commands.list.last(), None | Some(Command::Barrier))
        && fits((from, source.offset, source.length), (to, target.offset))
}

/// Returns true if a copy between two ranges may be elided: if it is at least half of an allocation and has the same offset in
/// another one of the same length that can take over memory.
fn fits((from, offset, length): (&Buffer, u64, u64), (to, target_offset): (&Buffer, u64)) -> bool {
    let is_whole = |buffer: &Buffer| buffer.byte_length() == buffer.allocation_length();
    to.is_movable()
        && (is_whole(from) && is_whole(to))
        && from.byte_length() == to.byte_length()
        && !from.same_allocation(to)
        && offset == target_offset
        && from.range(offset, length).is_ok_and(|(_, length)| length as u64 >= from.byte_length() / 2)
}

/// Copies at once. Where `share` is the only one of the source, the target takes over its memory.
///
/// # Errors
/// Those of [`Buffer::copy_from`].
pub(super) fn copy_now(share: &Arc<Buffer>, source: BufferRange<'_>, target: BufferRange<'_>) -> Result<()> {
    let (from, to) = (source.buffer, target.buffer);
    let (offset, length) = (source.offset as u64, source.length as u64);
    if Arc::strong_count(share) == 1 && fits((from, offset, length), (to, target.offset as u64)) {
        // The holders of the other shares were done with the memory when they gave them up.
        fence(Ordering::Acquire);
        if to.take_over(from, source.offset..source.offset + source.length)? {
            return Ok(());
        }
    }
    to.copy_from(target.offset as u64, from, offset, length)
}

/// Marks the candidate of finished commands if its source is not needed any more.
pub(super) fn plan(commands: &mut Commands) {
    let Some(index) = commands.elision_candidate else { return };
    let Some(&Command::Copy { source, target }) = commands.list.get(index as usize) else { return };
    // Without slots, each binding has a buffer of the same index.
    let Some(from) = commands.buffers.get(source as usize).filter(|_| commands.slot_count == 0) else { return };
    let is_used_later = commands.buffers.iter().skip(target as usize + 1).any(|buffer| buffer.same_allocation(from));
    let own_shares = commands.buffers.iter().filter(|buffer| Arc::ptr_eq(buffer, from)).count();
    if is_used_later || Arc::strong_count(from) != own_shares {
        return;
    }
    // The holders of the other shares were done with the memory when they gave them up.
    fence(Ordering::Acquire);
    if let Some(command) = commands.list.get_mut(index as usize) {
        *command = Command::ElidedCopy { source, target };
    }
}

impl Commands {
    /// Runs a [`Command::ElidedCopy`]: the target takes over the memory of the source, or gets a copy.
    ///
    /// # Errors
    /// Those of [`Buffer::copy_from`].
    pub fn run_elided_copy(&self, source: u32, target: u32) -> Result<()> {
        let (from, offset, length) = self.resolve(source, &[])?;
        let (to, target_offset, _) = self.resolve(target, &[])?;
        if to.take_over(from, offset..offset + length)? {
            return Ok(());
        }
        to.copy_from(target_offset as u64, from, offset as u64, length as u64)
    }
}
