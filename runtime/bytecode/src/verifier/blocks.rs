//! Blocks and branch targets of a function.

use alloc::format;

use smallvec::SmallVec;

use super::super::operand::BlockOffset;
use crate::{Error, Result};

/// The blocks seen so far, and the branches whose targets were not reached yet. Reused from function to function.
#[derive(Default)]
pub(super) struct Blocks {
    /// Offsets of the block markers, ascending.
    markers: SmallVec<[u32; 64]>,
    /// Targets ahead, with the offsets of their branches.
    pending: SmallVec<[(BlockOffset, u32); 64]>,
    open: bool,
}

impl Blocks {
    pub(super) fn clear(&mut self) {
        self.markers.clear();
        self.pending.clear();
        self.open = false;
    }

    /// Whether the last block has not been ended by a terminator.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Notes a block marker.
    #[inline]
    pub(super) fn open(&mut self, offset: u32) {
        self.markers.push(offset);
        self.open = true;
    }

    /// Notes a terminator.
    #[inline]
    pub(super) fn close(&mut self) {
        self.open = false;
    }

    /// Checks a branch target: at once if it lies behind, else when the function is complete.
    #[inline]
    pub(super) fn branch(&mut self, field: &'static str, target: BlockOffset, branch: u32) -> Result<()> {
        if target.0 > branch {
            self.pending.push((target, branch));
            return Ok(());
        }
        match self.markers.binary_search(&target.0) {
            Ok(_) => Ok(()),
            Err(_) => Err(no_block(field, target)),
        }
    }

    /// Checks what could not be checked before the function's end; on an error `offset` is where.
    pub(super) fn finish(&mut self, block_count: u16, offset: &mut u32) -> Result<()> {
        if self.open {
            return Err(Error::invalid_argument("no terminator ends the last block"));
        }
        for &(target, branch) in &self.pending {
            if self.markers.binary_search(&target.0).is_err() {
                *offset = branch;
                return Err(no_block("target", target));
            }
        }
        if self.markers.len() != usize::from(block_count) {
            return Err(Error::invalid_argument(format!(
                "the function has {} blocks, its descriptor says {block_count}",
                self.markers.len()
            )));
        }
        Ok(())
    }
}

#[cold]
fn no_block(field: &'static str, target: BlockOffset) -> Error {
    Error::invalid_argument(format!("`{field}` 0x{:X} is not the offset of a block marker", target.0))
}
