//! Recorded commands: flat arrays that are written once and then only read, by any number of executions at once.
//!
//! Nothing in them is bound to a device. A device that runs commands in order walks [`Commands::list`] and ignores the
//! barriers; one that runs them concurrently cuts the list at the barriers, or compares the bindings of neighbours.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;

use bitflags::bitflags;

use super::executable::Executable;
use super::kernel::KernelNeeds;
use crate::flags;
use crate::memory::buffer::{Buffer, resolve_range};
use crate::vm::MaybeOwned;
use crate::{Error, Result};

bitflags! {
    /// Stages that an execution barrier separates (`iree_hal_execution_stage_t`).
    #[derive(Clone, Copy, PartialEq, Eq, Default)]
    pub struct ExecutionStage: u32 {
        /// Commands are issued.
        const COMMAND_ISSUE = 1 << 0;
        /// Parameters of commands are read.
        const COMMAND_PROCESS = 1 << 1;
        /// Dispatches run.
        const DISPATCH = 1 << 2;
        /// Transfers run.
        const TRANSFER = 1 << 3;
        /// Commands retire.
        const COMMAND_RETIRE = 1 << 4;
        /// The host reads or writes.
        const HOST = 1 << 5;
        const _ = !0;
    }
}

flags::show_by_name!(ExecutionStage);

/// A buffer that an execution binds to a slot: all of the commands' ranges of that slot are relative to this one.
#[derive(Clone, Debug, Default)]
pub struct BufferBinding<'a> {
    /// The buffer; slots that no command uses need none.
    pub buffer: Option<MaybeOwned<'a, Buffer>>,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes, or [`WHOLE_BUFFER`](crate::WHOLE_BUFFER).
    pub length: u64,
}

impl BufferBinding<'_> {
    /// A slot without a buffer.
    pub const NONE: Self = BufferBinding { buffer: None, offset: 0, length: 0 };

    /// Returns a binding that owns its buffer.
    #[must_use]
    pub fn to_own(&self) -> BufferBinding<'static> {
        BufferBinding { buffer: self.buffer.as_ref().map(MaybeOwned::owned), offset: self.offset, length: self.length }
    }
}

/// A range of a buffer, or of whatever will be bound to a slot, as commands name it. The buffer is an `Arc`, or a
/// [`MaybeOwned`](crate::vm::MaybeOwned).
#[derive(Clone, Debug)]
pub struct BufferRef<B = Arc<Buffer>> {
    /// The buffer; `None` for what is bound to `slot`.
    pub buffer: Option<B>,
    /// Slot of the binding table.
    pub slot: u32,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes, or [`WHOLE_BUFFER`](crate::WHOLE_BUFFER).
    pub length: u64,
}

/// A buffer, of which a recorded command keeps a share.
pub(crate) trait SharedBuffer {
    /// The buffer.
    fn buffer(&self) -> &Buffer;
    /// Returns a share.
    fn into_arc(self) -> Arc<Buffer>;
}

impl SharedBuffer for Arc<Buffer> {
    #[inline(always)]
    fn buffer(&self) -> &Buffer {
        self
    }

    #[inline(always)]
    fn into_arc(self) -> Arc<Buffer> {
        self
    }
}

impl SharedBuffer for MaybeOwned<'_, Buffer> {
    #[inline(always)]
    fn buffer(&self) -> &Buffer {
        self
    }

    #[inline(always)]
    fn into_arc(self) -> Arc<Buffer> {
        MaybeOwned::into_arc(self)
    }
}

/// A range of a buffer that a command uses.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    pub(crate) source: BindingSource,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum BindingSource {
    /// An index into [`Commands::buffers`]; the range was checked when it was recorded.
    Direct(u32),
    /// A slot of the binding table.
    Slot(u32),
}

/// How many workgroups a dispatch has.
#[derive(Clone, Copy, Debug)]
pub enum WorkgroupCount {
    /// Known when recorded: x, y, z.
    Direct([u32; 3]),
    /// Three 32-bit words in a buffer, read when the command runs: an index into [`Commands::bindings`].
    Indirect(u32),
}

/// A dispatch, checked against its function.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The executable.
    pub executable: Arc<Executable>,
    /// The function's ordinal.
    pub function: usize,
    /// What it needs to know of the function.
    pub needs: KernelNeeds,
    /// The number of workgroups.
    pub workgroup_count: WorkgroupCount,
    /// The range of its constants; see [`Commands::constants`].
    pub constants: Range<u32>,
    /// The range of its bindings; see [`Commands::bindings`].
    pub bindings: Range<u32>,
}

/// A recorded command. Targets and sources are ordinals of ranges; see [`Commands::resolve`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Fills a range with a pattern.
    Fill {
        /// The range.
        target: u32,
        /// The pattern, in the low bytes.
        pattern: u64,
        /// The length of the pattern: 1, 2, 4 or 8 bytes.
        pattern_length: u8,
    },
    /// Writes bytes to a range.
    Update {
        /// The range.
        target: u32,
        /// The bytes; see [`Commands::data`].
        data: Range<usize>,
    },
    /// Copies a range.
    Copy {
        /// The range that is read.
        source: u32,
        /// The range that is written.
        target: u32,
    },
    /// Copies a range of a buffer that has no other user, whose memory the target may take over.
    ElidedCopy {
        /// The range that is read.
        source: u32,
        /// The range that is written.
        target: u32,
    },
    /// Runs workgroups of a function.
    Dispatch(Dispatch),
    /// Everything before it is done before anything after it starts, whatever the stages: local devices have one.
    Barrier,
    /// Opens a group of commands.
    BeginDebugGroup {
        /// The name; see [`Commands::label`].
        label: u32,
    },
    /// Closes the group that was opened last.
    EndDebugGroup,
}

/// What a fill, an update or a copy does, for execution and for reports.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The name in messages and profiles.
    pub name: &'static str,
    /// The range that is written.
    pub target: u32,
    /// The range that is read, if it is one of a buffer.
    pub source: Option<u32>,
    /// True if parts of it can run at the same time, unless source and target overlap.
    pub is_divisible: bool,
}

impl Command {
    /// Describes the command if it is a transfer.
    #[inline]
    #[must_use]
    pub fn transfer(&self) -> Option<Transfer> {
        let transfer = |name, target, source, is_divisible| Some(Transfer { name, target, source, is_divisible });
        match *self {
            Command::Fill { target, .. } => transfer("fill", target, None, true),
            Command::Update { target, .. } => transfer("update", target, None, true),
            Command::Copy { source, target } => transfer("copy", target, Some(source), true),
            Command::ElidedCopy { source, target } => transfer("elided copy", target, Some(source), false),
            Command::Dispatch(_) | Command::Barrier | Command::BeginDebugGroup { .. } | Command::EndDebugGroup => None,
        }
    }
}

/// The commands of a finalized command buffer, which [`CommandBuffer::commands`](crate::CommandBuffer::commands) returns.
///
/// Only recording creates commands, so each dispatch has been checked against its function.
#[derive(Debug)]
pub struct Commands {
    pub(crate) list: Vec<Command>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) constants: Vec<u32>,
    /// Contents of updates.
    pub(crate) data: Vec<u8>,
    pub(crate) labels: Vec<String>,
    /// Buffers that are named directly.
    pub(crate) buffers: Vec<Arc<Buffer>>,
    /// One more than the greatest slot that a command uses.
    pub(crate) slot_count: u32,
    /// The index of a copy that may be elided.
    pub(crate) elision_candidate: Option<u32>,
}

/// A state of [`Commands`] between two commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    bindings: usize,
    constants: usize,
    data: usize,
    buffers: usize,
    slot_count: u32,
}

/// What is kept for the next commands at most.
const SPARE_COMMANDS: usize = 256;
const SPARE_BINDINGS: usize = 1024;
const SPARE_DATA: usize = 16 << 10;

thread_local! {
    static SPARE: Cell<Option<Box<Commands>>> = const { Cell::new(None) };
}

impl Commands {
    pub(crate) fn empty() -> Commands {
        Commands {
            list: Vec::new(),
            bindings: Vec::new(),
            constants: Vec::new(),
            data: Vec::new(),
            labels: Vec::new(),
            buffers: Vec::new(),
            slot_count: 0,
            elision_candidate: None,
        }
    }

    /// Returns the commands, in the order in which they were recorded.
    #[inline]
    #[must_use]
    pub fn list(&self) -> &[Command] {
        &self.list
    }

    /// Returns the buffers that the commands name directly.
    #[must_use]
    pub fn buffers(&self) -> &[Arc<Buffer>] {
        &self.buffers
    }

    /// Returns the number of slots that a binding table must have.
    #[inline]
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slot_count as usize
    }

    /// Returns the length of a range as it was recorded, in bytes.
    #[inline]
    #[must_use]
    pub fn recorded_length(&self, binding: u32) -> Option<u64> {
        self.bindings.get(binding as usize).map(|binding| binding.length)
    }

    /// Returns the bytes of an update.
    #[inline]
    #[must_use]
    pub fn data(&self, range: &Range<usize>) -> Option<&[u8]> {
        self.data.get(range.clone())
    }

    /// Returns the name of a group of commands.
    #[must_use]
    pub fn label(&self, label: u32) -> Option<&str> {
        self.labels.get(label as usize).map(String::as_str)
    }

    /// Returns the buffer behind a range, and the range in it: offset and length in bytes, within the buffer.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the table binds no buffer to the range's slot; OUT_OF_RANGE if the range exceeds the bound one.
    #[inline(always)]
    pub fn resolve<'a>(
        &'a self,
        binding: u32,
        table: &'a [BufferBinding<'_>],
    ) -> Result<(&'a Arc<Buffer>, usize, usize)> {
        let Some(binding) = self.bindings.get(binding as usize) else { return Err(corrupt()) };
        self.resolve_binding(binding, table)
    }

    /// Resolves a range like [`Commands::resolve`].
    ///
    /// # Errors
    /// Those of [`Commands::resolve`].
    #[inline(always)]
    pub fn resolve_binding<'a>(
        &'a self,
        binding: &Binding,
        table: &'a [BufferBinding<'_>],
    ) -> Result<(&'a Arc<Buffer>, usize, usize)> {
        match binding.source {
            BindingSource::Direct(index) => match self.buffers.get(index as usize) {
                // Both were the host's sizes when they were recorded.
                Some(buffer) => Ok((buffer, binding.offset as usize, binding.length as usize)),
                None => Err(corrupt()),
            },
            BindingSource::Slot(slot) => {
                let bound = table.get(slot as usize);
                let Some((bound, buffer)) = bound.and_then(|bound| Some((bound, bound.buffer.as_ref()?))) else {
                    return Err(unbound(slot, table.len()));
                };
                let (base, available) = buffer.range(bound.offset, bound.length)?;
                let (offset, length) = resolve_range(available, binding.offset, binding.length)?;
                Ok((buffer, base + offset, length))
            }
        }
    }

    /// Returns the constants of a dispatch.
    #[inline]
    #[must_use]
    pub fn constants(&self, dispatch: &Dispatch) -> &[u32] {
        let Range { start, end } = dispatch.constants;
        self.constants.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Returns the bindings of a dispatch.
    #[inline]
    #[must_use]
    pub fn bindings(&self, dispatch: &Dispatch) -> &[Binding] {
        let Range { start, end } = dispatch.bindings;
        self.bindings.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Returns the same commands with other buffers in the place of those that they name directly.
    pub(crate) fn with_buffers(&self, buffers: Vec<Arc<Buffer>>) -> Commands {
        Commands {
            list: self.list.clone(),
            bindings: self.bindings.clone(),
            constants: self.constants.clone(),
            data: self.data.clone(),
            labels: self.labels.clone(),
            buffers,
            slot_count: self.slot_count,
            elision_candidate: None,
        }
    }

    /// How far the arrays are filled.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            bindings: self.bindings.len(),
            constants: self.constants.len(),
            data: self.data.len(),
            buffers: self.buffers.len(),
            slot_count: self.slot_count,
        }
    }

    /// Forgets what a command that failed has left in the arrays since the mark.
    pub(crate) fn return_to(&mut self, mark: Mark) {
        self.bindings.truncate(mark.bindings);
        self.constants.truncate(mark.constants);
        self.data.truncate(mark.data);
        self.buffers.truncate(mark.buffers);
        self.slot_count = mark.slot_count;
    }

    /// Empty ones, in the memory of those that the thread has given up last: programs record some in every iteration of a loop.
    pub(crate) fn spare() -> Box<Commands> {
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_else(|| Box::new(Commands::empty()))
    }

    /// The bytes of the arrays.
    pub(crate) fn extent(&self) -> u64 {
        fn of<T>(array: &Vec<T>) -> u64 {
            (array.capacity() * size_of::<T>()) as u64
        }
        let objects = of(&self.labels) + of(&self.buffers);
        of(&self.list) + of(&self.bindings) + of(&self.constants) + of(&self.data) + objects
    }

    /// Keeps the memory for those that the thread will record next, unless it is much.
    pub(crate) fn give_up(mut self: Box<Commands>) {
        self.clear();
        let is_little = self.list.capacity() <= SPARE_COMMANDS && self.data.capacity() <= SPARE_DATA;
        let bindings = self.bindings.capacity().max(self.constants.capacity()).max(self.buffers.capacity());
        if is_little && bindings.max(self.labels.capacity()) <= SPARE_BINDINGS {
            // Where the thread is ending there is nothing to keep it for.
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bindings.clear();
        self.constants.clear();
        self.data.clear();
        self.labels.clear();
        self.buffers.clear();
        self.slot_count = 0;
        self.elision_candidate = None;
    }
}

#[cold]
fn corrupt() -> Error {
    Error::internal("recorded command refers to a binding or a buffer that was not recorded")
}

#[cold]
fn unbound(slot: u32, count: usize) -> Error {
    Error::invalid_argument(alloc::format!("no buffer is bound to slot {slot} of a binding table of {count} slots"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_commands_are_empty_and_few() {
        let mut commands = Commands::spare();
        commands.list.extend((0..20).map(|_| Command::Barrier));
        commands.bindings.push(Binding { source: BindingSource::Slot(3), offset: 1, length: 2 });
        commands.slot_count = 4;
        let (place, capacity) = (&raw const *commands, commands.list.capacity());
        commands.give_up();
        let again = Commands::spare();
        assert_eq!((&raw const *again, again.list.capacity()), (place, capacity));
        assert!(again.list.is_empty() && again.bindings.is_empty() && again.slot_count == 0);
        // The spare arrays were taken: the thread has none left.
        assert_eq!(Commands::spare().list.capacity(), 0);
        let mut large = again;
        large.data.reserve(SPARE_DATA + 1);
        large.give_up();
        assert_eq!(Commands::spare().data.capacity(), 0);
    }
}
