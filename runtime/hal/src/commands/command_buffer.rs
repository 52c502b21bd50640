//! Command buffers: recording and what is checked meanwhile.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::ops::Deref;
use std::sync::OnceLock;

use bitflags::bitflags;
use smallvec::SmallVec;

use super::backend_data::BackendData;
use super::elision;
use super::executable::Executable;
use super::growth;
use super::inline::{InlineExecution, run_inline, run_ranges};
use super::kernel::MAXIMUM_BINDINGS;
use super::ranges::{BufferRange, check_slot};
use super::recorded::{BufferRef, Command, Commands, Dispatch, ExecutionStage, SharedBuffer, WorkgroupCount};
use super::recorder::{Recorder, index};
use crate::flags;
use crate::memory::buffer::{Buffer, check_pattern};
use crate::memory::parameters::{BufferUsage, WHOLE_BUFFER};
use crate::vm::{Charge, Ledger, MaybeOwned, TryLock};
use crate::{Error, Result, ref_object};

bitflags! {
    /// How a command buffer is used (`iree_hal_command_buffer_mode_t`). Bits without a name are kept and mean nothing here.
    #[derive(Clone, Copy, PartialEq, Eq, Default)]
    pub struct CommandBufferMode: u32 {
        /// Submitted at most once.
        const ONE_SHOT = 1 << 0;
        /// Commands may run while they are recorded, because nothing has to be waited for.
        const ALLOW_INLINE_EXECUTION = 1 << 4;
        /// The program vouches for its commands. They are checked all the same.
        const UNVALIDATED = 1 << 5;
        /// The program keeps resources alive itself. They are kept all the same.
        const UNRETAINED = 1 << 6;
        const _ = !0;
    }
}

bitflags! {
    /// Kinds of commands that a command buffer takes (`iree_hal_command_category_t`).
    #[derive(Clone, Copy, PartialEq, Eq, Default)]
    pub struct CommandCategory: u32 {
        /// Fills, updates and copies.
        const TRANSFER = 1 << 0;
        /// Dispatches.
        const DISPATCH = 1 << 1;
        const _ = !0;
    }
}

bitflags! {
    /// How a dispatch is parametrized (`iree_hal_dispatch_flags_t`).
    #[derive(Clone, Copy, PartialEq, Eq, Default)]
    pub struct DispatchFlags: u64 {
        /// Indirect workgroup counts may change until the dispatch runs.
        const DYNAMIC_INDIRECT_PARAMETERS = 1 << 0;
        /// Indirect workgroup counts are in place when the command buffer is submitted.
        const STATIC_INDIRECT_PARAMETERS = 1 << 1;
        /// The constants are raw kernel arguments.
        const CUSTOM_DIRECT_ARGUMENTS = 1 << 2;
        /// The only binding holds raw kernel arguments, read when the dispatch runs.
        const DYNAMIC_INDIRECT_ARGUMENTS = 1 << 3;
        /// The only binding holds raw kernel arguments, in place when the command buffer is submitted.
        const STATIC_INDIRECT_ARGUMENTS = 1 << 4;
        const _ = !0;
    }
}

flags::show_by_name!(CommandBufferMode, CommandCategory, DispatchFlags);

impl DispatchFlags {
    const CUSTOM_ARGUMENTS: DispatchFlags = DispatchFlags::CUSTOM_DIRECT_ARGUMENTS
        .union(DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS)
        .union(DispatchFlags::STATIC_INDIRECT_ARGUMENTS);
}

/// Where a dispatch has its workgroup counts.
#[derive(Clone, Debug)]
pub enum Workgroups {
    /// Known: x, y, z. A zero makes the dispatch do nothing.
    Count([u32; 3]),
    /// In a buffer: three 32-bit words, read when the dispatch runs.
    Indirect(BufferRef),
}

/// A command buffer (`!hal.command_buffer`): recorded by one thread, finalized, and then executed any number of times, by
/// several threads at once.
///
/// Commands are checked when they are recorded: against the function they name, and against the buffers they name.
/// What is bound to slots is checked when they run.
pub struct CommandBuffer {
    modes: CommandBufferMode,
    categories: CommandCategory,
    binding_capacity: u32,
    /// Set where commands run while they are recorded: until one is recorded instead, because the host cannot access its memory
    /// or because the device leaves it to the queue.
    inline: Option<InlineExecution>,
    /// One thread records.
    recording: TryLock<Recording>,
    recorded: OnceLock<Box<Commands>>,
    backend_data: BackendData,
}

ref_object!(CommandBuffer, "hal.command_buffer");

struct Recording {
    /// None when they are finalized.
    commands: Option<Box<Commands>>,
    debug_depth: u32,
    /// What the command buffer holds of its program's ledger, also when it is finalized.
    charge: Charge,
}

impl CommandBuffer {
    /// A command buffer that is ready to record commands of the given categories, which may use slots below
    /// `binding_capacity`. They run while they are recorded if the device has an `inline` execution and the modes allow it.
    /// `charge` grows with what is recorded; see [`CommandBuffer::charge`].
    #[must_use]
    pub fn new(
        modes: CommandBufferMode,
        categories: CommandCategory,
        binding_capacity: u32,
        inline: Option<InlineExecution>,
        mut charge: Charge,
    ) -> CommandBuffer {
        let may_inline = modes.contains(CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION)
            && binding_capacity == 0;
        let spare = Commands::spare();
        // No ledger counts spare arrays until they are taken.
        let commands = if charge.grow(spare.extent()).is_ok() { spare } else { Box::new(Commands::empty()) };
        CommandBuffer {
            modes,
            categories,
            binding_capacity,
            inline: inline.filter(|_| may_inline),
            recording: TryLock::new(Recording { commands: Some(commands), debug_depth: 0, charge }),
            recorded: OnceLock::new(),
            backend_data: BackendData::default(),
        }
    }

    /// Contains finalized commands.
    pub(crate) fn of_commands(modes: CommandBufferMode, commands: Commands) -> CommandBuffer {
        let slots = commands.slot_count;
        let command_buffer = CommandBuffer::new(modes, CommandCategory::all(), slots, None, Charge::none());
        command_buffer.locked(|recording| recording.commands = None);
        // It is new, so no other commands are set.
        let _ = command_buffer.recorded.set(Box::new(commands));
        command_buffer
    }

    /// Charges a command buffer without commands.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the ledger is used up.
    #[inline]
    pub fn charge(ledger: &Ledger) -> Result<Charge> {
        ledger.charge((size_of::<CommandBuffer>() + size_of::<Commands>()) as u64)
    }

    /// How it is used.
    #[inline]
    #[must_use]
    pub fn modes(&self) -> CommandBufferMode {
        self.modes
    }

    /// Number of slots that its commands may use.
    #[inline]
    #[must_use]
    pub fn binding_capacity(&self) -> u32 {
        self.binding_capacity
    }

    /// Returns the commands.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the command buffer is not finalized.
    #[inline]
    pub fn commands(&self) -> Result<&Commands> {
        match self.recorded.get() {
            Some(commands) => Ok(commands),
            None => Err(not_finalized()),
        }
    }

    /// What the backend of a device keeps with the command buffer, such as the commands in the device's own form, made by `init` at
    /// first; `None` if another backend keeps something of another type.
    #[inline]
    pub fn backend_data<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Option<&T> {
        self.backend_data.get_or_init(init)
    }

    fn record(
        &self,
        category: CommandCategory,
        command: impl FnOnce(&mut Recorder<'_>) -> Result<Command>,
    ) -> Result<()> {
        self.check_category(category)?;
        self.recording(|commands, _, charge| {
            growth::reserve(&mut commands.list, charge, 1)?;
            let mark = commands.mark();
            match command(&mut Recorder { commands, charge, binding_capacity: self.binding_capacity }) {
                Ok(command) => commands.list.push(command),
                Err(error) => {
                    commands.return_to(mark);
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    #[inline(always)]
    fn check_category(&self, category: CommandCategory) -> Result<()> {
        if self.categories.contains(category) {
            return Ok(());
        }
        Err(Error::failed_precondition(format!(
            "command of category {category:?} in a command buffer of {:?}",
            self.categories
        )))
    }

    /// Whether the next command is kept: where one before it was, or none runs at once.
    #[inline(always)]
    fn keeps(&self, commands: &Commands) -> bool {
        self.inline.is_none() || !commands.list.is_empty()
    }

    /// Returns how a command runs at once, if it does.
    #[inline(always)]
    fn inline(&self, category: CommandCategory) -> Result<Option<InlineExecution>> {
        let Some(inline) = self.inline else { return Ok(None) };
        self.check_category(category)?;
        let mut is_kept = false;
        self.recording(|commands, _, _| {
            is_kept = self.keeps(commands);
            Ok(())
        })?;
        Ok(Some(inline).filter(|_| !is_kept))
    }

    /// Whether a transfer of these ranges runs at once.
    fn transfers_inline(&self, ranges: &[&BufferRef]) -> Result<bool> {
        let Some(inline) = self.inline(CommandCategory::TRANSFER)? else { return Ok(false) };
        let is_left = |range: &&BufferRef| {
            range.buffer.as_ref().is_some_and(|buffer| {
                buffer.is_remote() || range.length.min(buffer.byte_length()) > inline.longest_transfer
            })
        };
        Ok(!ranges.iter().any(is_left))
    }

    /// Runs the closure with the commands so far, the number of debug groups that are open, and the charge.
    #[inline(always)]
    fn recording(&self, body: impl FnOnce(&mut Commands, &mut u32, &mut Charge) -> Result<()>) -> Result<()> {
        self.locked(|recording| match &mut recording.commands {
            Some(commands) => body(commands, &mut recording.debug_depth, &mut recording.charge),
            None => Err(finalized()),
        })
    }

    /// Runs the closure with what is recorded; waits where another thread records.
    #[inline(always)]
    fn locked<R>(&self, body: impl FnOnce(&mut Recording) -> R) -> R {
        self.recording.with(body).unwrap_or_else(|body| self.recording.wait_with(body))
    }

    /// Ends recording.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where it has ended before, or where a debug group is open.
    pub fn finalize(&self) -> Result<()> {
        let mut commands = self.locked(|recording| {
            if recording.debug_depth != 0 {
                return Err(Error::failed_precondition(format!("{} debug groups are open", recording.debug_depth)));
            }
            recording.commands.take().ok_or_else(finalized)
        })?;
        if self.modes.contains(CommandBufferMode::ONE_SHOT) {
            if commands.elision_candidate.is_some() {
                elision::plan(&mut commands);
            }
        } else {
            commands.list.shrink_to_fit();
        }
        // Only the thread that took the commands sets them, so they are not set yet.
        let _ = self.recorded.set(commands);
        Ok(())
    }

    /// Opens a debug group.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where recording has ended.
    pub fn begin_debug_group(&self, label: &str) -> Result<()> {
        self.recording(|commands, debug_depth, charge| {
            if self.keeps(commands) {
                let label_index = index(commands.labels.len())?;
                growth::reserve(&mut commands.labels, charge, 1)?;
                growth::reserve(&mut commands.list, charge, 1)?;
                charge.grow(label.len() as u64)?;
                let mut text = String::new();
                text.try_reserve_exact(label.len()).map_err(|_| Error::resource_exhausted("no memory for a label"))?;
                text.push_str(label);
                commands.labels.push(text);
                commands.list.push(Command::BeginDebugGroup { label: label_index });
            }
            *debug_depth = debug_depth.saturating_add(1);
            Ok(())
        })
    }

    /// Closes the innermost debug group.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where none is open, or recording has ended.
    pub fn end_debug_group(&self) -> Result<()> {
        self.recording(|commands, debug_depth, charge| {
            let Some(depth) = debug_depth.checked_sub(1) else {
                return Err(Error::failed_precondition("no debug group is open"));
            };
            growth::reserve(&mut commands.list, charge, 1)?;
            *debug_depth = depth;
            if self.keeps(commands) {
                commands.list.push(Command::EndDebugGroup);
            }
            Ok(())
        })
    }

    /// Orders the commands before it before those after it. Barriers between stages that do not meet on a local device
    /// order them all the same.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where recording has ended.
    pub fn execution_barrier(&self, _source: ExecutionStage, _target: ExecutionStage) -> Result<()> {
        self.recording(|commands, _, charge| {
            if self.keeps(commands) {
                growth::reserve(&mut commands.list, charge, 1)?;
                commands.list.push(Command::Barrier);
            }
            Ok(())
        })
    }

    /// Advises the device of coming uses of a buffer; local devices have nothing to prepare and check the reference only.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the slot is not below the binding capacity; FAILED_PRECONDITION where recording has ended.
    pub fn advise(&self, buffer: &BufferRef) -> Result<()> {
        self.recording(|_, _, _| Ok(()))?;
        match &buffer.buffer {
            Some(buffer_object) => buffer_object.range(buffer.offset, buffer.length).map(|_| ()),
            None => check_slot(buffer.slot, self.binding_capacity),
        }
    }

    /// Repeats the low `pattern_length` bytes (1, 2, 4 or 8) of `pattern` over a range.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for another pattern length or one that does not divide offset and length; OUT_OF_RANGE and
    /// PERMISSION_DENIED for buffers that do not fit.
    pub fn fill(&self, target: BufferRef, pattern: u64, pattern_length: usize) -> Result<()> {
        if self.transfers_inline(&[&target])? {
            let target = BufferRange::of_target(&target)?;
            let filled = target.buffer.fill(target.offset as u64, target.length as u64, pattern, pattern_length);
            return filled.map_err(|error| error.context("fill"));
        }
        self.record(CommandCategory::TRANSFER, |recorder| {
            check_pattern(target.offset, 0, pattern_length)?;
            let (target, length) = recorder.write_target(target)?;
            if length != WHOLE_BUFFER {
                check_pattern(0, length, pattern_length)?;
            }
            // Checked above to be one of 1, 2, 4 and 8.
            Ok(Command::Fill { target, pattern, pattern_length: pattern_length as u8 })
        })
    }

    /// Writes bytes, as they are now, into a range of the same length.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the lengths differ; OUT_OF_RANGE and PERMISSION_DENIED for buffers that do not fit.
    pub fn update(&self, source: &[u8], target: BufferRef) -> Result<()> {
        let check = |length: u64| match length == source.len() as u64 {
            true => Ok(()),
            false => Err(Error::invalid_argument(format!(
                "update of {length} bytes from a source of {} bytes",
                source.len()
            ))),
        };
        if self.transfers_inline(&[&target])? {
            let target = BufferRange::of_target(&target)?;
            check(target.length as u64)?;
            return target.buffer.write(target.offset as u64, source).map_err(|error| error.context("update"));
        }
        self.record(CommandCategory::TRANSFER, |recorder| {
            let (target, length) = recorder.write_target(target)?;
            check(length)?;
            let start = recorder.commands.data.len();
            growth::append(&mut recorder.commands.data, recorder.charge, source)?;
            Ok(Command::Update { target, data: start..start + source.len() })
        })
    }

    /// Copies a range into another of the same length.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the lengths differ; OUT_OF_RANGE and PERMISSION_DENIED for buffers that do not fit.
    pub fn copy(&self, source: BufferRef, target: BufferRef) -> Result<()> {
        if self.transfers_inline(&[&source, &target])? {
            let (from, to) =
                (BufferRange::of(&source, BufferUsage::TRANSFER_SOURCE)?, BufferRange::of_target(&target)?);
            if from.length != to.length {
                return Err(Error::invalid_argument(format!(
                    "copy of {} bytes into a range of {} bytes",
                    from.length, to.length
                )));
            }
            let Some(share) = &source.buffer else { return Err(Error::internal("a copy without a source")) };
            return elision::copy_now(share, from, to).map_err(|error| error.context("copy"));
        }
        self.record(CommandCategory::TRANSFER, |recorder| {
            if source.length != target.length {
                return Err(Error::invalid_argument(format!(
                    "copy of {} bytes into a range of {} bytes",
                    source.length, target.length
                )));
            }
            let is_candidate = elision::is_candidate(recorder.commands, &source, &target);
            let source = recorder.binding(source, BufferUsage::TRANSFER_SOURCE)?.0;
            let target = recorder.write_target(target)?.0;
            if is_candidate {
                recorder.commands.elision_candidate = Some(index(recorder.commands.list.len())?);
            }
            Ok(Command::Copy { source, target })
        })
    }

    /// Runs a function of an executable over a grid of workgroups.
    ///
    /// # Errors
    /// OUT_OF_RANGE for a function that the executable does not have; INVALID_ARGUMENT for another number of constants or
    /// bindings than the function has; UNIMPLEMENTED for custom kernel arguments; OUT_OF_RANGE and PERMISSION_DENIED for
    /// buffers that do not fit.
    pub fn dispatch(
        &self,
        executable: Arc<Executable>,
        function: u64,
        workgroups: Workgroups,
        constants: &[u32],
        bindings: impl IntoIterator<Item = BufferRef>,
        flags: DispatchFlags,
    ) -> Result<()> {
        if self.inline.is_none() {
            check_flags(flags)?;
            return self.record_dispatch(executable, function, workgroups, constants, bindings.into_iter());
        }
        let bindings = bindings.into_iter().map(|BufferRef { buffer, slot, offset, length }| BufferRef {
            buffer: buffer.map(MaybeOwned::from),
            slot,
            offset,
            length,
        });
        let bindings: SmallVec<[BufferRef<MaybeOwned<'_, Buffer>>; 8]> = bindings.collect();
        self.dispatch_borrowed(executable.into(), function, workgroups, constants, bindings, flags)
    }

    /// As [`CommandBuffer::dispatch`]; what runs at once needs no share of executable and buffers.
    ///
    /// # Errors
    /// As above.
    pub fn dispatch_borrowed<'a, B>(
        &self,
        executable: MaybeOwned<'_, Executable>,
        function: u64,
        workgroups: Workgroups,
        constants: &[u32],
        bindings: B,
        flags: DispatchFlags,
    ) -> Result<()>
    where
        B: Deref<Target = [BufferRef<MaybeOwned<'a, Buffer>>]> + IntoIterator<Item = BufferRef<MaybeOwned<'a, Buffer>>>,
    {
        check_flags(flags)?;
        if let Some(inline) = self.inline(CommandCategory::DISPATCH)?
            && let Workgroups::Count(workgroup_count) = workgroups
            && let Some(result) = run_inline(inline, &executable, (function, workgroup_count), constants, &bindings)
        {
            return result;
        }
        self.record_dispatch(executable.into_arc(), function, workgroups, constants, bindings.into_iter())
    }

    /// Runs a dispatch at once, if commands run while they are recorded and the device does not leave this one: `None` if it is to be
    /// recorded, or if the command buffer takes none.
    #[inline]
    pub fn dispatch_now(
        &self,
        executable: &Executable,
        (function, workgroup_count): (u64, [u32; 3]),
        constants: &[u32],
        bindings: &[BufferRange<'_>],
    ) -> Option<Result<()>> {
        if bindings.len() > MAXIMUM_BINDINGS {
            return None;
        }
        let inline = self.inline(CommandCategory::DISPATCH).ok()??;
        run_ranges(inline, executable, (function, workgroup_count), constants, bindings)
    }

    /// Copies at once, if commands run while they are recorded and the device does not leave this one: `None` if it is to be recorded, or
    /// is wrong. The target is one of [`BufferRange::of_fixed_target`], which takes over no memory.
    #[inline]
    pub fn copy_now(&self, source: BufferRange<'_>, target: BufferRange<'_>) -> Option<Result<()>> {
        let inline = self.inline(CommandCategory::TRANSFER).ok()??;
        let is_left = source.buffer.is_remote() || source.length as u64 > inline.longest_transfer;
        if is_left || source.length != target.length {
            return None;
        }
        let (offset, length) = (source.offset as u64, source.length as u64);
        let copied = target.buffer.copy_from(target.offset as u64, source.buffer, offset, length);
        Some(copied.map_err(|error| error.context("copy")))
    }

    fn record_dispatch(
        &self,
        executable: Arc<Executable>,
        function: u64,
        workgroups: Workgroups,
        constants: &[u32],
        bindings: impl Iterator<Item = BufferRef<impl SharedBuffer>>,
    ) -> Result<()> {
        self.record(CommandCategory::DISPATCH, |recorder| {
            let workgroup_count = match workgroups {
                Workgroups::Count(count) => WorkgroupCount::Direct(count),
                Workgroups::Indirect(counts) => recorder.indirect_count(counts)?,
            };
            let constants = recorder.constants(constants)?;
            let bindings = recorder.dispatch_bindings(bindings)?;
            let (function, info) = executable.check(function, constants.len(), bindings.len())?;
            let needs = info.into();
            Ok(Command::Dispatch(Dispatch { executable, function, needs, workgroup_count, constants, bindings }))
        })
    }
}

impl Drop for CommandBuffer {
    fn drop(&mut self) {
        let recording = || self.recording.wait_with(|recording| recording.commands.take());
        if let Some(commands) = self.recorded.take().or_else(recording) {
            commands.give_up();
        }
    }
}

#[cold]
fn finalized() -> Error {
    Error::failed_precondition("command buffer is finalized and takes no more commands")
}

#[cold]
fn not_finalized() -> Error {
    Error::failed_precondition("command buffer is not finalized")
}

impl fmt::Debug for CommandBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandBuffer")
            .field("modes", &self.modes)
            .field("binding_capacity", &self.binding_capacity)
            .field("commands", &self.recorded.get().map(|commands| commands.list.len()))
            .finish_non_exhaustive()
    }
}

fn check_flags(flags: DispatchFlags) -> Result<()> {
    if flags.intersects(DispatchFlags::CUSTOM_ARGUMENTS) {
        return Err(Error::unimplemented("local devices take no custom kernel arguments"));
    }
    Ok(())
}
