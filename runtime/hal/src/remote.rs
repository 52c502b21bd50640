//! Memory of other devices that the host cannot access, in commands of devices that run on the host: copies in host memory.
//!
//! What commands read and write is copied to host memory before they run, and what they may write is written back before their fence
//! is signalled. Bytes that no command names stay, so that the other device may access them meanwhile.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::allocator::Allocator;
use super::buffer::Buffer;
use super::command_buffer::CommandBuffer;
use super::commands::{BufferBinding, Command, Commands, WorkgroupCount};
use super::memory::{BufferParameters, MemoryAccess};
use super::queue::{Backend, Completion};
use crate::vm::{Ledger, MaybeOwned, array};
use crate::{Error, Result};

/// Bytes that are copied at once. It bounds the memory for a copy.
const COPIED_BYTES: usize = 1 << 20;

/// Returns true if commands name memory that the host cannot access.
#[inline]
pub(super) fn is_needed(commands: &Commands, table: &[BufferBinding<'_>]) -> bool {
    commands.buffers.iter().any(|buffer| buffer.is_remote())
        || table.iter().filter_map(|binding| binding.buffer.as_ref()).any(|buffer| buffer.is_remote())
}

/// Executes commands with copies of the memory that the host cannot access, if the backend runs them on the host.
///
/// # Errors
/// Those of [`Backend::execute`]; RESOURCE_EXHAUSTED without memory for the copies; the failure of the other device.
pub(super) fn execute(
    backend: &dyn Backend,
    command_buffer: &Arc<CommandBuffer>,
    table: &[BufferBinding<'_>],
    mut completion: Completion<'_>,
) -> Result<()> {
    let is_staged = command_buffer.commands().is_ok_and(|commands| is_needed(commands, table));
    if !is_staged || backend.executable_cache().is_some() {
        return backend.execute(command_buffer, table, completion);
    }
    let staged = command_buffer.commands().and_then(|commands| Staged::new(commands, table, completion.ledger()));
    match staged {
        Ok(Staged { commands, table, copies, written }) => {
            completion.before_signal(Box::new(move || write_back(&copies, &written)));
            let commands = Arc::new(CommandBuffer::of_commands(command_buffer.modes(), commands));
            backend.execute(&commands, &table, completion)
        }
        Err(error) => completion.finish(Err(error)),
    }
}

/// Commands on copies.
pub(super) struct Staged {
    pub(super) commands: Commands,
    pub(super) table: Vec<BufferBinding<'static>>,
    copies: Vec<Copy>,
    written: Vec<Range>,
}

/// The copy of one allocation.
struct Copy {
    /// A buffer of the allocation.
    device: Arc<Buffer>,
    host: Arc<Buffer>,
}

/// A range of a buffer of a device.
struct Range {
    buffer: Arc<Buffer>,
    offset: usize,
    length: usize,
}

impl Staged {
    /// Copies what commands read and write.
    pub(super) fn new(commands: &Commands, table: &[BufferBinding<'_>], ledger: &Ledger) -> Result<Staged> {
        let (used, written) = ranges(commands, table)?;
        let mut copies: Vec<Copy> = Vec::new();
        for range in &used {
            if host_of(&copies, &range.buffer).is_none() {
                let length = range.buffer.allocation_length();
                let host = Allocator::new().allocate_charged(BufferParameters::DEVICE, length, ledger)?;
                copies.push(Copy { device: Arc::clone(&range.buffer), host });
            }
            move_bytes(&copies, range, |host, at, bytes| {
                range.buffer.read((range.offset + at) as u64, bytes)?;
                host.write(range.position() + at as u64, bytes)
            })?;
        }
        let replaced = |buffer: &Arc<Buffer>| match host_of(&copies, buffer) {
            Some(host) => host.subspan(buffer.byte_offset(), buffer.byte_length()),
            None => Ok(Arc::clone(buffer)),
        };
        let buffers = commands.buffers.iter().map(replaced).collect::<Result<Vec<_>>>()?;
        let bind = |binding: &BufferBinding<'_>| {
            let buffer = binding.buffer.as_ref().map(|buffer| replaced(buffer)).transpose()?;
            let (offset, length) = (binding.offset, binding.length);
            Ok(BufferBinding { buffer: buffer.map(MaybeOwned::from), offset, length })
        };
        let table = table.iter().map(bind).collect::<Result<Vec<_>>>()?;
        Ok(Staged { commands: commands.with_buffers(buffers), table, copies, written })
    }

    /// Writes back what the commands, which are done, may have written.
    pub(super) fn write_back(&self) -> Result<()> {
        write_back(&self.copies, &self.written)
    }
}

impl Range {
    /// The position of the range in the allocation.
    fn position(&self) -> u64 {
        self.buffer.byte_offset() + self.offset as u64
    }

    fn is(&self, buffer: &Arc<Buffer>, offset: usize, length: usize) -> bool {
        Arc::ptr_eq(&self.buffer, buffer) && (self.offset, self.length) == (offset, length)
    }
}

fn host_of<'a>(copies: &'a [Copy], buffer: &Buffer) -> Option<&'a Arc<Buffer>> {
    copies.iter().find(|copy| copy.device.same_allocation(buffer)).map(|copy| &copy.host)
}

/// Returns the ranges of memory that the host cannot access: those that commands use, and those that they may write.
fn ranges(commands: &Commands, table: &[BufferBinding<'_>]) -> Result<(Vec<Range>, Vec<Range>)> {
    let (mut used, mut written) = (Vec::<Range>::new(), Vec::<Range>::new());
    let mut add = |(buffer, offset, length): (&Arc<Buffer>, usize, usize), is_written: bool| {
        if !buffer.is_remote() || length == 0 {
            return;
        }
        let is_written = is_written && buffer.access().contains(MemoryAccess::WRITE);
        for rows in core::iter::once(&mut used).chain(is_written.then_some(&mut written)) {
            if !rows.iter().any(|row| row.is(buffer, offset, length)) {
                rows.push(Range { buffer: Arc::clone(buffer), offset, length });
            }
        }
    };
    for command in &commands.list {
        if let Some(transfer) = command.transfer() {
            add(commands.resolve(transfer.target, table)?, true);
            if let Some(source) = transfer.source {
                add(commands.resolve(source, table)?, false);
            }
        }
        let Command::Dispatch(dispatch) = command else { continue };
        if let WorkgroupCount::Indirect(binding) = dispatch.workgroup_count {
            add(commands.resolve(binding, table)?, false);
        }
        let info = dispatch.executable.functions().get(dispatch.function);
        let only_read = info.map_or(0, |info| info.read_only_bindings);
        for (ordinal, binding) in commands.bindings(dispatch).iter().enumerate() {
            let is_written = ordinal >= 64 || only_read >> ordinal & 1 == 0;
            add(commands.resolve_binding(binding, table)?, is_written);
        }
    }
    Ok((used, written))
}

fn write_back(copies: &[Copy], written: &[Range]) -> Result<()> {
    written.iter().try_for_each(|range| {
        move_bytes(copies, range, |host, at, bytes| {
            host.read(range.position() + at as u64, bytes)?;
            range.buffer.write((range.offset + at) as u64, bytes)
        })
    })
}

/// Calls `body` with the copy of a range, and the position and memory for the bytes of each of its pieces.
fn move_bytes(copies: &[Copy], range: &Range, body: impl Fn(&Buffer, usize, &mut [u8]) -> Result<()>) -> Result<()> {
    let host = host_of(copies, &range.buffer).ok_or_else(|| Error::internal("copy of a buffer is gone"))?;
    let mut bytes: Vec<u8> = array::filled(COPIED_BYTES.min(range.length), 0)?;
    let mut moved = 0;
    while moved < range.length {
        let count = bytes.len().min(range.length - moved);
        body(host, moved, bytes.get_mut(..count).unwrap_or_default())?;
        moved += count;
    }
    Ok(())
}
