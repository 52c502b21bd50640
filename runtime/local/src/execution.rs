//! Runs recorded commands in order on the calling thread, without allocating.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use core::ops::Range;
use core::ptr::null_mut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use smallvec::SmallVec;

#[cfg(feature = "local-task")]
use super::cost::{kernel_cost, picoseconds};
#[cfg(feature = "local-task")]
use super::engine::current_worker;
use super::{BindingPointer, DispatchArguments, MAXIMUM_BINDINGS, Worker};
use crate::hal::backend::{
    Access, Command, Commands, Dispatch, PinGuard, WorkgroupCount, resolve_range, too_many_bindings,
};
use crate::hal::{BufferBinding, Executable, MINIMUM_ALIGNMENT, MemoryAccess};
use crate::profile::{self, EventKind};
use crate::{Error, Result, vm};

/// Memory that a thread reuses from one execution to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bindings: ResolvedBindings,
    local_memory: LocalMemory,
}

/// The pins of a dispatch's bindings, but for those whose address never changes.
type Pins<'a> = SmallVec<[PinGuard<'a>; 4]>;

/// The addresses of one dispatch's bindings.
#[derive(Debug)]
pub(crate) struct ResolvedBindings {
    count: usize,
    pointers: [BindingPointer; MAXIMUM_BINDINGS],
    lengths: [usize; MAXIMUM_BINDINGS],
    read_only: u64,
}

impl Default for ResolvedBindings {
    fn default() -> Self {
        let (pointers, lengths) = ([BindingPointer(null_mut()); MAXIMUM_BINDINGS], [0; MAXIMUM_BINDINGS]);
        ResolvedBindings { count: 0, pointers, lengths, read_only: 0 }
    }
}

impl ResolvedBindings {
    fn pointers(&self) -> &[BindingPointer] {
        self.pointers.get(..self.count).unwrap_or_default()
    }

    fn lengths(&self) -> &[usize] {
        self.lengths.get(..self.count).unwrap_or_default()
    }

    /// Makes room for bindings and returns the ordinal of each, and where its address and its length are stored.
    fn slots(&mut self, count: usize) -> Result<impl Iterator<Item = (usize, (&mut BindingPointer, &mut usize))>> {
        if count > MAXIMUM_BINDINGS {
            return Err(too_many_bindings());
        }
        self.count = count;
        Ok(self.pointers.iter_mut().zip(&mut self.lengths).enumerate())
    }

    /// Finds and pins the memory of a dispatch's bindings. The addresses are valid as long as `commands`, `table` and `pins`
    /// are kept.
    #[inline]
    pub(crate) fn resolve<'a>(
        &mut self,
        commands: &'a Commands,
        dispatch: &Dispatch,
        table: &'a [BufferBinding<'_>],
        pins: &mut Pins<'a>,
    ) -> Result<()> {
        let bindings = commands.bindings(dispatch);
        let (mut movable, mut read_only) = (0, 0);
        for (binding, (ordinal, (pointer, byte_length))) in bindings.iter().zip(self.slots(bindings.len())?) {
            let (buffer, offset, length) = match commands.resolve_binding(binding, table) {
                Ok(found) => found,
                Err(error) => return Err(of_binding(error, ordinal)),
            };
            match buffer.fixed_address() {
                Some(address) => *pointer = BindingPointer(address.0.wrapping_add(offset)),
                None => movable |= 1 << ordinal,
            }
            *byte_length = length;
            read_only |= u64::from(!buffer.access().contains(MemoryAccess::WRITE)) << ordinal;
        }
        self.read_only = read_only;
        if movable != 0 {
            self.pin(commands, dispatch, table, movable, pins)?;
        }
        Ok(())
    }

    /// Pins the bindings with a bit in `movable`.
    #[inline(never)]
    fn pin<'a>(
        &mut self,
        commands: &'a Commands,
        dispatch: &Dispatch,
        table: &'a [BufferBinding<'_>],
        movable: u64,
        pins: &mut Pins<'a>,
    ) -> Result<()> {
        let info = dispatch.executable.code().functions().get(dispatch.function);
        let only_read = info.map_or(0, |info| info.read_only_bindings);
        // A pin for writing moves borrowed memory, so bindings of the same buffer that are only read are pinned afterwards.
        for (ordinals, access) in [(movable & !only_read, Access::Kernel), (movable & only_read, Access::Read)] {
            let bindings = commands.bindings(dispatch).iter().zip(&mut self.pointers).enumerate();
            for (ordinal, (binding, pointer)) in bindings.filter(|(ordinal, _)| ordinals >> (ordinal & 63) & 1 != 0) {
                let (buffer, offset, _) = commands.resolve_binding(binding, table)?;
                let pin = buffer.pin(access)?;
                *pointer = BindingPointer(pin.address().0.wrapping_add(offset));
                self.read_only |= u64::from(pin.is_borrowed()) << (ordinal & 63);
                if !pin.is_fixed() {
                    pins.push(pin);
                }
            }
        }
        Ok(())
    }

    /// Finds the memory of ranges of byte buffers. It stays valid as long as they are kept.
    fn resolve_ranges(&mut self, ranges: &[(Arc<vm::Buffer>, u64, u64)]) -> Result<()> {
        let mut read_only = 0;
        for ((buffer, offset, length), (ordinal, (pointer, byte_length))) in
            ranges.iter().zip(self.slots(ranges.len())?)
        {
            let available = usize::try_from(buffer.length()).unwrap_or(usize::MAX);
            let (offset, length) =
                resolve_range(available, *offset, *length).map_err(|error| of_binding(error, ordinal))?;
            *pointer = BindingPointer(buffer.as_ptr().wrapping_add(offset));
            *byte_length = length;
            read_only |= u64::from(!buffer.is_mutable()) << ordinal;
        }
        self.read_only = read_only;
        Ok(())
    }
}

#[cold]
fn of_binding(error: Error, ordinal: usize) -> Error {
    error.context(format!("binding {ordinal}"))
}

/// Scratch memory of kernels: grows to the largest need and stays.
#[derive(Debug, Default)]
pub(crate) struct LocalMemory(Vec<u8>);

impl LocalMemory {
    /// At least `size` bytes, aligned to 64.
    pub(crate) fn reserve(&mut self, size: usize) -> Result<&mut [u8]> {
        if size == 0 {
            return Ok(&mut []);
        }
        let needed = size.saturating_add(MINIMUM_ALIGNMENT);
        if self.0.len() < needed {
            self.0 = Vec::new();
            self.0.try_reserve_exact(needed).map_err(|_| no_local_memory(size))?;
            self.0.resize(needed, 0);
        }
        let start = self.0.as_ptr().align_offset(MINIMUM_ALIGNMENT);
        self.0.get_mut(start..).and_then(|memory| memory.get_mut(..size)).ok_or_else(|| no_local_memory(size))
    }
}

#[cold]
fn no_local_memory(size: usize) -> Error {
    Error::resource_exhausted(format!("the host has no {size} bytes of local memory for a worker"))
}

/// The workgroup counts of a dispatch, and how many workgroups that makes.
#[inline(always)]
pub(crate) fn workgroup_count(
    commands: &Commands,
    dispatch: &Dispatch,
    table: &[BufferBinding<'_>],
) -> Result<([u32; 3], u64)> {
    let count = match dispatch.workgroup_count {
        WorkgroupCount::Direct(count) => count,
        WorkgroupCount::Indirect(binding) => indirect_count(commands, binding, table)?,
    };
    Ok((count, total(count)?))
}

/// Reads workgroup counts.
fn indirect_count(commands: &Commands, binding: u32, table: &[BufferBinding<'_>]) -> Result<[u32; 3]> {
    let (buffer, offset, _) = commands.resolve(binding, table)?;
    let mut bytes = [0; size_of::<[u32; 3]>()];
    buffer.read(offset as u64, &mut bytes)?;
    let mut count = [0; 3];
    for (word, bytes) in count.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    Ok(count)
}

/// How many workgroups there are.
#[inline]
fn total(count: [u32; 3]) -> Result<u64> {
    let [x, y, z] = count.map(u64::from);
    // Two counts cannot overflow 64 bits.
    match (x * y).checked_mul(z) {
        Some(total) => Ok(total),
        None => Err(Error::out_of_range(format!("dispatch of {x} x {y} x {z} workgroups exceeds 64 bits"))),
    }
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    /// Takes the thread's scratch memory, so that an execution inside of an execution makes its own.
    pub(crate) fn take() -> Box<Scratch> {
        SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Keeps the memory for the thread's next execution.
    pub(crate) fn give_back(self: Box<Scratch>) {
        // Where the thread is ending there is nothing to keep it for.
        let _ = SCRATCH.try_with(|slot| slot.set(Some(self)));
    }
}

/// Checks that a table has all slots that commands use.
pub(crate) fn check_table(commands: &Commands, table: &[BufferBinding<'_>]) -> Result<()> {
    if table.len() < commands.slot_count() {
        return Err(Error::invalid_argument(format!(
            "binding table of {} slots for commands that use {}",
            table.len(),
            commands.slot_count()
        )));
    }
    Ok(())
}

/// Runs all commands in order; `table` holds what is bound to their slots.
pub(crate) fn execute(commands: &Commands, table: &[BufferBinding<'_>]) -> Result<()> {
    check_table(commands, table)?;
    let mut scratch = Scratch::take();
    let recording = profile::is_on();
    let result = commands.list().iter().enumerate().try_for_each(|(index, command)| {
        if matches!(command, Command::Barrier) {
            // As below, without the call: half of the commands are.
            return Ok(());
        }
        if recording {
            return execute_recorded(commands, index, command, table, &mut scratch);
        }
        execute_command(commands, command, table, &mut scratch).map_err(|error| describe(error, index, command))
    });
    scratch.give_back();
    result
}

/// Returns the only worker: without the engine, dispatches run on the calling thread.
#[cfg(not(feature = "local-task"))]
fn current_worker() -> u32 {
    0
}

/// As [`execute`], and measures what workgroups of each dispatch cost.
#[cfg(feature = "local-task")]
pub(crate) fn execute_measured(commands: &Commands, table: &[BufferBinding<'_>]) -> Result<()> {
    check_table(commands, table)?;
    let mut scratch = Scratch::take();
    let recording = profile::is_on();
    let result = commands.list().iter().enumerate().try_for_each(|(index, command)| {
        let start = Instant::now();
        if recording {
            execute_recorded(commands, index, command, table, &mut scratch)?;
        } else {
            execute_command(commands, command, table, &mut scratch).map_err(|error| describe(error, index, command))?;
        }
        if let Command::Dispatch(dispatch) = command
            && let Some(cost) = kernel_cost(&dispatch.executable, dispatch.function)
            && let (_, workgroups @ 1..) = workgroup_count(commands, dispatch, table)?
        {
            cost.learn(picoseconds(start.elapsed()) / workgroups);
        }
        Ok(())
    });
    scratch.give_back();
    result
}

/// Runs a command and records it.
#[cold]
pub(crate) fn execute_recorded(
    commands: &Commands,
    index: usize,
    command: &Command,
    table: &[BufferBinding<'_>],
    scratch: &mut Scratch,
) -> Result<()> {
    let start = Instant::now();
    execute_command(commands, command, table, scratch).map_err(|error| describe(error, index, command))?;
    let workgroups = match command {
        Command::Dispatch(dispatch) => workgroup_count(commands, dispatch, table)?.1,
        _ => 1,
    };
    record(start, commands, command, table, workgroups, true);
    Ok(())
}

/// Records that this thread has run workgroups of a command, if recording is on.
#[cold]
pub(crate) fn record(
    start: Instant,
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    workgroups: u64,
    first: bool,
) {
    let bytes = |binding: u32| commands.resolve(binding, table).map_or(0, |(_, _, length)| length as u64);
    let transfer = |name, bytes| profile::Facts { bytes, ..profile::Facts::plain(EventKind::Transfer, name) };
    let facts = match command {
        Command::Dispatch(dispatch) => {
            let info = dispatch.executable.code().functions().get(dispatch.function);
            let name = info.map(|info| info.name.as_str()).filter(|name| !name.is_empty()).unwrap_or("dispatch");
            let total = workgroup_count(commands, dispatch, table).map_or(0, |(_, total)| total);
            let all: u64 = dispatch.bindings.clone().map(bytes).fold(0, u64::saturating_add);
            let part = u128::from(all) * u128::from(workgroups) / u128::from(total.max(1));
            let bytes = u64::try_from(part).unwrap_or(u64::MAX);
            profile::Facts { kind: EventKind::Dispatch, name, workgroups, bytes, first }
        }
        Command::Fill { target, .. } => transfer("fill", bytes(*target)),
        Command::Update { target, .. } => transfer("update", bytes(*target)),
        Command::Copy { target, .. } => transfer("copy", bytes(*target)),
        Command::ElidedCopy { target, .. } => transfer("elided copy", bytes(*target)),
        Command::Barrier | Command::BeginDebugGroup { .. } | Command::EndDebugGroup => return,
    };
    profile::record(start, &facts);
}

/// Runs a command.
#[inline]
pub(crate) fn execute_command(
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    scratch: &mut Scratch,
) -> Result<()> {
    match command {
        Command::Dispatch(dispatch) => execute_dispatch(commands, dispatch, table, scratch),
        // In order and one at a time, every command is a barrier.
        Command::Barrier => Ok(()),
        Command::BeginDebugGroup { label } => {
            tracing::trace!(label = commands.label(*label), "debug group");
            Ok(())
        }
        Command::EndDebugGroup => {
            tracing::trace!("end of debug group");
            Ok(())
        }
        transfer => execute_transfer(commands, transfer, table),
    }
}

/// Runs a fill, an update or a copy; other commands do nothing.
pub(crate) fn execute_transfer(commands: &Commands, command: &Command, table: &[BufferBinding<'_>]) -> Result<()> {
    execute_transfer_part(commands, command, table, 0..usize::MAX)
}

/// The bytes that a transfer writes, if parts of it may be run at the same time: not those of ranges that overlap.
#[cfg(feature = "local-task")]
pub(crate) fn divisible_bytes(
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
) -> Result<Option<u64>> {
    match command {
        Command::Fill { target, .. } | Command::Update { target, .. } => {
            let (_, _, length) = commands.resolve(*target, table)?;
            Ok(Some(length as u64))
        }
        Command::Copy { source, target } => {
            let (source, source_offset, length) = commands.resolve(*source, table)?;
            let (target, target_offset, _) = commands.resolve(*target, table)?;
            let from = source.pin(Access::Read)?.address().0.addr() + source_offset;
            let to = target.pin(Access::Read)?.address().0.addr() + target_offset;
            Ok(Some(length as u64).filter(|_| from.abs_diff(to) >= length))
        }
        _ => Ok(None),
    }
}

/// As [`execute_transfer`] for a part of the bytes, which begins at a multiple of 64 if it is not the first.
#[inline]
pub(crate) fn execute_transfer_part(
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    part: Range<usize>,
) -> Result<()> {
    let part_of = |length: usize| {
        let start = part.start.min(length);
        (start, part.end.min(length) - start)
    };
    match command {
        Command::Fill { target, pattern, pattern_length } => {
            let (buffer, offset, length) = commands.resolve(*target, table)?;
            let (start, length) = part_of(length);
            buffer.fill((offset + start) as u64, length as u64, *pattern, usize::from(*pattern_length))
        }
        Command::Update { target, data } => {
            let (buffer, offset, length) = commands.resolve(*target, table)?;
            let data = commands.data(data).filter(|data| data.len() == length);
            let data = data.ok_or_else(|| Error::internal("recorded data of an update is gone"))?;
            let (start, length) = part_of(length);
            buffer.write((offset + start) as u64, data.get(start..start + length).unwrap_or_default())
        }
        Command::ElidedCopy { source, target } => commands.run_elided_copy(*source, *target),
        Command::Copy { source, target } => {
            let (source, source_offset, source_length) = commands.resolve(*source, table)?;
            let (target, target_offset, target_length) = commands.resolve(*target, table)?;
            if source_length != target_length {
                return Err(Error::invalid_argument(format!(
                    "copy of {source_length} bytes into a range of {target_length} bytes"
                )));
            }
            let (start, length) = part_of(source_length);
            let (source_offset, target_offset) = (source_offset + start, target_offset + start);
            target.copy_from(target_offset as u64, source, source_offset as u64, length as u64)
        }
        _ => Ok(()),
    }
}

#[inline]
fn execute_dispatch(
    commands: &Commands,
    dispatch: &Dispatch,
    table: &[BufferBinding<'_>],
    scratch: &mut Scratch,
) -> Result<()> {
    let (count, total) = workgroup_count(commands, dispatch, table)?;
    if total == 0 {
        return Ok(());
    }
    execute_ranges(commands, dispatch, table, scratch, 1, count, |run| run(0..total))
}

/// Runs ranges of a dispatch's workgroups, which `drive` names by calling its argument. `threads` may run some at once.
#[inline]
pub(crate) fn execute_ranges(
    commands: &Commands,
    dispatch: &Dispatch,
    table: &[BufferBinding<'_>],
    scratch: &mut Scratch,
    threads: u8,
    workgroup_count: [u32; 3],
    drive: impl FnOnce(&mut dyn FnMut(Range<u64>) -> Result<()>) -> Result<()>,
) -> Result<()> {
    // Dropped when the workgroups are done, before any other thread learns of it.
    let mut pins = Pins::new();
    scratch.bindings.resolve(commands, dispatch, table, &mut pins)?;
    let code = dispatch.executable.code();
    let Some(info) = code.functions().get(dispatch.function) else {
        return Err(Error::internal(format!("executable lost its function {}", dispatch.function)));
    };
    let arguments = DispatchArguments {
        workgroup_count,
        workgroup_size: info.workgroup_size.map(|size| size.max(1)),
        constants: commands.constants(dispatch),
        binding_pointers: scratch.bindings.pointers(),
        binding_lengths: scratch.bindings.lengths(),
        read_only_bindings: scratch.bindings.read_only,
        max_concurrency: threads,
    };
    let processor_id = if threads > 1 { current_worker() } else { 0 };
    let local_memory = scratch.local_memory.reserve(info.local_memory_size)?;
    let mut worker = Worker { processor_id, local_memory };
    without_unwinding(|| drive(&mut |workgroups| code.dispatch(dispatch.function, &arguments, workgroups, &mut worker)))
}

/// Makes an error of a panic, which comes of an executable that the program brought, so that fences learn of it: those that wait
/// for one, and threads that run parts of the same dispatch, would wait for ever.
pub(super) fn without_unwinding<R>(run: impl FnOnce() -> Result<R>) -> Result<R> {
    // What a kernel leaves half done is in its bindings, of which nobody expects more after an error.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panicked(&*payload)))
}

#[cold]
fn panicked(payload: &(dyn Any + Send)) -> Error {
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Error::internal(format!("a kernel panicked: {message}"))
}

/// Runs all workgroups of one function over ranges of a program's byte buffers, sequentially, on the calling thread.
///
/// # Errors
/// Those of [`Executable::check`]; OUT_OF_RANGE for ranges that leave their buffers; those of the kernel.
pub fn dispatch_inline(
    executable: &Executable,
    function: u64,
    workgroup_count: [u32; 3],
    constants: &[u32],
    bindings: &[(Arc<vm::Buffer>, u64, u64)],
) -> Result<()> {
    let function = executable.check(function, constants.len(), bindings.len())?;
    let total = total(workgroup_count)?;
    let code = executable.code();
    let Some(info) = code.functions().get(function).filter(|_| total > 0) else { return Ok(()) };
    let mut scratch = SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let result = scratch.bindings.resolve_ranges(bindings).and_then(|()| {
        let arguments = DispatchArguments {
            workgroup_count,
            workgroup_size: info.workgroup_size.map(|size| size.max(1)),
            constants,
            binding_pointers: scratch.bindings.pointers(),
            binding_lengths: scratch.bindings.lengths(),
            read_only_bindings: scratch.bindings.read_only,
            max_concurrency: 1,
        };
        let local_memory = scratch.local_memory.reserve(info.local_memory_size)?;
        code.dispatch(function, &arguments, 0..total, &mut Worker { processor_id: 0, local_memory })
    });
    let _ = SCRATCH.try_with(|slot| slot.set(Some(scratch)));
    result.map_err(|error| error.context(format!("dispatch of function {function} '{}'", info.name)))
}

/// Says which command failed.
#[cold]
pub(crate) fn describe(error: Error, index: usize, command: &Command) -> Error {
    match command {
        Command::Dispatch(dispatch) => {
            let functions = dispatch.executable.code().functions();
            let name = functions.get(dispatch.function).map_or("", |info| info.name.as_str());
            error.context(format!("command {index}, dispatch of function {} '{name}'", dispatch.function))
        }
        Command::Fill { .. } => error.context(format!("command {index}, fill")),
        Command::Update { .. } => error.context(format!("command {index}, update")),
        Command::Copy { .. } | Command::ElidedCopy { .. } => error.context(format!("command {index}, copy")),
        _ => error.context(format!("command {index}")),
    }
}
