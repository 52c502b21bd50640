//! Division of loops among threads.
//!
//! The iterations of some loops of a kernel do not depend on each other, which the caller has checked. A device with several
//! threads lets such a loop be divided while it runs a kernel: [`with_divider`]. Elsewhere one thread runs all iterations.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

/// Runs the parts of a loop on several threads.
pub trait Divider: Send + Sync + fmt::Debug {
    /// Returns into how many parts a loop of `iterations` is to be cut that takes `time` in picoseconds; 1 where it does not pay.
    fn parts(&self, iterations: usize, time: u64) -> usize;

    /// Calls `run` once with each number below `parts`, on any threads, and returns when all calls have returned. `time` is that of
    /// all parts, in picoseconds.
    fn divide(&self, parts: usize, time: u64, run: &(dyn Fn(usize) + Sync));
}

#[cfg(feature = "std")]
mod current {
    use super::{Arc, Divider};
    use core::cell::RefCell;

    std::thread_local! {
        static DIVIDER: RefCell<Option<Arc<dyn Divider>>> = const { RefCell::new(None) };
    }

    /// Puts a divider in the place of the thread's, which comes back when it is dropped.
    pub(super) struct Replaced(Option<Arc<dyn Divider>>);

    impl Replaced {
        pub(super) fn by(divider: Option<Arc<dyn Divider>>) -> Replaced {
            Replaced(DIVIDER.try_with(|current| current.replace(divider)).ok().flatten())
        }

        /// The thread's divider before.
        pub(super) fn before(&self) -> Option<&Arc<dyn Divider>> {
            self.0.as_ref()
        }
    }

    impl Drop for Replaced {
        fn drop(&mut self) {
            // Where the thread is ending there is none.
            let _ = DIVIDER.try_with(|current| current.replace(self.0.take()));
        }
    }
}

#[cfg(not(feature = "std"))]
mod current {
    use super::{Arc, Divider};

    /// Without threads there is no divider.
    pub(super) struct Replaced;

    impl Replaced {
        pub(super) fn by(_: Option<Arc<dyn Divider>>) -> Replaced {
            Replaced
        }

        pub(super) fn before(&self) -> Option<&Arc<dyn Divider>> {
            None
        }
    }
}
use current::Replaced;

/// Has the loops that `work` runs on this thread divided.
pub fn with_divider<R>(divider: Arc<dyn Divider>, work: impl FnOnce() -> R) -> R {
    let _replaced = Replaced::by(Some(divider));
    work()
}

/// Whether loops are divided that take so long, in picoseconds, if they have iterations enough.
#[must_use]
pub fn divides(time: u64) -> bool {
    let replaced = Replaced::by(None);
    replaced.before().is_some_and(|divider| divider.parts(usize::MAX, time) > 1)
}

/// Runs the iterations of a loop that do not depend on each other: `run` is called with ranges that cover all of them, each once, on
/// this thread and on others. `time` is how long all of them take on one thread, in picoseconds.
///
/// Loops within `run` are not divided again.
pub fn divide(iterations: usize, time: u64, run: &(dyn Fn(Range<usize>) + Sync)) {
    let replaced = Replaced::by(None);
    let parts = replaced.before().map_or(1, |divider| divider.parts(iterations, time).clamp(1, iterations.max(1)));
    match replaced.before() {
        Some(divider) if parts > 1 => {
            let (each, rest) = (iterations / parts, iterations % parts);
            // The first ones are longer by one.
            let start = |part: usize| part * each + part.min(rest);
            divider.divide(parts, time, &|part| run(start(part)..start(part + 1)));
        }
        _ => run(0..iterations),
    }
}

/// As [`divide`], for loops of which each contains the next one. The one with the most iterations is divided, the outermost of several: `run`
/// is called with the first iteration and the number of iterations of each loop.
pub fn divide_longest<const D: usize>(counts: [usize; D], time: u64, run: &(dyn Fn([(usize, usize); D]) + Sync)) {
    let whole = counts.map(|count| (0, count));
    let Some(longest) = (0..D).rev().max_by_key(|at| counts[*at]) else { return run(whole) };
    divide(counts[longest], time, &|range| {
        let mut part = whole;
        part[longest] = (range.start, range.len());
        run(part);
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use std::sync::Mutex;

    /// Runs parts in reverse.
    #[derive(Debug)]
    struct Reverse(usize);

    impl Divider for Reverse {
        fn parts(&self, _: usize, time: u64) -> usize {
            if time < 100 { 1 } else { self.0 }
        }

        fn divide(&self, parts: usize, _: u64, run: &(dyn Fn(usize) + Sync)) {
            (0..parts).rev().for_each(run);
        }
    }

    fn ranges(iterations: usize, time: u64) -> Vec<Range<usize>> {
        let ranges = Mutex::new(Vec::new());
        divide(iterations, time, &|range| {
            if let Ok(mut ranges) = ranges.lock() {
                ranges.push(range);
            }
            // Not divided again.
            divide(1000, u64::MAX, &|inner| assert_eq!(inner, 0..1000));
        });
        ranges.into_inner().unwrap_or_default()
    }

    fn one(range: &Range<usize>) -> &[Range<usize>] {
        core::slice::from_ref(range)
    }

    #[test]
    fn parts_cover_all_iterations() {
        assert_eq!(ranges(10, 1000), one(&(0..10)));
        with_divider(Arc::new(Reverse(3)), || {
            assert_eq!(ranges(10, 1000), [7..10, 4..7, 0..4]);
            assert_eq!(ranges(2, 1000), [1..2, 0..1]);
            assert_eq!((&ranges(0, 1000)[..], &ranges(10, 10)[..]), (one(&(0..0)), one(&(0..10))));
            with_divider(Arc::new(Reverse(2)), || assert_eq!(ranges(4, 1000), [2..4, 0..2]));
            assert_eq!(ranges(3, 1000).len(), 3);
        });
        assert_eq!(ranges(10, 1000), one(&(0..10)));
    }

    fn parts<const D: usize>(counts: [usize; D]) -> Vec<[(usize, usize); D]> {
        let parts = Mutex::new(Vec::new());
        divide_longest(counts, 1000, &|part| parts.lock().unwrap().push(part));
        parts.into_inner().unwrap()
    }

    #[test]
    fn long_loops_are_divided_where_threads_are() {
        assert!(!divides(1000));
        with_divider(Arc::new(Reverse(3)), || {
            assert!(divides(1000) && !divides(10));
            divide(3, 1000, &|_| assert!(!divides(1000)));
            assert!(divides(1000));
        });
    }

    #[test]
    fn the_longest_loop_is_divided() {
        with_divider(Arc::new(Reverse(2)), || {
            assert_eq!(parts([3, 7, 2]), [[(0, 3), (4, 3), (0, 2)], [(0, 3), (0, 4), (0, 2)]]);
            assert_eq!((&parts([1])[..], &parts([0, 0])[..]), (&[[(0, 1)]][..], &[[(0, 0), (0, 0)]][..]));
            assert_eq!(parts([2, 2]), [[(1, 1), (0, 2)], [(0, 1), (0, 2)]]);
            assert_eq!(parts([]), [[]]);
        });
        assert_eq!(parts([3, 7]), [[(0, 3), (0, 7)]]);
    }
}
