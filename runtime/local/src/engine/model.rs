//! Model checks by loom of the types that the engine is made of: every interleaving, and every value that a relaxed load may
//! return. `docs/engine.md` has the command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use alloc::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::claim::{Chunks, Participant, Stages, Step};
use super::division::Division;
use super::shares::Shares;
use super::sleep::{ParkedSet, Presence};
use crate::{Error, Result};

/// Memory that loom watches: an access that is not ordered with a write fails the check.
#[derive(Default)]
struct Cells(Vec<UnsafeCell<u32>>);

// SAFETY: loom checks every access.
#[allow(unsafe_code, reason = "the check is whether threads may share this")]
unsafe impl Sync for Cells {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "the check is whether threads may share this")]
unsafe impl Send for Cells {}

#[allow(unsafe_code, reason = "accesses that loom checks")]
impl Cells {
    fn new(count: usize) -> Cells {
        Cells((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, index: usize) {
        // SAFETY: loom checks that no other thread accesses the cell.
        self.0[index].with_mut(|cell| unsafe { *cell += 1 });
    }

    fn get(&self, index: usize) -> u32 {
        // SAFETY: loom checks that no thread writes the cell.
        self.0[index].with(|cell| unsafe { *cell })
    }
}

/// The data of an execution of `stages` stages, whose chunks each count in a cell of their own.
struct Work {
    stages: u32,
    chunks: u32,
    /// The present stage; stage 0 is the chunk before the first.
    stage: u32,
    cells: Cells,
}

impl Work {
    fn stages(stages: u32, chunks: u32) -> Stages<Work> {
        let mut all = Stages::new(Work { stages, chunks, stage: 0, cells: Cells::new(chunks as usize) }, 2);
        all.reset(1, |work| work.stage = 0);
        all
    }
}

/// A participant whose run of one chunk fails, if there is one.
#[derive(Default)]
struct Counting {
    share: usize,
    fails_at: Option<(u32, u32)>,
    ran: u32,
    failed: u32,
    failures: Option<Arc<AtomicU32>>,
}

impl Participant<Work> for Counting {
    fn run(&mut self, work: &Work, chunks: &mut Chunks<'_>) -> Result<()> {
        while chunks.peek().is_some() {
            chunks.run_in(&(0..work.chunks), |chunk| {
                if work.stage == 0 {
                    return Ok(());
                }
                if self.fails_at == Some((work.stage, chunk)) {
                    return Err(Error::data_loss("as told"));
                }
                work.cells.add(chunk as usize);
                self.ran += 1;
                Ok(())
            })?;
        }
        Ok(())
    }

    fn share(&self) -> usize {
        self.share
    }

    fn fail(&mut self, error: Error) {
        assert_eq!(error.message(), "as told");
        self.failed += 1;
        if let Some(failures) = &self.failures {
            failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn advance(&mut self, work: &mut Work, shares: &mut Shares) -> Result<u32> {
        if let Some(failures) = &self.failures
            && failures.load(Ordering::Relaxed) != 0
        {
            return Ok(0);
        }
        // Every chunk has run once in each stage so far, and this thread sees what it wrote.
        for chunk in 0..work.chunks {
            assert_eq!(work.cells.get(chunk as usize), work.stage);
        }
        work.stage += 1;
        Ok(shares.divide(if work.stage > work.stages { 0 } else { work.chunks }))
    }
}

/// Participates until nothing is claimable; true where this thread ended the execution.
fn follow(stages: &Stages<Work>, participant: &mut Counting) -> bool {
    loop {
        match stages.step(participant) {
            Step::Ended => return true,
            Step::Ran => {}
            Step::Nothing => return false,
        }
    }
}

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(check);
}

#[test]
fn every_chunk_runs_once_and_a_stage_follows_a_finished_one() {
    model(4, || {
        let stages = Arc::new(Work::stages(2, 2));
        let other = thread::spawn({
            let stages = stages.clone();
            move || {
                let mut participant = Counting { share: 1, ..Counting::default() };
                (follow(&stages, &mut participant), participant.ran)
            }
        });
        let mut participant = Counting::default();
        let ended = follow(&stages, &mut participant);
        let (other_ended, other_ran) = other.join().unwrap();
        assert!(ended != other_ended);
        assert_eq!(participant.ran + other_ran, 4);
        assert!(!stages.is_claimable());
    });
}

#[test]
fn three_participants_share_a_stage() {
    model(2, || {
        let stages = Arc::new(Work::stages(2, 3));
        let others: Vec<_> = (0..2)
            .map(|share| {
                let stages = stages.clone();
                thread::spawn(move || {
                    let mut participant = Counting { share, ..Counting::default() };
                    (follow(&stages, &mut participant), participant.ran)
                })
            })
            .collect();
        let mut participant = Counting::default();
        let mut ended = u32::from(follow(&stages, &mut participant));
        let mut ran = participant.ran;
        for other in others {
            let (other_ended, other_ran) = other.join().unwrap();
            ended += u32::from(other_ended);
            ran += other_ran;
        }
        assert_eq!((ended, ran), (1, 6));
    });
}

#[test]
fn a_failed_stage_is_the_last() {
    model(4, || {
        let stages = Arc::new(Work::stages(2, 3));
        let failures = Arc::new(AtomicU32::new(0));
        let participant =
            || Counting { fails_at: Some((1, 1)), failures: Some(failures.clone()), ..Counting::default() };
        let other = thread::spawn({
            let (stages, mut participant) = (stages.clone(), Counting { share: 1, ..participant() });
            move || (follow(&stages, &mut participant), participant.ran, participant.failed)
        });
        let mut own = participant();
        let ended = follow(&stages, &mut own);
        let (other_ended, other_ran, other_failed) = other.join().unwrap();
        assert!(ended != other_ended);
        assert_eq!(own.failed + other_failed, 1);
        // The chunks but for the one that failed; those that were unclaimed then are dropped.
        assert!(own.ran + other_ran <= 2);
        assert!(!stages.is_claimable());
    });
}

/// Starts a worker before it publishes a stage of one chunk.
struct Publisher {
    shared: Arc<(ParkedSet, Stages<Work>)>,
    worker: Option<thread::JoinHandle<()>>,
}

impl Participant<Work> for Publisher {
    fn run(&mut self, _: &Work, chunks: &mut Chunks<'_>) -> Result<()> {
        chunks.run_in(&(0..1), |_| Ok(()))
    }

    fn share(&self) -> usize {
        0
    }

    fn fail(&mut self, error: Error) {
        panic!("{error}");
    }

    fn advance(&mut self, work: &mut Work, shares: &mut Shares) -> Result<u32> {
        work.stage = 1;
        let shared = self.shared.clone();
        // As a thread of the pool does: it enters the set, polls for work once more, and parks.
        self.worker = Some(thread::spawn(move || {
            let (parked, stages) = &*shared;
            let mut participant = Counting::default();
            parked.enter(0);
            if stages.is_claimable() {
                parked.leave(0);
            } else {
                while parked.contains(0) {
                    thread::park();
                }
            }
            assert!(follow(stages, &mut participant));
        }));
        Ok(shares.divide(1))
    }
}

#[test]
fn no_wake_up_is_lost() {
    model(4, || {
        let shared = Arc::new((ParkedSet::new(1), Work::stages(1, 1)));
        let mut publisher = Publisher { shared: shared.clone(), worker: None };
        assert_eq!(shared.1.step(&mut publisher), Step::Ran);
        let worker = publisher.worker.take().unwrap();
        if shared.0.take().is_some() {
            worker.thread().unpark();
        }
        worker.join().unwrap();
    });
}

/// Publication and the leaving of the last worker: one of the two sees the other.
#[test]
fn a_worker_that_leaves_sees_what_was_published_or_is_seen_to_have_left() {
    model(4, || {
        let shared = Arc::new((Presence::default(), Work::stages(1, 2)));
        shared.0.enter(1);
        let worker = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.0.leave(1);
                shared.1.is_claimable()
            }
        });
        let (presence, stages) = &*shared;
        assert_eq!(stages.step(&mut Stop), Step::Ran);
        let present = presence.count_after_publishing();
        let saw = worker.join().unwrap();
        assert!(saw || present == 0);
    });
}

/// Runs the chunk before the first stage only.
struct Stop;

impl Participant<Work> for Stop {
    fn run(&mut self, _: &Work, chunks: &mut Chunks<'_>) -> Result<()> {
        chunks.run_in(&(0..1), |_| Ok(()))
    }

    fn share(&self) -> usize {
        0
    }

    fn fail(&mut self, error: Error) {
        panic!("{error}");
    }

    fn advance(&mut self, work: &mut Work, shares: &mut Shares) -> Result<u32> {
        work.stage = 1;
        Ok(shares.divide(work.chunks))
    }
}

/// Two parts that wait for each other: a thread that runs both one after the other waits for ever, which loom notes.
#[test]
fn a_thread_that_joins_leaves_parts_to_the_dividing_one() {
    model(3, || {
        let (present, came) = (Mutex::new(0), Condvar::new());
        let shared = Arc::new((present, came));
        let run = |_: usize| {
            let (present, came) = &*shared;
            let mut present = present.lock().unwrap();
            *present += 1;
            came.notify_all();
            while *present < 2 {
                present = came.wait(present).unwrap();
            }
        };
        let mut joining = None;
        let publish = |division: &std::sync::Arc<Division>| {
            let division = division.clone();
            joining = Some(thread::spawn(move || division.join()));
        };
        Division::run((2, 2), &run, publish, |_| {}).unwrap();
        assert!(joining.unwrap().join().unwrap());
    });
}
