//! Waiting for timepoints.

use crate::vm::clock::Instant;
use alloc::sync::Arc;
use core::task::Poll;
use std::sync::PoisonError;
use std::thread::{self, Thread};
use std::time::Duration;

use super::semaphore::{Semaphore, Waiter};
use crate::atomic::{AtomicBool, AtomicUsize, Mutex, Ordering};
use crate::profile::{self, EventKind, Facts};
use crate::{Error, Result};

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Limit);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Immediate,
    At(Instant),
    Never,
}

impl Deadline {
    /// Waits without a limit.
    pub const NEVER: Deadline = Deadline(Limit::Never);
    /// Polls once.
    pub const IMMEDIATE: Deadline = Deadline(Limit::Immediate);

    /// Returns a deadline `timeout` from now; [`Deadline::NEVER`] if the clock cannot express it.
    #[must_use]
    pub fn after(timeout: Duration) -> Deadline {
        if timeout.is_zero() {
            return Deadline::IMMEDIATE;
        }
        Deadline(Instant::now().checked_add(timeout).map_or(Limit::Never, Limit::At))
    }
}

impl Deadline {
    /// Returns the deadline at a time.
    #[must_use]
    pub fn at(instant: Instant) -> Deadline {
        Deadline(Limit::At(instant))
    }

    /// Returns the earlier of two deadlines.
    #[inline]
    #[must_use]
    pub fn earlier(self, other: Deadline) -> Deadline {
        match (self.0, other.0) {
            (Limit::Immediate, _) | (_, Limit::Never) => self,
            (_, Limit::Immediate) | (Limit::Never, _) => other,
            (Limit::At(a), Limit::At(b)) => Deadline(Limit::At(a.min(b))),
        }
    }

    /// Returns the time of the deadline; `None` if there is none.
    #[inline]
    #[must_use]
    pub fn instant(self) -> Option<Instant> {
        match self.0 {
            Limit::Immediate => Some(Instant::now()),
            Limit::At(instant) => Some(instant),
            Limit::Never => None,
        }
    }

    /// Returns true if the deadline has passed.
    #[inline]
    #[must_use]
    pub fn has_passed(self) -> bool {
        match self.0 {
            Limit::Immediate => true,
            Limit::At(instant) => Instant::now() >= instant,
            Limit::Never => false,
        }
    }
}

/// Counts the reached timepoints of a wait, and keeps its first failure, which ends the wait at once.
#[derive(Debug)]
pub(crate) struct Countdown {
    /// Number of timepoints that are not reached, plus one until all are registered.
    remaining: AtomicUsize,
    finished: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Countdown {
    pub(crate) fn new(count: usize) -> Countdown {
        Countdown { remaining: AtomicUsize::new(count), finished: AtomicBool::new(false), failure: Mutex::new(None) }
    }

    /// Counts one result; returns true to the one caller that ends the wait.
    pub(crate) fn count(&self, result: Result<()>) -> bool {
        match result {
            Err(error) => {
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                if self.finished.swap(true, Ordering::AcqRel) {
                    return false;
                }
                *failure = Some(error);
                true
            }
            Ok(()) => self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 && !self.finished.swap(true, Ordering::AcqRel),
        }
    }

    /// Returns the result once the wait has ended.
    pub(crate) fn result(&self) -> Poll<Result<()>> {
        if !self.finished.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        // A failing caller holds the lock from before it sets `finished` until the failure is stored.
        Poll::Ready(match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        })
    }
}

/// A thread that is blocked until a countdown ends.
struct BlockedThread {
    countdown: Countdown,
    thread: Thread,
}

impl Waiter for BlockedThread {
    fn notify(self: Arc<Self>, result: Result<()>) {
        if self.countdown.count(result) {
            self.thread.unpark();
        }
    }
}

/// Polls before a thread blocks for a signal that is due: some microseconds in all.
const POLLS_FOR_A_SIGNAL: u32 = 20;
const QUERIES_FOR_EACH_POLL: u32 = 16;

/// Polls briefly; returns true if all of the timepoints are reached or have failed.
fn poll<'a>(timepoints: &(impl Iterator<Item = (&'a Semaphore, u64)> + Clone)) -> bool {
    (0..QUERIES_FOR_EACH_POLL).any(|_| {
        core::hint::spin_loop();
        timepoints.clone().all(|(semaphore, payload)| semaphore.is_settled(payload))
    })
}

/// Blocks until all of the timepoints are reached, one of them fails, or the deadline passes. The thread works meanwhile if
/// it `participates`.
pub(super) fn wait_all<'a>(
    timepoints: impl Iterator<Item = (&'a Semaphore, u64)> + Clone,
    deadline: Deadline,
    participates: bool,
) -> Result<()> {
    let mut former = None;
    let mut polls = 0;
    loop {
        let mut participant = None;
        let mut pending = false;
        for (semaphore, payload) in timepoints.clone() {
            if semaphore.query()? < payload {
                pending = true;
                participant = participant.or_else(|| semaphore.participant(payload));
            }
        }
        if !pending {
            return Ok(());
        }
        let participant = participant.filter(|_| participates);
        let address = participant.as_ref().map(|participant| Arc::as_ptr(participant).addr());
        match participant {
            // If this thread has just left the same task, it has no more work there.
            Some(participant) if address != former => {
                polls = if participant.participate() { POLLS_FOR_A_SIGNAL } else { 0 };
            }
            // The thread that finished the task is about to signal, which is faster than parking. Or it continues with
            // an operation that depends on the task, and this thread participates in that one next.
            _ if polls > 0 => {
                polls -= 1;
                let settled = poll(&timepoints);
                if !settled && polls < POLLS_FOR_A_SIGNAL / 2 {
                    thread::yield_now();
                }
                continue;
            }
            _ => return block(timepoints, None, deadline),
        }
        former = address;
    }
}

impl Semaphore {
    /// Blocks until the payload is reached.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED after the deadline; the failure of the semaphore.
    pub fn wait(&self, payload: u64, deadline: Deadline) -> Result<()> {
        wait_all([(self, payload)].into_iter(), deadline, deadline == Deadline::NEVER)
    }
}

/// Blocks until one of the timepoints is reached or fails, or the deadline passes.
pub(super) fn wait_any<'a>(
    timepoints: impl Iterator<Item = (&'a Semaphore, u64)> + Clone,
    deadline: Deadline,
) -> Result<()> {
    for (semaphore, payload) in timepoints.clone() {
        if semaphore.query()? >= payload {
            return Ok(());
        }
    }
    block(timepoints, Some(1), deadline)
}

/// Blocks until `needed` timepoints, or all, are reached.
#[cold]
fn block<'a>(
    timepoints: impl Iterator<Item = (&'a Semaphore, u64)> + Clone,
    needed: Option<usize>,
    deadline: Deadline,
) -> Result<()> {
    if deadline == Deadline::IMMEDIATE {
        return Err(deadline_exceeded());
    }
    let needed = needed.unwrap_or_else(|| timepoints.clone().count());
    let blocked = Arc::new(BlockedThread { countdown: Countdown::new(needed), thread: thread::current() });
    let waiter: Arc<dyn Waiter> = Arc::clone(&blocked) as Arc<dyn Waiter>;
    for (semaphore, payload) in timepoints.clone() {
        if let Poll::Ready(result) = semaphore.register(payload, &waiter) {
            blocked.countdown.count(result);
        }
    }
    let recorded = profile::now();
    let result = loop {
        if let Poll::Ready(result) = blocked.countdown.result() {
            break result;
        }
        if !HAS_THREADS {
            break Err(never_reached(deadline));
        }
        match deadline.0 {
            Limit::At(instant) => {
                let now = Instant::now();
                if now >= instant {
                    break Err(deadline_exceeded());
                }
                thread::park_timeout(instant - now);
            }
            Limit::Never | Limit::Immediate => thread::park(),
        }
    };
    if let Some(start) = recorded {
        profile::record(start, &Facts::plain(EventKind::Wait, "wait for a fence"));
    }
    // Semaphores that are not reached would keep the waiter.
    for (semaphore, _) in timepoints {
        semaphore.unregister(&waiter);
    }
    result
}

/// Other threads exist, which can reach a timepoint while this one is blocked. Where there are none, the standard library panics if a
/// thread parks.
const HAS_THREADS: bool = cfg!(any(not(target_family = "wasm"), target_feature = "atomics"));

/// The error of a wait on the only thread, which nothing can end before the deadline.
#[cold]
fn never_reached(deadline: Deadline) -> Error {
    match deadline.0 {
        Limit::Never => Error::failed_precondition(
            "the wait would never end: this target has no other thread that could reach the timepoints; signal them before",
        ),
        Limit::At(_) | Limit::Immediate => deadline_exceeded(),
    }
}

#[cold]
fn deadline_exceeded() -> Error {
    Error::deadline_exceeded("deadline passed before the timepoints were reached")
}
