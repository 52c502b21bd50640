//! The workgroups of one dispatch, offered by the thread that executes commands in order to threads that look for work.
//!
//! That thread, the driver, does not need the others: it claims blocks too, from its own lane first and then from the
//! others' lanes, so whoever is asked and does not come is not missed. It waits only for blocks that others have claimed.
//! Beyond the memory that workgroups touch, a dispatch costs each helper two cache lines that go to and fro: its lane, and
//! the count of what helpers have finished.

use alloc::boxed::Box;
use core::ops::Range;

use super::claims::{Part, SharedPart};
use super::sync::Apart;
use crate::atomic::{AtomicU64, Ordering};

/// The driver's lane, and those of its helpers.
pub(super) const MAXIMUM_LANES: usize = 16;
/// The most blocks of an offer.
pub(super) const MAXIMUM_BLOCKS: u64 = BLOCK_MASK;
/// The lane of the driver.
pub(super) const DRIVER: usize = 0;

const BLOCK_BITS: u32 = 32;
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;

/// A dispatch that is divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Index of the command.
    pub(super) command: u32,
    /// Number of workgroups.
    pub(super) workgroups: u64,
    /// Workgroups that are claimed at once; at least 1, and so many that there are at most [`MAXIMUM_BLOCKS`] blocks.
    pub(super) block: u64,
}

/// What a thread has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) command: u32,
    pub(super) workgroups: Range<u64>,
}

/// A driver and its helpers.
#[derive(Debug)]
pub(super) struct Crew {
    lanes: Box<[Lane]>,
    /// Bits of the lanes of helpers that look for work.
    present: Apart<AtomicU64>,
    /// Blocks that helpers have finished, of all offers.
    finished: Apart<AtomicU64>,
}

/// Blocks that are to be claimed by the thread of this lane first.
///
/// The driver sets it where everything in it is claimed. All that decides over a claim is in one word: whoever changes that
/// word owns a block of the offer that the other fields describe, as these stay until the block is finished.
#[derive(Debug)]
#[repr(align(128))]
struct Lane {
    /// How many blocks of the part there are in the upper half, the number of the next in the lower.
    blocks: AtomicU64,
    command: AtomicU64,
    part: SharedPart,
}

impl Lane {
    fn new() -> Lane {
        Lane { blocks: AtomicU64::new(0), command: AtomicU64::new(0), part: SharedPart::new() }
    }

    #[inline]
    fn claim(&self) -> Option<Claim> {
        let mut blocks = self.blocks.load(Ordering::Relaxed);
        loop {
            let (next, end) = (blocks & BLOCK_MASK, blocks >> BLOCK_BITS);
            if next >= end {
                return None;
            }
            match self.blocks.compare_exchange_weak(blocks, blocks + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    // It was a 32-bit number.
                    let command = self.command.load(Ordering::Relaxed) as u32;
                    return Some(Claim { command, workgroups: self.part.workgroups(next) });
                }
                Err(other) => blocks = other,
            }
        }
    }
}

impl Crew {
    /// A crew of up to so many threads, the driver among them.
    pub(super) fn new(threads: usize) -> Crew {
        let lanes = (0..threads.clamp(1, MAXIMUM_LANES)).map(|_| Lane::new()).collect();
        Crew { lanes, present: Apart(AtomicU64::new(0)), finished: Apart(AtomicU64::new(0)) }
    }

    /// Takes a lane for a helper that looks for work; `None` where all are taken.
    pub(super) fn join(&self) -> Option<usize> {
        (1..self.lanes.len()).find(|lane| {
            let bit = 1 << lane;
            self.present.load(Ordering::Relaxed) & bit == 0 && self.present.fetch_or(bit, Ordering::Relaxed) & bit == 0
        })
    }

    /// Gives a helper's lane up. What is in it is left to the driver.
    pub(super) fn leave(&self, lane: usize) {
        self.present.fetch_and(!(1 << lane), Ordering::Relaxed);
    }

    /// Bits of the lanes of those who look for work.
    #[inline]
    pub(super) fn helpers(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// How many blocks helpers have finished so far.
    #[inline]
    pub(super) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// Divides a dispatch among the driver and `helpers`, and gives the number of blocks. All of the previous offer is
    /// claimed and finished.
    #[inline]
    pub(super) fn offer(&self, offer: Offer, helpers: u64) -> u64 {
        let blocks = offer.workgroups.div_ceil(offer.block.max(1)).min(MAXIMUM_BLOCKS);
        let shares = u64::from(helpers.count_ones()) + 1;
        // The driver's lane is set last, while helpers begin with theirs; it has one more where they do not divide evenly.
        let mut index = shares;
        for (_, lane) in
            self.lanes.iter().enumerate().rev().filter(|(lane, _)| *lane == DRIVER || helpers >> lane & 1 != 0)
        {
            index -= 1;
            let part = Part::new(blocks, shares, index);
            lane.part.set(&part, offer.workgroups, offer.block);
            lane.command.store(offer.command.into(), Ordering::Relaxed);
            lane.blocks.store(part.length << BLOCK_BITS, Ordering::Release);
        }
        blocks
    }

    /// Claims a block from a thread's own lane, or from another's.
    #[inline]
    pub(super) fn claim(&self, own: usize) -> Option<Claim> {
        let (before, from) = self.lanes.split_at_checked(own).unwrap_or((&self.lanes, &[]));
        from.iter().chain(before).find_map(Lane::claim)
    }

    /// Claims a block from a thread's own lane.
    #[inline]
    pub(super) fn claim_own(&self, own: usize) -> Option<Claim> {
        self.lanes.get(own)?.claim()
    }

    /// Counts blocks that a helper has finished. What it did happens before what the driver does once it has seen the count.
    #[inline]
    pub(super) fn finish(&self, blocks: u64) {
        self.finished.fetch_add(blocks, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn lanes_cover_an_offer_once_and_begin_with_their_own() {
        let crew = Crew::new(4);
        let mut number = 0;
        for helpers in [0u64, 0b10, 0b1000, 0b1010, 0b1110] {
            for workgroups in [1u64, 2, 3, 7, 8, 100] {
                for block in [1, 2, 3, 200] {
                    for first in 0..4 {
                        number += 1;
                        let offer = Offer { command: number, workgroups, block };
                        assert_eq!(crew.offer(offer, helpers), workgroups.div_ceil(block));
                        let mut blocks: Vec<Claim> = core::iter::from_fn(|| crew.claim(first)).collect();
                        if block == 1 && helpers == 0b10 && workgroups == 8 && first < 2 {
                            assert_eq!(blocks.first().map(|claim| claim.workgroups.start), Some(2 * first as u64));
                        }
                        assert!(blocks.iter().all(|claim| claim.command == number));
                        blocks.sort_unstable_by_key(|claim| claim.workgroups.start);
                        let all: Vec<u64> = blocks.into_iter().flat_map(|claim| claim.workgroups).collect();
                        assert_eq!(all, (0..workgroups).collect::<Vec<u64>>(), "{helpers} {block} {first}");
                    }
                }
            }
        }
    }

    #[test]
    fn helpers_have_lanes_of_their_own() {
        let crew = Crew::new(3);
        assert_eq!((crew.join(), crew.join(), crew.join()), (Some(1), Some(2), None));
        crew.leave(1);
        assert_eq!(crew.helpers(), 0b100);
        assert_eq!(crew.join(), Some(1));
        assert_eq!(Crew::new(1).join(), None);
    }
}
