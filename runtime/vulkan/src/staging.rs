//! Copies between the host and memory that it cannot access, and between allocations: the caller waits for them.
#![allow(
    unsafe_code,
    reason = "submits commands that use allocations which the callers keep; declares addresses of mapped memory"
)]

use std::any::Any;
use std::sync::Arc;

use incarnate_hal::backend::DeviceMemory;
use incarnate_hal::{BindingPointer, QueueAffinity};

use crate::Result;
use crate::context::Context;
use crate::encoder::Encoder;
use crate::memory::Allocation;

/// Bytes that are staged at once. It bounds the memory for a copy.
pub(crate) const STAGED_BYTES: u64 = 16 << 20;

fn context(allocation: &Allocation) -> Context {
    Context::new(Arc::clone(allocation.gpu()), Arc::clone(allocation.heap()))
}

/// Copies a range, and waits.
fn copy(source: &Allocation, source_offset: u64, target: &Allocation, offset: u64, length: u64) -> Result<()> {
    let context = context(target);
    // All that the bytes depend on is done, so that they are copied beside what the other queues compute.
    let queue = context.gpu.select(QueueAffinity::ANY, false);
    let mut encoder = Encoder::begin(&context, context.gpu.queue(queue)?.family, false)?;
    encoder.copy(source.position(source_offset), target.position(offset), length)?;
    let recording = encoder.finish()?;
    // SAFETY: the caller keeps both allocations until this call returns.
    unsafe { recording.run(queue) }
}

/// Copies bytes into memory that the host cannot access.
fn write(target: &Allocation, offset: u64, source: &[u8]) -> Result<()> {
    let staged = target.heap().allocate_mapped(STAGED_BYTES.min(source.len() as u64))?;
    let mut written = 0;
    for chunk in source.chunks(STAGED_BYTES as usize) {
        staged.write_mapped(0, chunk)?;
        copy(&staged, 0, target, offset + written, chunk.len() as u64)?;
        written += chunk.len() as u64;
        let total = source.len() as u64;
        if total > STAGED_BYTES {
            tracing::debug!(copied = written, total, "copying to memory of a Vulkan device");
        }
    }
    Ok(())
}

/// Copies bytes out of memory that the host cannot access.
fn read(source: &Allocation, offset: u64, target: &mut [u8]) -> Result<()> {
    let staged = source.heap().allocate_mapped(STAGED_BYTES.min(target.len() as u64))?;
    let (mut read, total) = (0, target.len() as u64);
    for chunk in target.chunks_mut(STAGED_BYTES as usize) {
        copy(source, offset + read, &staged, 0, chunk.len() as u64)?;
        staged.read_mapped(0, chunk)?;
        read += chunk.len() as u64;
        if total > STAGED_BYTES {
            tracing::debug!(copied = read, total, "copying from memory of a Vulkan device");
        }
    }
    Ok(())
}

// SAFETY: the length never changes. The address is that of mapped memory of the block, which the allocation keeps and which stays
// mapped until it is freed; the range is within the block and belongs to this allocation alone. The memory is coherent. Vulkan aligns
// mapped addresses to at least 64 bytes, and the offset is a multiple of `ALIGNMENT`. Imported memory has the guarantees of `HostMemory`,
// which the block keeps, and `Block::import` checks its alignment.
unsafe impl DeviceMemory for Allocation {
    fn length(&self) -> usize {
        self.length()
    }

    fn host_address(&self) -> Option<BindingPointer> {
        self.mapped_address()
    }

    fn read(&self, offset: usize, target: &mut [u8]) -> Result<()> {
        read(self, offset as u64, target)
    }

    fn write(&self, offset: usize, source: &[u8]) -> Result<()> {
        write(self, offset as u64, source)
    }

    fn copy_from(
        &self,
        offset: usize,
        source: &dyn DeviceMemory,
        source_offset: usize,
        length: usize,
    ) -> Option<Result<()>> {
        let source: &Allocation = (source as &dyn Any).downcast_ref()?;
        source.is_of(self.gpu()).then(|| copy(source, source_offset as u64, self, offset as u64, length as u64))
    }
}
