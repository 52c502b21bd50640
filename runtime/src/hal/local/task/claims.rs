//! The workgroups of one dispatch, handed out in blocks.
//!
//! Each thread has a lane, a part of the workgroups that is its own until it has none left and takes of the others'. So
//! threads seldom write the same memory while they claim, and what a workgroup of one dispatch left in a core's cache is
//! often found there by the workgroup of the same place in the next.
//!
//! A lane's [`Part`] is two runs of blocks, as far from the beginning as from the end: where a size is no multiple of a
//! kernel's tile, the last workgroups have less to do, and a thread that had the first half of a few would be late.

use core::ops::Range;

use crate::atomic::{AtomicU64, Ordering};

/// The most workgroups that a dispatch may have: the end of the last block may be beyond them by a block.
pub(super) const MAXIMUM_WORKGROUPS: u64 = 1 << 62;

/// The blocks of one lane: a run of them and then another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where the first run begins.
    first: u64,
    /// Blocks of the first run.
    split: u64,
    /// Where the second run begins.
    second: u64,
    /// Blocks of both.
    pub(super) length: u64,
}

impl Part {
    /// Of `blocks` that are divided among so many lanes, at least 1, what the lane of this index has. Where they do not
    /// divide evenly, the first lanes have one more.
    pub(super) fn new(blocks: u64, lanes: u64, index: u64) -> Part {
        let (share, more) = (blocks / lanes, blocks % lanes);
        let longer = index.min(more);
        let shorter = index - longer;
        let front = longer * (share + 1).div_ceil(2) + shorter * share.div_ceil(2);
        let back = longer * share.div_ceil(2) + shorter * (share / 2);
        let length = share + u64::from(index < more);
        let split = length.div_ceil(2);
        Part { first: front, split, second: blocks - back - (length - split), length }
    }

    /// The block of this number within the part.
    #[inline]
    pub(super) fn block(&self, number: u64) -> u64 {
        if number < self.split { self.first + number } else { self.second + (number - self.split) }
    }
}

/// The workgroups of a [`Part`], which threads read while they may be set for something else.
#[derive(Debug)]
pub(super) struct SharedPart {
    first: AtomicU64,
    split: AtomicU64,
    second: AtomicU64,
    length: AtomicU64,
    /// Workgroups of a block, and of the dispatch.
    block: AtomicU64,
    total: AtomicU64,
}

impl SharedPart {
    pub(super) fn new() -> SharedPart {
        let zero = || AtomicU64::new(0);
        SharedPart { first: zero(), split: zero(), second: zero(), length: zero(), block: zero(), total: zero() }
    }

    /// Of `total` workgroups in blocks of `block`.
    #[inline]
    pub(super) fn set(&self, part: &Part, total: u64, block: u64) {
        let Part { first, split, second, length } = *part;
        self.first.store(first, Ordering::Relaxed);
        self.split.store(split, Ordering::Relaxed);
        self.second.store(second, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
        self.block.store(block, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// How many blocks there are.
    #[inline]
    fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// The workgroups of the block of this number, which the caller has claimed.
    #[inline]
    pub(super) fn workgroups(&self, number: u64) -> Range<u64> {
        let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let (first, split, second) = (load(&self.first), load(&self.split), load(&self.second));
        let block = load(&self.block);
        let start = Part { first, split, second, length: self.length() }.block(number) * block;
        start..start.saturating_add(block).min(load(&self.total))
    }
}

/// A part of the workgroups, in a cache line of its own.
///
/// [`open`] comes before everything else; whoever calls [`claim`] has learned of that through an acquiring load.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    /// The number of the next block, within the part.
    next: AtomicU64,
    part: SharedPart,
}

impl Lane {
    pub(super) fn new() -> Lane {
        Lane { next: AtomicU64::new(0), part: SharedPart::new() }
    }

    #[inline]
    fn claim(&self) -> Option<Range<u64>> {
        let length = self.part.length();
        if self.next.load(Ordering::Relaxed) >= length {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < length).then(|| self.part.workgroups(number))
    }
}

/// Sets `total` workgroups (at most [`MAXIMUM_WORKGROUPS`]) to be handed out in blocks of `block` (at least 1).
pub(super) fn open(lanes: &[Lane], total: u64, block: u64) {
    let blocks = total.div_ceil(block);
    for (lane, index) in lanes.iter().zip(0u64..) {
        lane.next.store(0, Ordering::Relaxed);
        lane.part.set(&Part::new(blocks, lanes.len() as u64, index), total, block);
    }
}

/// The next block for a thread with the lane of this index, or `None` where all are handed out.
#[inline]
pub(super) fn claim(lanes: &[Lane], own: usize) -> Option<Range<u64>> {
    let (before, from) = lanes.split_at_checked(own).unwrap_or((lanes, &[]));
    from.iter().chain(before).find_map(Lane::claim)
}

/// Workgroups that are not handed out yet, in whole blocks.
pub(super) fn left(lanes: &[Lane]) -> u64 {
    let left = |lane: &Lane| {
        let blocks = lane.part.length().saturating_sub(lane.next.load(Ordering::Relaxed));
        blocks.saturating_mul(lane.part.block.load(Ordering::Relaxed))
    };
    lanes.iter().map(left).sum()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn parts_are_two_runs_that_are_as_far_from_both_ends() {
        let blocks = |count, lanes, index| {
            let part = Part::new(count, lanes, index);
            (0..part.length).map(|number| part.block(number)).collect::<Vec<u64>>()
        };
        assert_eq!((blocks(8, 2, 0), blocks(8, 2, 1)), ([0, 1, 6, 7].into(), [2, 3, 4, 5].into()));
        assert_eq!((blocks(5, 2, 0), blocks(5, 2, 1)), ([0, 1, 4].into(), [2, 3].into()));
        assert_eq!((blocks(2, 3, 0), blocks(2, 3, 1), blocks(2, 3, 2)), ([0].into(), [1].into(), [].into()));
        for lanes in 1..7 {
            for count in 0..40 {
                let mut all: Vec<u64> = (0..lanes).flat_map(|index| blocks(count, lanes, index)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..count).collect::<Vec<u64>>(), "{lanes}");
            }
        }
    }

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
                            let own = total.div_ceil(2).div_ceil(2);
                            assert_eq!(blocks.first(), Some(&(own..own + 1)));
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
