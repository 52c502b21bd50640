//! The workgroups of one dispatch, handed out in blocks.
//!
//! Each thread has a lane, a part of the workgroups that is its own until it has none left and takes of the others'. So
//! threads seldom write the same memory while they claim, and what a workgroup of one dispatch left in a core's cache is
//! often found there by the workgroup of the same place in the next.

use core::ops::Range;

use super::sync::{AtomicU64, Ordering};

/// The most workgroups that a dispatch may have: counters go beyond their number by a block for each thread.
pub(super) const MAXIMUM_WORKGROUPS: u64 = 1 << 62;

/// A part of the workgroups, in a cache line of its own.
///
/// [`open`] comes before everything else; whoever calls [`claim`] has learned of that through an acquiring load.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    next: AtomicU64,
    end: AtomicU64,
    block: AtomicU64,
}

impl Lane {
    pub(super) fn new() -> Lane {
        let counter = || AtomicU64::new(0);
        Lane { next: counter(), end: counter(), block: counter() }
    }

    #[inline]
    fn claim(&self) -> Option<Range<u64>> {
        let end = self.end.load(Ordering::Relaxed);
        if self.next.load(Ordering::Relaxed) >= end {
            return None;
        }
        let block = self.block.load(Ordering::Relaxed);
        let start = self.next.fetch_add(block, Ordering::Relaxed);
        (start < end).then(|| start..start.saturating_add(block).min(end))
    }
}

/// Sets `total` workgroups (at most [`MAXIMUM_WORKGROUPS`]) to be handed out in blocks of `block` (at least 1).
pub(super) fn open(lanes: &[Lane], total: u64, block: u64) {
    let used = if block >= total { 1 } else { lanes.len().max(1) as u64 };
    let (share, more) = (total / used, total % used);
    for (lane, index) in lanes.iter().zip(0u64..) {
        let start = |index: u64| if index < used { index * share + index.min(more) } else { total };
        lane.next.store(start(index), Ordering::Relaxed);
        lane.end.store(start(index + 1), Ordering::Relaxed);
        lane.block.store(block, Ordering::Relaxed);
    }
}

/// The next block for a thread with the lane of this index, or `None` where all are handed out.
#[inline]
pub(super) fn claim(lanes: &[Lane], own: usize) -> Option<Range<u64>> {
    let (before, from) = lanes.split_at_checked(own).unwrap_or((lanes, &[]));
    from.iter().chain(before).find_map(Lane::claim)
}

/// Workgroups that are not handed out yet.
pub(super) fn left(lanes: &[Lane]) -> u64 {
    let left = |lane: &Lane| lane.end.load(Ordering::Relaxed).saturating_sub(lane.next.load(Ordering::Relaxed));
    lanes.iter().map(left).sum()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn lanes_cover_all_workgroups_once_and_begin_with_their_own() {
        let all: Vec<Lane> = (0..4).map(|_| Lane::new()).collect();
        for total in [0u64, 1, 2, 3, 4, 5, 17, 100] {
            for block in [1, 2, 3, 200] {
                for lanes in [1, 2, 3, 4] {
                    let lanes = &all[..lanes];
                    for first in 0..5 {
                        open(lanes, total, block);
                        let mut blocks: Vec<Range<u64>> = core::iter::from_fn(|| claim(lanes, first)).collect();
                        if block == 1 && total >= 4 && first == 1 && lanes.len() == 2 {
                            assert_eq!(blocks.first(), Some(&(total.div_ceil(2)..total.div_ceil(2) + 1)));
                        }
                        assert_eq!(left(lanes), 0);
                        blocks.sort_unstable_by_key(|block| block.start);
                        let all: Vec<u64> = blocks.into_iter().flatten().collect();
                        assert_eq!(all, (0..total).collect::<Vec<u64>>(), "{block} {} {first}", lanes.len());
                    }
                }
            }
        }
    }
}
