//! Memory with the bytes of a module's constant, which kernels that only read may then use in [another layout](ConstantBytes).

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::vm;
use crate::vm::ConstantBytes;

/// The constant that a storage has the bytes of, until something writes to the storage.
#[derive(Debug)]
pub(super) struct Constant {
    source: Arc<vm::Buffer>,
    /// The position of the storage's first byte in the source.
    offset: usize,
    is_written: AtomicBool,
}

impl Constant {
    /// None unless the source is a part of a module's file.
    pub(super) fn new(source: &Arc<vm::Buffer>, offset: usize) -> Option<Arc<Constant>> {
        ConstantBytes::new(source, offset)?;
        Some(Arc::new(Constant { source: Arc::clone(source), offset, is_written: AtomicBool::new(false) }))
    }

    /// Must be called before something may write to the storage. What orders that write and the reads of kernels orders this, too.
    pub(super) fn set_written(&self) {
        if !self.is_written.load(Ordering::Relaxed) {
            self.is_written.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the constant's bytes from that on which is at an offset in the storage, unless that was written.
    pub(super) fn bytes(&self, offset: usize) -> Option<ConstantBytes> {
        if self.is_written.load(Ordering::Relaxed) {
            return None;
        }
        ConstantBytes::new(&self.source, self.offset.wrapping_add(offset))
    }
}
