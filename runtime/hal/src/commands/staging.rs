//! Memory of other devices that the host cannot access, in commands of devices that run on the host: copies in host memory.
//!
//! What commands read and write is copied to host memory before they run, and what they may write is written back before their fence
//! is signalled. Bytes that no command names stay, so that the other device may access them meanwhile.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::OnceLock;

use super::recorded::{BufferBinding, Command, Commands, WorkgroupCount};
use crate::bytecode::imports::BYTES_PER_STEP;
use crate::memory::allocator::Allocator;
use crate::memory::buffer::Buffer;
use crate::memory::device_memory::DeviceAllocator;
use crate::memory::parameters::{BufferParameters, MemoryAccess};
use crate::vm::{Fuel, Ledger, MaybeOwned, array};
use crate::{Error, Result};

/// Bytes that are copied at once. It bounds the memory for a copy.
const COPIED_BYTES: usize = 1 << 20;

/// Copies what commands read and write.
type Stage = fn(&Commands, &[BufferBinding<'_>], &Ledger, &mut Fuel) -> Result<Staged>;

/// [`stage`], set by the first allocator of a device's memory. It is the only reference to that code, so that the linker drops the
/// code from programs without a device that has memory of its own.
static STAGE: OnceLock<Stage> = OnceLock::new();

impl Allocator {
    /// Creates an allocator of a device's own memory. Host memory that is imported is copied.
    #[must_use]
    pub fn of_device(device: Arc<dyn DeviceAllocator>) -> Allocator {
        STAGE.get_or_init(|| stage);
        Allocator::with_device(device)
    }
}

/// Returns what copies what commands read and write, if they name memory that the host cannot access.
#[inline]
pub(crate) fn needed(commands: &Commands, table: &[BufferBinding<'_>]) -> Option<Stage> {
    let stage = STAGE.get()?;
    let mut bound = table.iter().filter_map(|binding| binding.buffer.as_ref());
    let is_needed = commands.buffers.iter().any(|buffer| buffer.is_remote()) || bound.any(|buffer| buffer.is_remote());
    is_needed.then_some(*stage)
}

/// Writes copies back.
pub(crate) type WriteBack = Box<dyn FnOnce() -> Result<()> + Send>;

/// Commands on copies.
pub(crate) struct Staged {
    pub(crate) commands: Commands,
    pub(crate) table: Vec<BufferBinding<'static>>,
    /// Writes back what the commands, when they are done, may have written.
    pub(crate) write_back: WriteBack,
}

/// The copy of one allocation.
struct Copy {
    /// That of [`Buffer::allocation_key`].
    key: usize,
    host: Arc<Buffer>,
}

/// A range of a buffer of a device.
struct Range {
    buffer: Arc<Buffer>,
    offset: usize,
    length: usize,
}

/// Copies what commands read and write. The bytes of both directions are charged before.
fn stage(commands: &Commands, table: &[BufferBinding<'_>], ledger: &Ledger, fuel: &mut Fuel) -> Result<Staged> {
    let (used, written) = ranges(commands, table)?;
    let bytes = used.iter().chain(&written).fold(0u64, |sum, range| sum.saturating_add(range.length as u64));
    fuel.charge(bytes.div_ceil(BYTES_PER_STEP))?;
    // In the order of their keys.
    let mut copies: Vec<Copy> = Vec::new();
    for range in &used {
        let key = range.buffer.allocation_key();
        if copies.last().is_none_or(|copy| copy.key != key) {
            let length = range.buffer.allocation_length();
            let host = Allocator::new().allocate_charged(BufferParameters::DEVICE, length, ledger)?;
            copies.push(Copy { key, host });
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
    let write_back = Box::new(move || write_back(&copies, &written));
    Ok(Staged { commands: commands.with_buffers(buffers), table, write_back })
}

impl Range {
    /// The position of the range in the allocation.
    fn position(&self) -> u64 {
        self.buffer.byte_offset() + self.offset as u64
    }
}

fn host_of<'a>(copies: &'a [Copy], buffer: &Buffer) -> Option<&'a Arc<Buffer>> {
    let at = copies.binary_search_by_key(&buffer.allocation_key(), |copy| copy.key).ok()?;
    copies.get(at).map(|copy| &copy.host)
}

/// Returns the ranges of memory that the host cannot access: those that commands use, and those that they may write. Both are in the
/// order of the allocations' keys, and those of a buffer do not overlap.
fn ranges(commands: &Commands, table: &[BufferBinding<'_>]) -> Result<(Vec<Range>, Vec<Range>)> {
    let (mut used, mut written) = (Vec::<Range>::new(), Vec::<Range>::new());
    let mut add = |(buffer, offset, length): (&Arc<Buffer>, usize, usize), is_written: bool| {
        if !buffer.is_remote() || length == 0 {
            return;
        }
        let is_written = is_written && buffer.access().contains(MemoryAccess::WRITE);
        for rows in core::iter::once(&mut used).chain(is_written.then_some(&mut written)) {
            rows.push(Range { buffer: Arc::clone(buffer), offset, length });
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
    Ok((merged(used), merged(written)))
}

/// Merges ranges of a buffer that overlap or follow each other.
fn merged(mut rows: Vec<Range>) -> Vec<Range> {
    rows.sort_unstable_by_key(|row| (row.buffer.allocation_key(), Arc::as_ptr(&row.buffer).addr(), row.offset));
    let mut merged: Vec<Range> = Vec::new();
    for row in rows {
        match merged.last_mut() {
            Some(last) if Arc::ptr_eq(&last.buffer, &row.buffer) && row.offset <= last.offset + last.length => {
                last.length = last.length.max(row.offset + row.length - last.offset);
            }
            _ => merged.push(row),
        }
    }
    merged
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
