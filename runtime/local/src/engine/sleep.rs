//! How threads without work wait: they poll for some time, and workers park after that.

use crate::vm::clock::Instant;
use alloc::boxed::Box;
use std::time::Duration;

use super::padded::Padded;
use crate::hal::atomic::{AtomicU64, AtomicUsize, Ordering, fence, spin_loop, yield_now};

/// The set of workers that are parked or about to park.
///
/// A worker that finds no work calls [`ParkedSet::enter`], polls for work once more, and parks as long as
/// [`ParkedSet::contains`]. A thread that publishes work calls [`ParkedSet::take`] afterwards and unparks the workers that it
/// returns. Both have a sequentially consistent fence between their write and their read, so that one of them sees the other:
/// either `take` returns the worker, or the worker sees what was published before `take` when it polls once more.
#[derive(Debug)]
pub(super) struct ParkedSet {
    words: Box<[AtomicU64]>,
}

const BITS: usize = u64::BITS as usize;

impl ParkedSet {
    /// The empty set of up to `capacity` workers.
    pub(super) fn new(capacity: usize) -> ParkedSet {
        ParkedSet { words: (0..capacity.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn word(&self, worker: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.words.get(worker / BITS)?, 1 << (worker % BITS)))
    }

    /// Adds a worker.
    pub(super) fn enter(&self, worker: usize) {
        if let Some((word, bit)) = self.word(worker) {
            word.fetch_or(bit, Ordering::AcqRel);
        }
        fence(Ordering::SeqCst);
    }

    /// Removes a worker that has found work after all; false where a publisher has taken it meanwhile.
    pub(super) fn leave(&self, worker: usize) -> bool {
        self.word(worker).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::AcqRel) & bit != 0)
    }

    /// True as long as no publisher has taken the worker.
    pub(super) fn contains(&self, worker: usize) -> bool {
        self.word(worker).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    /// Removes a worker, which the caller unparks; `None` where the set is empty.
    pub(super) fn take(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        for (index, word) in self.words.iter().enumerate() {
            let mut present = word.load(Ordering::Relaxed);
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

/// The number of workers that participate or have been woken to.
///
/// A worker that leaves polls for work once more after [`Presence::leave`]; a thread that publishes work wakes workers by the number that
/// [`Presence::count_after_publishing`] returns. Both have a sequentially consistent fence between their write and their read,
/// so that one of them sees the other.
#[derive(Debug, Default)]
pub(super) struct Presence(Padded<AtomicUsize>);

impl Presence {
    /// Counts workers that come, or are about to.
    pub(super) fn enter(&self, count: usize) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes back [`Presence::enter`].
    pub(super) fn leave(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The number of workers, of any time.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The number of workers after what this thread has published.
    pub(super) fn count_after_publishing(&self) -> usize {
        fence(Ordering::SeqCst);
        self.count()
    }
}

/// Polls before a thread yields its core between two polls: some microseconds, in which most stages are published.
const POLLS_BEFORE_YIELDING: u32 = if cfg!(loom) { 0 } else { 400 };

/// A thread that polls for work.
#[derive(Debug, Default)]
pub(super) struct Idle {
    polls: u32,
    yields_since: Option<Instant>,
}

impl Idle {
    /// Waits for a moment; true where the thread has polled for as long as `limit`.
    pub(super) fn is_over(&mut self, limit: Duration) -> bool {
        if limit.is_zero() {
            return true;
        }
        if self.polls < POLLS_BEFORE_YIELDING {
            self.polls += 1;
            spin_loop();
            return false;
        }
        // The thread that has the work may wait for this core.
        yield_now();
        self.yields_since.get_or_insert_with(Instant::now).elapsed() >= limit
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn workers_are_taken_once() {
        let set = ParkedSet::new(130);
        assert_eq!(set.take(), None);
        [3, 64, 129].into_iter().for_each(|worker| set.enter(worker));
        assert!(set.leave(64) && !set.leave(64) && !set.contains(64));
        assert!(set.contains(129));
        assert_eq!((set.take(), set.take(), set.take()), (Some(3), Some(129), None));
        assert!(!set.contains(129) && !set.leave(129));
    }

    #[test]
    fn polling_ends_at_once_without_a_limit_and_later_with_one() {
        assert!(Idle::default().is_over(Duration::ZERO));
        let mut idle = Idle::default();
        assert!((0..POLLS_BEFORE_YIELDING).all(|_| !idle.is_over(Duration::from_nanos(1))));
        let mut idle_for_long = 0;
        while !idle.is_over(Duration::from_nanos(1)) {
            idle_for_long += 1;
            assert!(idle_for_long < 1_000_000);
        }
    }
}
