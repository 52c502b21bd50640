//! Operations of queues: transfers, and executions of command buffers.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::file::File;
use crate::bytecode::imports::BYTES_PER_STEP;
use crate::commands::command_buffer::CommandBuffer;
use crate::commands::recorded::BufferBinding;
use crate::memory::buffer::Buffer;
use crate::profile::{self, EventKind, Facts};
use crate::vm::{Fuel, Meter, array};
use crate::{Error, Result};

/// A queue operation. Transfers are rare here: most are commands of a command buffer.
#[derive(Debug)]
pub enum Operation {
    /// Waits and signals, and does nothing else.
    Barrier,
    /// Releases a reference to a buffer.
    Release(Arc<Buffer>),
    /// Fills a range of a buffer; see [`Buffer::fill`].
    Fill {
        /// The buffer.
        target: Arc<Buffer>,
        /// The start of the range.
        offset: u64,
        /// The length of the range.
        length: u64,
        /// The pattern, in the low bytes.
        pattern: u64,
        /// The length of the pattern in bytes.
        pattern_length: usize,
    },
    /// Repeats a pattern of any length; an incomplete last repetition is truncated.
    Splat {
        /// The buffer.
        target: Arc<Buffer>,
        /// The start of the range.
        offset: u64,
        /// The length of the range.
        length: u64,
        /// The pattern.
        pattern: Box<[u8]>,
    },
    /// Writes bytes to a buffer; see [`Buffer::write`].
    Update {
        /// The bytes.
        source: Box<[u8]>,
        /// The buffer.
        target: Arc<Buffer>,
        /// The position in the buffer.
        offset: u64,
    },
    /// Copies between buffers; see [`Buffer::copy_from`].
    Copy {
        /// The buffer that is read.
        source: Arc<Buffer>,
        /// The position in the source.
        source_offset: u64,
        /// The buffer that is written.
        target: Arc<Buffer>,
        /// The position in the target.
        target_offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Copies from a file into a buffer; see [`File::read`].
    Read {
        /// The file.
        source: Arc<File>,
        /// The position in the file.
        source_offset: u64,
        /// The buffer.
        target: Arc<Buffer>,
        /// The position in the buffer.
        target_offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Copies from a buffer into a file; see [`File::write`].
    Write {
        /// The buffer.
        source: Arc<Buffer>,
        /// The position in the buffer.
        source_offset: u64,
        /// The file.
        target: Arc<File>,
        /// The position in the file.
        target_offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Executes a command buffer.
    Execute {
        /// The command buffer.
        command_buffer: Arc<CommandBuffer>,
        /// What is bound to its slots.
        bindings: Box<[BufferBinding<'static>]>,
    },
    /// Transfers to run sequentially.
    Batch(Vec<Operation>),
}

impl Operation {
    /// Runs a transfer on the calling thread. Does nothing for other operations.
    ///
    /// # Errors
    /// Those of the transfer; those of [`Fuel::charge`], before it begins.
    pub fn transfer(&self, meter: Option<&Arc<Meter>>) -> Result<()> {
        let recorded = profile::now();
        let result = self.transfer_unrecorded(meter);
        if let Some(start) = recorded {
            self.record(start);
        }
        result
    }

    #[cold]
    fn record(&self, start: crate::vm::clock::Instant) {
        let name = match self {
            Operation::Barrier | Operation::Release(_) | Operation::Execute { .. } | Operation::Batch(_) => return,
            Operation::Fill { .. } | Operation::Splat { .. } => "queue fill",
            Operation::Update { .. } => "queue update",
            Operation::Copy { .. } => "queue copy",
            Operation::Read { .. } => "queue read",
            Operation::Write { .. } => "queue write",
        };
        profile::record(start, &Facts { bytes: self.bytes(), ..Facts::plain(EventKind::Transfer, name) });
    }

    fn transfer_unrecorded(&self, meter: Option<&Arc<Meter>>) -> Result<()> {
        match self {
            Operation::Barrier | Operation::Release(_) | Operation::Execute { .. } => Ok(()),
            Operation::Fill { target, offset, length, pattern, pattern_length } => {
                target.fill(*offset, *length, *pattern, *pattern_length)
            }
            Operation::Splat { target, offset, length, pattern } => splat(target, *offset, *length, pattern),
            Operation::Update { source, target, offset } => target.write(*offset, source),
            Operation::Copy { source, source_offset, target, target_offset, length } => {
                target.copy_from(*target_offset, source, *source_offset, *length)
            }
            Operation::Read { source, source_offset, target, target_offset, length } => {
                source.read(*source_offset, target, *target_offset, *length)
            }
            Operation::Write { source, source_offset, target, target_offset, length } => {
                target.write(*target_offset, source, *source_offset, *length)
            }
            // The call that submits one transfer is charged by its operands; a batch has its own.
            Operation::Batch(operations) => {
                let mut fuel = Fuel::of(meter);
                operations.iter().try_for_each(|operation| {
                    fuel.charge(1 + operation.bytes() / BYTES_PER_STEP)?;
                    operation.transfer(meter)
                })
            }
        }
    }

    /// The bytes that a transfer writes.
    fn bytes(&self) -> u64 {
        match self {
            Operation::Barrier | Operation::Release(_) | Operation::Execute { .. } | Operation::Batch(_) => 0,
            Operation::Fill { length, .. } | Operation::Splat { length, .. } => *length,
            Operation::Update { source, .. } => source.len() as u64,
            Operation::Copy { length, .. } | Operation::Read { length, .. } | Operation::Write { length, .. } => {
                *length
            }
        }
    }

    /// The bytes that the operation takes while it is pending, beside those of objects that it refers to.
    pub(super) fn extent(&self) -> u64 {
        let contents = match self {
            Operation::Update { source, .. } => source.len(),
            Operation::Splat { pattern, .. } => pattern.len(),
            Operation::Execute { bindings, .. } => size_of_val(&**bindings),
            Operation::Batch(operations) => {
                let extents = operations.iter().map(Operation::extent);
                return extents.fold(size_of::<Operation>() as u64, u64::saturating_add);
            }
            _ => 0,
        };
        (size_of::<Operation>() + contents) as u64
    }
}

/// Bytes that are written at once when a pattern is repeated.
const SPLAT_BYTES: usize = 64 << 10;

fn splat(target: &Buffer, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
    let (start, length) = target.range(offset, length)?;
    if pattern.is_empty() {
        return Err(Error::invalid_argument("pattern without bytes"));
    }
    let repetitions = SPLAT_BYTES.min(length).div_ceil(pattern.len());
    let mut block = array::with_capacity(repetitions.saturating_mul(pattern.len()))?;
    #[expect(clippy::disallowed_methods, reason = "the memory is reserved")]
    (0..repetitions).for_each(|_| block.extend_from_slice(pattern));
    let mut written = 0;
    while written < length {
        let count = block.len().min(length - written);
        target.write((start + written) as u64, block.get(..count).unwrap_or(&block))?;
        written += count;
    }
    Ok(())
}
