//! Copies that are not made: out of a buffer that nobody needs any more, to one that holds nothing yet.
//!
//! A program that computes a result step by step allocates a buffer for each step, writes what is new to it, and copies all
//! the rest from the last step's buffer, which it then gives up: so does every scan over a sequence. Instead of the copy, the
//! new buffer can take over the memory of the old one, to which what was written to the new one before is copied, as that is
//! less.
//!
//! Whether the old buffer is needed by anybody else is known when recording ends: if all shares of it are the commands' own
//! and no later command names it, nobody gets one any more. What the commands before the copy write to the new buffer goes to
//! a fresh one instead. An execution claims the new buffer's memory ([`Late`]), so that nobody else who touches it finds it
//! at a place where it does not stay, and settles the claim when it comes to the copy. Where it gets no claim, as the new
//! buffer has been touched, or commands run in another order, the fresh buffer stands for the new one's memory from the
//! beginning and the copy is made.

use alloc::sync::Arc;
use core::ops::Range;

use super::buffer::Buffer;
use super::command_buffer::BufferRef;
use super::commands::{Command, Commands};
use super::late::Late;
use super::storage::Storage;
use crate::atomic::{AtomicU8, Ordering, fence};
use crate::{Error, Result};

/// What a move takes beside its source and its target.
#[derive(Debug)]
pub(crate) struct Moving {
    target: Arc<Buffer>,
    /// What commands before the move write to in place of the target.
    fresh: Arc<Buffer>,
    state: AtomicU8,
}

/// Nobody has executed the commands.
const RECORDED: u8 = 0;
/// The target's memory is claimed, until the move or the end of the execution.
const CLAIMED: u8 = 1;
/// The move is a copy, or has been done.
const COPIED: u8 = 2;

/// True where the copy of a range into another may be a move, as far as can be told from the two: most of a buffer to the same
/// place in one that is as long and holds nothing.
pub(super) fn may_move(source: &BufferRef, target: &BufferRef) -> bool {
    let (Some(from), Some(to)) = (&source.buffer, &target.buffer) else { return false };
    to.late().is_some_and(|late| late.get().is_none())
        && from.is_whole_allocation()
        && from.byte_length() == to.byte_length()
        && !Arc::ptr_eq(from, to)
        && source.offset == target.offset
        && from.range(source.offset, source.length).is_ok_and(|(_, length)| length as u64 >= from.byte_length() / 2)
}

/// Makes the copy that may be one a move, if nobody else has a share of its source, later commands do not name that, and no
/// command names a part of the target by itself.
pub(super) fn plan(commands: &mut Commands) {
    let Some(index) = commands.move_candidate else { return };
    let Some(&Command::Copy { source, target }) = commands.list.get(index as usize) else { return };
    let buffer_of = |binding| commands.resolve(binding, &[]).ok().map(|(buffer, ..)| Arc::clone(buffer));
    let (Some(from), Some(to)) = (buffer_of(source), buffer_of(target)) else { return };
    let Some(late) = to.late() else { return };
    // Each command appends its ranges, and where none is of a slot, a buffer for each.
    let is_used_later = commands.buffers.iter().skip(target as usize + 1).any(|buffer| buffer.same_allocation(&from));
    let is_divided = commands.buffers.iter().any(|buffer| buffer.same_allocation(&to) && !Arc::ptr_eq(buffer, &to));
    let own_shares = commands.buffers.iter().filter(|buffer| Arc::ptr_eq(buffer, &from)).count();
    // One share is this function's.
    if commands.slot_count > 0 || is_used_later || is_divided || Arc::strong_count(&from) != own_shares + 1 {
        return;
    }
    // Who gave up the other shares is done with the memory.
    fence(Ordering::Acquire);
    let storage = Storage::late(Late::new(late.length(), Arc::clone(late.pool())));
    let fresh = Arc::new(Buffer::new(storage, to.memory_type(), to.usage()));
    for buffer in commands.buffers.iter_mut().take(source as usize).filter(|buffer| Arc::ptr_eq(buffer, &to)) {
        *buffer = Arc::clone(&fresh);
    }
    if let Some(command) = commands.list.get_mut(index as usize) {
        *command = Command::Move { source, target };
    }
    commands.moving = Some(Moving { target: to, fresh, state: AtomicU8::new(RECORDED) });
}

/// Claims what commands move, for a thread that is about to execute them in order, until it drops what it is given.
///
/// # Errors
/// RESOURCE_EXHAUSTED where there is no memory for a target that cannot be claimed.
#[inline]
pub fn begin(commands: &Commands) -> Result<Begun<'_>> {
    match &commands.moving {
        None => Ok(Begun(None)),
        Some(moving) => moving.begin(true),
    }
}

/// Makes the move of commands a copy, for an execution by several threads.
///
/// # Errors
/// RESOURCE_EXHAUSTED where there is no memory for the target.
pub fn copy_instead(commands: &Commands) -> Result<()> {
    commands.moving.as_ref().map_or(Ok(()), |moving| moving.begin(false).map(|_| ()))
}

/// Runs the [`Command::Move`] of commands.
pub fn run(commands: &Commands, source: u32, target: u32) -> Result<()> {
    let (from, offset, length) = commands.resolve(source, &[])?;
    let (to, target_offset, _) = commands.resolve(target, &[])?;
    let copy = || to.copy_from(target_offset as u64, from, offset as u64, length as u64);
    match &commands.moving {
        Some(moving) if moving.leave(CLAIMED) && moving.settle(from, offset..offset + length)? => Ok(()),
        _ => copy(),
    }
}

/// An execution that may have claimed the target of a move.
#[derive(Debug)]
#[must_use]
pub struct Begun<'a>(Option<&'a Moving>);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // An execution that fails does not come to its move.
        if let Some(moving) = self.0
            && moving.leave(CLAIMED)
            && let Some(late) = moving.target.late()
        {
            late.give_up();
        }
    }
}

impl Moving {
    /// Ends a state; false where it is another one.
    fn leave(&self, state: u8) -> bool {
        self.state.compare_exchange(state, COPIED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline(never)]
    fn begin(&self, in_order: bool) -> Result<Begun<'_>> {
        // Commands that are executed once more, which they must not be, find the memory that the first execution has left.
        if !self.leave(RECORDED) {
            return Ok(Begun(None));
        }
        let (Some(late), Some(fresh)) = (self.target.late(), self.fresh.late()) else {
            return Err(Error::internal("target of a move is not late memory"));
        };
        if in_order && late.claim() {
            self.state.store(CLAIMED, Ordering::Release);
            return Ok(Begun(Some(self)));
        }
        let memory = late.memory()?.share_block();
        fresh.settle(memory.ok_or_else(|| Error::internal("late memory is no block of the pool"))?);
        Ok(Begun(None))
    }

    /// Settles what the target's memory is; true where it is the source's, of which a range is wanted.
    fn settle(&self, source: &Buffer, range: Range<usize>) -> Result<bool> {
        let Some(late) = self.target.late() else { return Err(Error::internal("target of a move is not late memory")) };
        match self.memory(source, range) {
            Ok(Some((memory, is_source))) => Ok(late.settle(memory) && is_source),
            // A copy obtains some.
            unsettled => {
                late.give_up();
                unsettled.map(|_| false)
            }
        }
    }

    /// The source's memory, if nobody else uses that, with what commands have written beside the range, and true; else what
    /// stood for the target's so far.
    fn memory(&self, source: &Buffer, range: Range<usize>) -> Result<Option<(Storage, bool)>> {
        let fresh = self.fresh.late().and_then(Late::get);
        let Some(memory) = source.storage()?.share_sole_block() else {
            return Ok(fresh.and_then(Storage::share_block).map(|memory| (memory, false)));
        };
        if let Some(fresh) = fresh {
            memory.copy(0, fresh, 0, range.start)?;
            memory.copy(range.end, fresh, range.end, memory.length() - range.end)?;
        }
        Ok(Some((memory, true)))
    }
}
