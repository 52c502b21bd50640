//! The workgroups of one dispatch, handed out in blocks.
//!
//! Each thread has a lane, a part of the workgroups that is its own until it has none left and takes of the others'. So
//! threads seldom write the same memory while they claim, and what a workgroup of one dispatch left in a core's cache is
//! often found there by the workgroup of the same place in the next.

use alloc::boxed::Box;
use core::ops::Range;

use super::sync::{AtomicU64, Ordering};

/// The most workgroups that a dispatch may have: counters go beyond their number by a block for each thread.
pub(super) const MAXIMUM_WORKGROUPS: u64 = 1 << 62;

/// A part of the workgroups, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Lane {
    next: AtomicU64,
    end: AtomicU64,
}

impl Lane {
    #[inline]
    fn claim(&self, block: u64) -> Option<Range<u64>> {
        let end = self.end.load(Ordering::Relaxed);
        if self.next.load(Ordering::Relaxed) >= end {
            return None;
        }
        let start = self.next.fetch_add(block, Ordering::Relaxed);
        (start < end).then(|| start..start.saturating_add(block).min(end))
    }

    #[inline]
    fn left(&self) -> u64 {
        self.end.load(Ordering::Relaxed).saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// Counters of the workgroups of one dispatch.
///
/// `open` comes before everything else; whoever calls `claim` has learned of that through an acquiring load. A block that
/// was claimed is counted by `finish` exactly once, so that one caller learns that it counted the last of them, and
/// everything that was done before any other `finish` happens before that.
#[derive(Debug)]
pub(super) struct Claims {
    lanes: Box<[Lane]>,
    /// Lanes that have workgroups.
    used: AtomicU64,
    block: AtomicU64,
    unfinished: AtomicU64,
}

impl Claims {
    /// Counters with up to `lanes` lanes, at least 1.
    pub(super) fn new(lanes: usize) -> Claims {
        let counter = || AtomicU64::new(0);
        Claims {
            lanes: (0..lanes.max(1)).map(|_| Lane { next: counter(), end: counter() }).collect(),
            used: counter(),
            block: counter(),
            unfinished: counter(),
        }
    }

    /// Sets `total` workgroups (at most [`MAXIMUM_WORKGROUPS`]) to be handed out in blocks of `block` (at least 1), in
    /// `lanes` lanes or as many as there are.
    pub(super) fn open(&self, total: u64, block: u64, lanes: usize) {
        let used = if block >= total { 1 } else { lanes.clamp(1, self.lanes.len()) as u64 };
        self.used.store(used, Ordering::Relaxed);
        self.block.store(block, Ordering::Relaxed);
        self.unfinished.store(total, Ordering::Relaxed);
        let (share, more) = (total / used, total % used);
        for (lane, index) in self.lanes.iter().zip(0..used) {
            let start = |index: u64| index * share + index.min(more);
            lane.next.store(start(index), Ordering::Relaxed);
            lane.end.store(start(index + 1), Ordering::Relaxed);
        }
    }

    fn used(&self) -> &[Lane] {
        self.lanes.get(..self.used.load(Ordering::Relaxed) as usize).unwrap_or_default()
    }

    /// The next block for a thread with the lane of this index, or `None` where all are handed out.
    #[inline]
    pub(super) fn claim(&self, lane: usize) -> Option<Range<u64>> {
        let block = self.block.load(Ordering::Relaxed);
        let lanes = self.used();
        let (before, from) = lanes.split_at_checked(lane).unwrap_or((lanes, &[]));
        from.iter().chain(before).find_map(|lane| lane.claim(block))
    }

    /// Workgroups that are not handed out yet.
    pub(super) fn left(&self) -> u64 {
        self.used().iter().map(Lane::left).sum()
    }

    /// Counts workgroups that were claimed and are done; true for the caller that counts the last.
    #[inline]
    pub(super) fn finish(&self, count: u64) -> bool {
        self.unfinished.fetch_sub(count, Ordering::AcqRel) == count
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn lanes_cover_all_workgroups_once_and_begin_with_their_own() {
        let claims = Claims::new(4);
        for total in [0u64, 1, 2, 3, 4, 5, 17, 100] {
            for block in [1, 2, 3, 200] {
                for lanes in [1, 2, 3, 4, 9] {
                    for first in 0..5 {
                        claims.open(total, block, lanes);
                        let mut blocks: Vec<Range<u64>> = core::iter::from_fn(|| claims.claim(first)).collect();
                        if block == 1 && total >= 4 && first == 1 && lanes == 2 {
                            assert_eq!(blocks.first(), Some(&(total.div_ceil(2)..total.div_ceil(2) + 1)));
                        }
                        assert_eq!(claims.left(), 0);
                        blocks.sort_unstable_by_key(|block| block.start);
                        let all: Vec<u64> = blocks.into_iter().flatten().collect();
                        assert_eq!(all, (0..total).collect::<Vec<u64>>(), "{block} {lanes} {first}");
                    }
                }
            }
        }
    }
}
