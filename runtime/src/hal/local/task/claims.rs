//! The workgroups of one dispatch, handed out in blocks from one counter.

use core::ops::Range;

use super::sync::{AtomicU64, Ordering};

/// The most workgroups that a dispatch may have: counters go beyond their number by a block for each thread.
pub(super) const MAXIMUM_WORKGROUPS: u64 = 1 << 62;

/// Counters of the workgroups of one dispatch.
///
/// `open` comes before everything else; whoever calls `claim` has learned of that through an acquiring load. A block that
/// was claimed is counted by `finish` exactly once, so that one caller learns that it counted the last of them, and
/// everything that was done before any other `finish` happens before that.
#[derive(Debug)]
pub(super) struct Claims {
    next: AtomicU64,
    total: AtomicU64,
    block: AtomicU64,
    unfinished: AtomicU64,
}

impl Claims {
    pub(super) fn new() -> Claims {
        let counter = || AtomicU64::new(0);
        Claims { next: counter(), total: counter(), block: counter(), unfinished: counter() }
    }

    /// Sets `total` workgroups (at most [`MAXIMUM_WORKGROUPS`]) to be handed out in blocks of `block` (at least 1).
    pub(super) fn open(&self, total: u64, block: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.block.store(block, Ordering::Relaxed);
        self.unfinished.store(total, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
    }

    /// The next block, or `None` where all are handed out.
    #[inline]
    pub(super) fn claim(&self) -> Option<Range<u64>> {
        let total = self.total.load(Ordering::Relaxed);
        if self.next.load(Ordering::Relaxed) >= total {
            return None;
        }
        let block = self.block.load(Ordering::Relaxed);
        let start = self.next.fetch_add(block, Ordering::Relaxed);
        (start < total).then(|| start..start.saturating_add(block).min(total))
    }

    /// Workgroups that are not handed out yet.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        self.total.load(Ordering::Relaxed).saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Counts workgroups that were claimed and are done; true for the caller that counts the last.
    #[inline]
    pub(super) fn finish(&self, count: u64) -> bool {
        self.unfinished.fetch_sub(count, Ordering::AcqRel) == count
    }
}
