//! A loop of a kernel that is divided among threads.
//!
//! The thread that runs the kernel publishes the parts, runs them itself, and returns when all are done. Other threads of the
//! engine run parts meanwhile: workers, and threads that wait for an execution. The claim word is that of executions (`claim`): the
//! parts are the chunks of one stage.
#![allow(
    unsafe_code,
    reason = "a closure of the dividing thread, called by others while it waits; see `Division::run`"
)]

use alloc::sync::Arc;
use core::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use super::claim::{Chunks, Participant, Stages, Step};
use super::shares::Shares;
use super::sleep::Idle;
use crate::hal::atomic::{AtomicBool, Mutex, Ordering};
use crate::worker_number::current_worker;
use crate::{Error, Result};

/// What runs a part.
type Run = &'static (dyn Fn(usize) + Sync);

/// What runs a part; none where all parts are done.
type Parts = Option<Run>;

/// The parts of a loop.
pub(super) struct Division {
    /// One stage. All parts can be claimed from the start: the dividing thread does not poll again after it has found none.
    stages: Stages<Parts>,
    has_ended: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Division {
    /// Runs `count` parts, at least 1, with up to so many threads, by calling `run` with the number of each. `publish` lets other threads [`join`](Division::join), and
    /// `withdraw` takes that back. Returns when every call of `run` has returned.
    pub(super) fn run(
        (count, threads): (u32, usize),
        run: &(dyn Fn(usize) + Sync),
        publish: impl FnOnce(&Arc<Division>),
        withdraw: impl FnOnce(&Arc<Division>),
    ) -> Result<()> {
        // SAFETY: only the lifetime changes. The reference is in the data of the stages, which threads read only while they have
        // claimed a chunk and not finished it (`claim`). `advance` removes it after the last part, and this function returns
        // after that: `has_ended` is set behind it. Nothing before that returns or unwinds: `step` catches panics of the parts,
        // and `publish` and `withdraw` do not panic.
        let run = unsafe { core::mem::transmute::<&(dyn Fn(usize) + Sync), Run>(run) };
        let mut stages = Stages::new(None, threads.min(count as usize));
        stages.reset(count, |parts| *parts = Some(run));
        let (has_ended, failure) = (AtomicBool::new(false), Mutex::new(None));
        let division = Arc::new(Division { stages, has_ended, failure });
        publish(&division);
        division.join();
        let mut idle = Idle::default();
        // Other threads run the last parts.
        while !division.has_ended.load(Ordering::Acquire) {
            idle.is_over(Duration::MAX);
        }
        withdraw(&division);
        let failure = division.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }

    /// True where a part is unclaimed.
    pub(super) fn is_claimable(&self) -> bool {
        self.stages.is_claimable()
    }

    /// Runs parts until none is unclaimed; false where there was none.
    pub(super) fn join(&self) -> bool {
        let mut ran = false;
        loop {
            match self.stages.step(&mut Joined(self)) {
                Step::Ran => ran = true,
                Step::Nothing => return ran,
                Step::Ended => {
                    self.has_ended.store(true, Ordering::Release);
                    return true;
                }
            }
        }
    }
}

impl fmt::Debug for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Division").field("stages", &self.stages).finish_non_exhaustive()
    }
}

/// A thread that runs parts.
struct Joined<'a>(&'a Division);

impl Participant<Parts> for Joined<'_> {
    fn run(&mut self, parts: &Parts, chunks: &mut Chunks<'_>) -> Result<()> {
        chunks.run_in(&(0..u32::MAX), |part| {
            if let Some(run) = parts {
                run(part as usize);
            }
            Ok(())
        })
    }

    fn share(&self) -> usize {
        current_worker() as usize
    }

    fn fail(&mut self, error: Error) {
        *self.0.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn advance(&mut self, parts: &mut Parts, _: &mut Shares) -> Result<u32> {
        *parts = None;
        Ok(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hal::atomic::AtomicU32;
    use alloc::vec::Vec;

    #[test]
    fn parts_run_once_on_all_threads() {
        for round in 0..200 {
            let counts: Vec<AtomicU32> = (0..round % 17 + 1).map(|_| AtomicU32::new(0)).collect();
            let run = |part: usize| {
                counts[part].fetch_add(1, Ordering::Relaxed);
            };
            let others = Mutex::new(Vec::new());
            let publish = |division: &Arc<Division>| {
                for _ in 0..2 {
                    let division = Arc::clone(division);
                    let thread = std::thread::spawn(move || division.join());
                    others.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
                }
            };
            let result = Division::run((counts.len() as u32, 3), &run, publish, |division| {
                assert!(!division.is_claimable() && !division.join());
            });
            assert!(result.is_ok() && counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            for thread in others.into_inner().unwrap_or_else(PoisonError::into_inner) {
                assert!(thread.join().is_ok());
            }
        }
    }

    #[test]
    fn a_part_that_panics_fails_the_division() {
        // Without the message that a panic prints.
        let run = |part: usize| {
            if part == 2 {
                std::panic::resume_unwind(alloc::boxed::Box::new("as told"))
            }
        };
        assert!(Division::run((5, 2), &run, |_| {}, |_| {}).is_err());
        assert!(Division::run((5, 2), &|_| {}, |_| {}, |_| {}).is_ok());
    }
}
