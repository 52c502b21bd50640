//! Runs recorded commands in order on the calling thread, without allocating.

use crate::vm::clock::Instant;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Range;

#[cfg(feature = "local-task")]
use super::cost::measure;
use super::dispatch::{KernelCall, RecordedBindings, Scratch, execute_ranges, total, workgroup_count};
use crate::bytecode::imports::BYTES_PER_STEP;
#[cfg(feature = "local-task")]
use crate::hal::backend::Access;
use crate::hal::backend::{Command, Commands, InlineDispatch};
use crate::hal::{BufferBinding, Executable};
use crate::profile::{self, EventKind};
use crate::vm::{Fuel, Meter};
use crate::{Error, Result};

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

/// Runs all commands in order; `table` holds what is bound to their slots. Each command is charged to the meter before it runs.
pub(crate) fn execute(commands: &Commands, table: &[BufferBinding<'_>], meter: Option<&Arc<Meter>>) -> Result<()> {
    let mut fuel = Fuel::of(meter);
    charge_list(&mut fuel, commands)?;
    execute_measuring(commands, table, &mut fuel, false)
}

/// Runs a dispatch while it is recorded, and measures its kernel where `is_measured`. Calls with limits have none.
pub(crate) fn execute_inline(dispatch: &InlineDispatch<'_>, is_measured: bool) -> Result<()> {
    let InlineDispatch { executable, function, ref needs, workgroup_count, constants, bindings, .. } = *dispatch;
    let total = total(workgroup_count)?;
    if total == 0 {
        return Ok(());
    }
    let start = (is_measured || profile::is_on()).then(Instant::now);
    let mut scratch = Scratch::take();
    let call = KernelCall { executable, function, needs, workgroup_count, constants, threads: 1 };
    let result = execute_ranges(&call, &bindings, &mut Fuel::of(None), &mut scratch, |run| run(0..total));
    scratch.give_back();
    #[cfg(feature = "local-task")]
    if let Some(start) = start.filter(|_| is_measured) {
        measure(start, (executable, function), total);
    }
    if let Some(start) = start.filter(|_| profile::is_on()) {
        let bytes = bindings.iter().map(|binding| binding.length as u64).fold(0, u64::saturating_add);
        profile::record(start, &dispatch_facts((executable, function), (total, bytes), true));
    }
    result.map_err(|error| error.context(named(executable, function)))
}

/// As [`execute`], and measures the kernel of each dispatch where `is_measured`.
pub(crate) fn execute_measuring(
    commands: &Commands,
    table: &[BufferBinding<'_>],
    fuel: &mut Fuel,
    is_measured: bool,
) -> Result<()> {
    check_table(commands, table)?;
    let mut scratch = Scratch::take();
    let is_timed = is_measured || profile::is_on();
    let result = commands.list().iter().enumerate().try_for_each(|(index, command)| {
        if matches!(command, Command::Barrier) {
            // As below, without the call: half of the commands are.
            return Ok(());
        }
        let mut run = || {
            // Read once: a program may change an indirect count at any time, and what is charged is what runs.
            let (count, total) = match command {
                Command::Dispatch(dispatch) => workgroup_count(commands, dispatch, table)?,
                _ => ([0; 3], 0),
            };
            if fuel.is_limited() {
                charge(fuel, commands, command, table, total)?;
            }
            let start = is_timed.then(Instant::now);
            execute_command(commands, command, table, fuel, &mut scratch, (count, total))?;
            if let Some(start) = start {
                take_time(start, commands, command, table, total, is_measured);
            }
            Ok(())
        };
        run().map_err(|error| describe(error, index, command))
    });
    scratch.give_back();
    result
}

/// Charges a step for each command, before the list is walked.
pub(crate) fn charge_list(fuel: &mut Fuel, commands: &Commands) -> Result<()> {
    fuel.charge(commands.list().len() as u64)
}

/// Charges a command before it runs: a step for each workgroup of a dispatch, or for 64 bytes of a transfer.
#[inline]
pub(crate) fn charge(
    fuel: &mut Fuel,
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    workgroups: u64,
) -> Result<()> {
    fuel.charge(match command.transfer() {
        Some(transfer) => commands.resolve(transfer.target, table)?.2 as u64 / BYTES_PER_STEP,
        None => workgroups,
    })
}

/// Records a command that began at `start`, if recording is on, and measures its kernel where `is_measured`.
#[cold]
fn take_time(
    start: Instant,
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    workgroups: u64,
    #[cfg_attr(not(feature = "local-task"), allow(unused_variables, reason = "for local-task"))] is_measured: bool,
) {
    #[cfg(feature = "local-task")]
    if let (true, Command::Dispatch(dispatch)) = (is_measured, command) {
        measure(start, (&dispatch.executable, dispatch.function), workgroups);
    }
    if profile::is_on() {
        record(start, commands, command, table, workgroups, workgroups, true);
    }
}

/// Records that this thread has run `workgroups` of the `total` workgroups of a command, if recording is on.
#[cold]
pub(crate) fn record(
    start: Instant,
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    workgroups: u64,
    total: u64,
    first: bool,
) {
    let bytes = |binding: u32| commands.resolve(binding, table).map_or(0, |(_, _, length)| length as u64);
    let facts = match (command, command.transfer()) {
        (_, Some(transfer)) => profile::Facts {
            bytes: bytes(transfer.target),
            ..profile::Facts::plain(EventKind::Transfer, transfer.name)
        },
        (Command::Dispatch(dispatch), None) => {
            let all: u64 = dispatch.bindings.clone().map(bytes).fold(0, u64::saturating_add);
            let part = u128::from(all) * u128::from(workgroups) / u128::from(total.max(1));
            let bytes = u64::try_from(part).unwrap_or(u64::MAX);
            dispatch_facts((&dispatch.executable, dispatch.function), (workgroups, bytes), first)
        }
        _ => return,
    };
    profile::record(start, &facts);
}

/// The facts about workgroups of a function, and the bytes that they access.
fn dispatch_facts<'a>(
    (executable, function): (&'a Executable, usize),
    (workgroups, bytes): (u64, u64),
    first: bool,
) -> profile::Facts<'a> {
    let info = executable.functions().get(function);
    let name = info.map(|info| info.name.as_str()).filter(|name| !name.is_empty()).unwrap_or("dispatch");
    profile::Facts { kind: EventKind::Dispatch, name, workgroups, bytes, first }
}

/// Runs a command; a dispatch with the counts and the number of its workgroups.
#[inline]
fn execute_command(
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    fuel: &mut Fuel,
    scratch: &mut Scratch,
    (count, total): ([u32; 3], u64),
) -> Result<()> {
    match command {
        Command::Dispatch(_) if total == 0 => Ok(()),
        Command::Dispatch(dispatch) => {
            let call = KernelCall {
                executable: &dispatch.executable,
                function: dispatch.function,
                needs: &dispatch.needs,
                workgroup_count: count,
                constants: commands.constants(dispatch),
                threads: 1,
            };
            let bindings = RecordedBindings::new(commands, dispatch, table);
            execute_ranges(&call, &bindings, fuel, scratch, |run| run(0..total))
        }
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
    let Some(transfer) = command.transfer().filter(|transfer| transfer.is_divisible) else { return Ok(None) };
    let (target, target_offset, length) = commands.resolve(transfer.target, table)?;
    let Some(source) = transfer.source else { return Ok(Some(length as u64)) };
    let (source, source_offset, _) = commands.resolve(source, table)?;
    let from = source.pin(Access::Read)?.address().0.addr() + source_offset;
    let to = target.pin(Access::Read)?.address().0.addr() + target_offset;
    Ok(Some(length as u64).filter(|_| from.abs_diff(to) >= length))
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
        Command::Dispatch(_) | Command::Barrier | Command::BeginDebugGroup { .. } | Command::EndDebugGroup => Ok(()),
    }
}

/// Says which command failed.
#[cold]
pub(crate) fn describe(error: Error, index: usize, command: &Command) -> Error {
    if let Command::Dispatch(dispatch) = command {
        return error.context(format!("command {index}, {}", named(&dispatch.executable, dispatch.function)));
    }
    match command.transfer() {
        Some(transfer) => error.context(format!("command {index}, {}", transfer.name)),
        None => error.context(format!("command {index}")),
    }
}

/// Names a dispatch in messages.
#[cold]
fn named(executable: &Executable, function: usize) -> String {
    let name = executable.functions().get(function).map_or("", |info| info.name.as_str());
    format!("dispatch of function {function} '{name}'")
}
