//! Transfers that a queue runs as one operation.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::file::File;
use super::operation::Operation;
use crate::memory::buffer::Buffer;

/// Transfers between buffers and files that are submitted together as one operation. Ranges and access are checked when they run.
#[derive(Debug, Default)]
pub struct Transfers {
    operations: Vec<Operation>,
}

impl Transfers {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Transfers {
        Transfers::default()
    }

    /// Returns true if the list is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the operation that runs them sequentially.
    #[inline]
    #[must_use]
    pub fn into_operation(self) -> Operation {
        Operation::Batch(self.operations)
    }

    /// Repeats a non-empty pattern over a range of a buffer; an incomplete last repetition is truncated.
    pub fn splat(&mut self, target: Arc<Buffer>, offset: u64, length: u64, pattern: &[u8]) {
        self.operations.push(Operation::Splat { target, offset, length, pattern: pattern.into() });
    }

    /// Copies from a file into a buffer.
    pub fn read(
        &mut self,
        (source, source_offset): (Arc<File>, u64),
        (target, target_offset): (Arc<Buffer>, u64),
        length: u64,
    ) {
        self.operations.push(Operation::Read { source, source_offset, target, target_offset, length });
    }

    /// Copies from a buffer into a file.
    pub fn write(
        &mut self,
        (source, source_offset): (Arc<Buffer>, u64),
        (target, target_offset): (Arc<File>, u64),
        length: u64,
    ) {
        self.operations.push(Operation::Write { source, source_offset, target, target_offset, length });
    }
}
