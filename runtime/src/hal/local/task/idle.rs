//! Which workers sleep, and who wakes them.

use alloc::boxed::Box;

use crate::atomic::{AtomicU64, Ordering};

/// A set of workers that sleep or are about to.
///
/// A worker that finds no work calls [`IdleSet::enter`], looks for work once more, and sleeps as long as
/// [`IdleSet::sleeping`]. Whoever publishes work calls [`IdleSet::take`] afterwards and wakes the workers that it gives. Both
/// sides change the same word by read-modify-write operations, so that one of them sees the other: either `take` finds
/// the worker, or what was published before `take` is seen by the worker when it looks once more.
#[derive(Debug)]
pub(super) struct IdleSet {
    words: Box<[AtomicU64]>,
}

const BITS: usize = u64::BITS as usize;

impl IdleSet {
    /// The empty set of up to `capacity` workers.
    pub(super) fn new(capacity: usize) -> IdleSet {
        IdleSet { words: (0..capacity.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn word(&self, worker: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.words.get(worker / BITS)?, 1 << (worker % BITS)))
    }

    /// Adds a worker.
    pub(super) fn enter(&self, worker: usize) {
        if let Some((word, bit)) = self.word(worker) {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// Removes a worker that has found work after all; false where somebody has taken it meanwhile, which counts as a
    /// wake-up.
    pub(super) fn leave(&self, worker: usize) -> bool {
        self.word(worker).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::AcqRel) & bit != 0)
    }

    /// True as long as nobody has taken the worker.
    pub(super) fn sleeping(&self, worker: usize) -> bool {
        self.word(worker).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    /// Takes a worker out, which the caller wakes; `None` where no worker is in the set.
    pub(super) fn take(&self) -> Option<usize> {
        for (index, word) in self.words.iter().enumerate() {
            // A read that is ordered with the workers' writes; see above.
            let mut present = word.fetch_or(0, Ordering::AcqRel);
            while present != 0 {
                let bit = present & present.wrapping_neg();
                let before = word.fetch_and(!bit, Ordering::AcqRel);
                if before & bit != 0 {
                    return Some(index * BITS + bit.trailing_zeros() as usize);
                }
                present = before & !bit;
            }
        }
        None
    }
}
