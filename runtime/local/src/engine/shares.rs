//! The chunks of a stage, each in the share of one of the threads.
//!
//! What a thread wrote is in its core's own cache. Reading or overwriting it from another core is several times as slow
//! (`docs/engine.md`), so each thread takes the same fraction of every command: thread `i` of `n` begins with the `i`th of `n` shares, and takes
//! from other shares only when its own is exhausted.

use alloc::boxed::Box;

use super::padded::Padded;
use crate::hal::atomic::{AtomicU64, Ordering};

/// The chunks of a stage that are not taken: consecutive ones in each share.
#[derive(Debug)]
pub(super) struct Shares(Box<[Padded<Share>]>);

/// The first chunk that is not taken in the lower half, and the end in the upper half.
#[derive(Debug, Default)]
struct Share(AtomicU64);

/// The first chunk and the end of a share's word.
#[expect(clippy::cast_possible_truncation, reason = "the halves of the word")]
const fn bounds(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

const fn word(first: u32, end: u32) -> u64 {
    (end as u64) << 32 | first as u64
}

/// The number of chunks, of so many, that are in the first `index` of `count` shares, if each share has the same number but for the remainder.
/// `carried`, less than `count`, is what earlier divisions left over.
#[expect(clippy::cast_possible_truncation, reason = "at most `chunks`")]
pub(super) const fn end_of_share(chunks: u32, index: usize, count: usize, carried: usize) -> u32 {
    ((chunks as u64 * index as u64 + carried as u64) / count as u64) as u32
}

impl Shares {
    /// So many shares, at least one, of no chunks.
    pub(super) fn new(count: usize) -> Shares {
        Shares((0..count.max(1)).map(|_| Padded::default()).collect())
    }

    /// The number of shares.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Divides the chunks below `chunks` among the shares, evenly. Returns their number.
    pub(super) fn divide(&mut self, chunks: u32) -> u32 {
        let count = self.count();
        self.set(|share| end_of_share(chunks, share + 1, count, 0))
    }

    /// Gives each share the chunks from the end of the one before, which begin at 0, to the one that `end` returns. Returns the last end.
    pub(super) fn set(&mut self, mut end: impl FnMut(usize) -> u32) -> u32 {
        let mut start = 0;
        for (index, share) in self.0.iter().enumerate() {
            let end = end(index).max(start);
            share.set(start, end);
            start = end;
        }
        start
    }

    /// Takes the first chunk that is left in a share, or the last one that is left in one of the others, those that follow first. Shares are
    /// counted round and round.
    ///
    /// A thread that has claimed a chunk of the stage always finds one: each claim takes one, and there are no more claims than chunks.
    pub(super) fn take(&self, share: usize) -> Option<u32> {
        let (before, after) = self.0.split_at(share % self.0.len());
        let (own, after) = after.split_first()?;
        own.take_first().or_else(|| after.iter().chain(before).find_map(|other| other.take_last()))
    }
}

impl Share {
    fn set(&self, first: u32, end: u32) {
        self.0.store(word(first, end), Ordering::Relaxed);
    }

    fn take_first(&self) -> Option<u32> {
        self.take(|first, end| (first, word(first + 1, end)))
    }

    fn take_last(&self) -> Option<u32> {
        self.take(|first, end| (end - 1, word(first, end - 1)))
    }

    /// Takes the chunk that `choose` returns, with the word that it leaves, of the first one that is left and the end.
    fn take(&self, choose: impl Fn(u32, u32) -> (u32, u64)) -> Option<u32> {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let (first, end) = bounds(before);
            if first >= end {
                return None;
            }
            let (chunk, after) = choose(first, end);
            match self.0.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(chunk),
                Err(other) => before = other,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec::Vec;
    use std::sync::Barrier;

    use super::*;

    fn taken(shares: &Shares, share: usize) -> Vec<u32> {
        core::iter::from_fn(|| shares.take(share)).collect()
    }

    #[test]
    fn a_thread_takes_its_share_from_the_front_and_others_from_the_back() {
        let mut shares = Shares::new(3);
        shares.divide(8);
        assert_eq!(taken(&shares, 1), [2, 3, 4, 7, 6, 5, 1, 0]);
        shares.divide(2);
        assert_eq!((shares.take(0), shares.take(4), shares.take(2)), (Some(0), Some(1), None));
        assert_eq!(shares.set(|share| [1, 1, 6][share]), 6);
        assert_eq!(taken(&shares, 0), [0, 5, 4, 3, 2, 1]);
        shares.divide(0);
        assert_eq!(shares.take(0), None);
    }

    #[test]
    fn what_does_not_divide_evenly_is_carried() {
        // Of three chunks one thread has one, of the next three the other.
        let sizes = |chunks: u32, count: usize, carried: usize| -> Vec<u32> {
            let end = |index| end_of_share(chunks, index, count, carried);
            (0..count).map(|index| end(index + 1) - end(index)).collect()
        };
        assert_eq!([sizes(3, 2, 0), sizes(3, 2, 1)], [[1, 2], [2, 1]]);
        assert_eq!([0, 1, 2].map(|carried| sizes(1, 3, carried)), [[0, 0, 1], [0, 1, 0], [1, 0, 0]]);
        assert_eq!(sizes(u32::MAX, 2, 1), [0x8000_0000, 0x7fff_ffff]);
    }

    #[test]
    fn every_chunk_is_taken_once() {
        for chunks in 0..200 {
            let mut shares = Shares::new(2);
            shares.divide(chunks);
            let start = Barrier::new(3);
            let take = &|share: usize| {
                start.wait();
                taken(&shares, share)
            };
            let mut all = Vec::new();
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3).map(|share| scope.spawn(move || take(share))).collect();
                all.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()));
            });
            all.sort_unstable();
            assert_eq!(all, (0..chunks).collect::<Vec<_>>());
        }
    }
}
