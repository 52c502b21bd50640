//! Copies between the host and memory that it cannot access, and between allocations: the caller waits for them.
#![allow(unsafe_code, reason = "submits commands that use allocations which the callers keep")]

use crate::Result;
use crate::context::Context;
use crate::encoder::Encoder;
use crate::memory::Allocation;
use incarnate_hal::QueueAffinity;
use std::sync::Arc;

/// Bytes that are staged at once. It bounds the memory for a copy.
pub(crate) const STAGED_BYTES: u64 = 16 << 20;

fn context(allocation: &Allocation) -> Context {
    Context::new(Arc::clone(allocation.gpu()), Arc::clone(allocation.heap()))
}

/// Copies a range, and waits.
pub(crate) fn copy(
    source: &Allocation,
    source_offset: u64,
    target: &Allocation,
    offset: u64,
    length: u64,
) -> Result<()> {
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
pub(crate) fn write(target: &Allocation, offset: u64, source: &[u8]) -> Result<()> {
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
pub(crate) fn read(source: &Allocation, offset: u64, target: &mut [u8]) -> Result<()> {
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
