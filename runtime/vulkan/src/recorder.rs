//! Commands of the HAL as commands of Vulkan.

use std::sync::Arc;

use incarnate_hal::backend::{Command, Commands, Dispatch, WorkgroupCount};
use incarnate_hal::{Buffer, BufferBinding};

use crate::context::Context;
use crate::descriptors::BoundRange;
use crate::encoder::{Count, Encoder, Recording};
use crate::features::Family;
use crate::memory::{Allocation, BufferPosition};
use crate::pipeline::Executable;
use crate::shadows::Shadows;
use crate::{Error, Result};

/// Returns the memory of a buffer, if it is of this device.
pub(crate) fn allocation_of<'a>(context: &Context, buffer: &'a Buffer) -> Option<(&'a Allocation, u64)> {
    let (memory, offset) = buffer.device_memory()?;
    let allocation: &Allocation = (memory as &dyn std::any::Any).downcast_ref()?;
    allocation.is_of(&context.gpu).then_some((allocation, offset as u64))
}

/// Records commands.
struct Recorder<'a> {
    context: &'a Context,
    commands: &'a Commands,
    table: &'a [BufferBinding<'a>],
    encoder: Encoder<'a>,
    shadows: Shadows,
}

/// Records commands for the buffers of a binding table and queues of a family. Returns the copies of other devices' memory that the submission needs, too.
///
/// # Errors
/// Those of resolving bindings; those of the encoder.
pub(crate) fn record(
    context: &Context,
    commands: &Commands,
    table: &[BufferBinding<'_>],
    family: Family,
    is_reusable: bool,
) -> Result<(Recording, Shadows)> {
    let encoder = Encoder::begin(context, family, is_reusable)?;
    let mut recorder = Recorder { context, commands, table, encoder, shadows: Shadows::default() };
    recorder.encoder.time(commands.list().len())?;
    for (index, command) in commands.list().iter().enumerate() {
        recorder.command(command).map_err(|error| describe(error, index, command))?;
        recorder.encoder.timed(commands, command, table);
    }
    Ok((recorder.encoder.finish()?, recorder.shadows))
}

#[cold]
fn describe(error: Error, index: usize, command: &Command) -> Error {
    if let Command::Dispatch(dispatch) = command {
        let name = dispatch.executable.functions().get(dispatch.function).map_or("", |info| info.name.as_str());
        return error.context(format!("command {index}, dispatch of function {} '{name}'", dispatch.function));
    }
    match command.transfer() {
        Some(transfer) => error.context(format!("command {index}, {}", transfer.name)),
        None => error.context(format!("command {index}")),
    }
}

impl Recorder<'_> {
    fn command(&mut self, command: &Command) -> Result<()> {
        match command {
            Command::Fill { target, pattern, pattern_length } => {
                let (target, length) = self.resolve(*target, true)?;
                self.encoder.fill(target, length, *pattern, *pattern_length)
            }
            Command::Update { target, data } => {
                let (target, length) = self.resolve(*target, true)?;
                let data = self.commands.data(data).filter(|data| data.len() as u64 == length);
                self.encoder.update(target, data.ok_or_else(|| Error::internal("recorded data of an update is gone"))?)
            }
            Command::Copy { source, target } | Command::ElidedCopy { source, target } => {
                let (source, length) = self.resolve(*source, false)?;
                let (target, target_length) = self.resolve(*target, true)?;
                if length != target_length {
                    return Err(Error::invalid_argument(format!(
                        "copy of {length} bytes into a range of {target_length} bytes"
                    )));
                }
                self.encoder.copy(source, target, length)
            }
            Command::Dispatch(dispatch) => self.dispatch(dispatch),
            Command::Barrier => {
                self.encoder.barrier();
                Ok(())
            }
            Command::BeginDebugGroup { .. } | Command::EndDebugGroup => Ok(()),
        }
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<()> {
        let commands = self.commands;
        let executable: &Executable = dispatch.executable.device_code()?;
        let pipeline = executable.pipelines.get(dispatch.function).filter(|_| executable.is_of(&self.context.gpu));
        let pipeline = pipeline.ok_or_else(|| {
            Error::failed_precondition("executable was loaded by another Vulkan device and cannot be dispatched here")
        })?;
        let count = match dispatch.workgroup_count {
            WorkgroupCount::Direct(count) => Count::Direct(count),
            WorkgroupCount::Indirect(binding) => Count::Indirect(self.resolve(binding, false)?.0),
        };
        let mut ranges = Vec::new();
        for (ordinal, binding) in commands.bindings(dispatch).iter().enumerate() {
            let (buffer, offset, length) = commands
                .resolve_binding(binding, self.table)
                .map_err(|error| error.context(format!("binding {ordinal}")))?;
            let position = self.position(buffer, offset as u64, length as u64, true)?;
            ranges.push(BoundRange { position, length: length as u64 });
        }
        self.encoder.dispatch(pipeline, count, commands.constants(dispatch), &ranges)
    }

    fn resolve(&mut self, binding: u32, is_written: bool) -> Result<(BufferPosition, u64)> {
        let (buffer, offset, length) = self.commands.resolve(binding, self.table)?;
        let length = length as u64;
        Ok((self.position(buffer, offset as u64, length, is_written)?, length))
    }

    fn position(&mut self, buffer: &Arc<Buffer>, offset: u64, length: u64, is_written: bool) -> Result<BufferPosition> {
        if length == 0 {
            return self.context.placeholder();
        }
        if is_written && !buffer.access().contains(incarnate_hal::MemoryAccess::WRITE) {
            // Kernels are trusted to write only what they may; transfers are not recorded for such targets.
            return self.position(buffer, offset, length, false);
        }
        match allocation_of(self.context, buffer) {
            Some((allocation, start)) => Ok(allocation.position(start + offset)),
            None => self.shadows.position(self.context, buffer, offset, length, is_written),
        }
    }
}
