//! Memory of other devices in commands of this one: copies in mapped memory, which are written back when the commands are done.

use std::sync::Arc;

use incarnate_hal::{Buffer, MemoryAccess};

use crate::Result;
use crate::context::Context;
use crate::memory::{Allocation, BufferPosition};

/// The copies for one submission.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    rows: Vec<Shadow>,
}

/// The copy of one allocation of another device.
#[derive(Debug)]
struct Shadow {
    /// A buffer of the allocation.
    buffer: Arc<Buffer>,
    copy: Allocation,
    /// Ranges that commands may write, with the buffer that they are ranges of.
    written: Vec<(Arc<Buffer>, u64, u64)>,
}

impl Shadows {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Copies a range of a buffer and returns where the copy is. Ranges of one allocation have one copy.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn position(
        &mut self,
        context: &Context,
        buffer: &Arc<Buffer>,
        offset: u64,
        length: u64,
        is_written: bool,
    ) -> Result<BufferPosition> {
        let known = self.rows.iter().position(|row| row.buffer.same_allocation(buffer));
        let index = match known {
            Some(index) => index,
            None => {
                let copy = context.heap.allocate_mapped(buffer.allocation_length())?;
                self.rows.push(Shadow { buffer: Arc::clone(buffer), copy, written: Vec::new() });
                self.rows.len() - 1
            }
        };
        let Some(row) = self.rows.get_mut(index) else {
            return Err(crate::Error::internal("copy of a buffer is gone"));
        };
        let start = buffer.byte_offset() + offset;
        // The commands have not been submitted, so an earlier copy of the same bytes is the same.
        let mut bytes = vec![0; MOST_COPIED.min(length as usize)];
        let mut copied = 0;
        while copied < length {
            let count = (length - copied).min(bytes.len() as u64);
            let Some(chunk) = bytes.get_mut(..count as usize) else { break };
            buffer.read(offset + copied, chunk)?;
            row.copy.write_mapped((start + copied) as usize, chunk)?;
            copied += count;
        }
        if is_written && buffer.access().contains(MemoryAccess::WRITE) {
            row.written.push((Arc::clone(buffer), offset, length));
        }
        Ok(row.copy.position(start))
    }

    /// Writes back what the commands, which are done, may have written.
    ///
    /// # Errors
    /// Those of [`Buffer::write`].
    pub(crate) fn write_back(&self) -> Result<()> {
        for row in &self.rows {
            for (buffer, offset, length) in &row.written {
                let mut bytes = vec![0; MOST_COPIED.min(*length as usize)];
                let mut copied = 0;
                while copied < *length {
                    let count = (*length - copied).min(bytes.len() as u64);
                    let Some(chunk) = bytes.get_mut(..count as usize) else { break };
                    row.copy.read_mapped((buffer.byte_offset() + offset + copied) as usize, chunk)?;
                    buffer.write(offset + copied, chunk)?;
                    copied += count;
                }
            }
        }
        Ok(())
    }
}

/// Bytes that are copied at once. It bounds the memory for a copy.
const MOST_COPIED: usize = 1 << 20;
