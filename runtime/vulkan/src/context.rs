//! What the parts of a device share.

use std::sync::{Arc, OnceLock};

use crate::Result;
use crate::block::ALIGNMENT;
use crate::gpu::Gpu;
use crate::memory::{Allocation, BufferPosition, Heap};

/// A logical device and its memory.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) heap: Arc<Heap>,
    /// Stands for ranges without bytes, because descriptors need one.
    placeholder: OnceLock<Allocation>,
}

impl Context {
    pub(crate) fn new(gpu: Arc<Gpu>, heap: Arc<Heap>) -> Context {
        Context { gpu, heap, placeholder: OnceLock::new() }
    }

    /// Returns memory to bind in place of ranges without bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn placeholder(&self) -> Result<BufferPosition> {
        if let Some(allocation) = self.placeholder.get() {
            return Ok(allocation.position(0));
        }
        let allocation = self.heap.allocate_local(ALIGNMENT)?;
        // Another thread may have set it.
        Ok(self.placeholder.get_or_init(|| allocation).position(0))
    }
}
