//! Timeline semaphores.

#[cfg(all(test, loom))]
mod model;

use alloc::format;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::task::Poll;
use std::sync::PoisonError;

use crate::atomic::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::{Error, Result, ref_object};

/// The payload of a failed semaphore.
const FAILED: u64 = u64::MAX;

/// The greatest valid payload (`IREE_HAL_SEMAPHORE_MAX_VALUE`).
pub const MAXIMUM_PAYLOAD: u64 = 2_147_483_646;

/// Orders sequentially consistent accesses for loom, which treats them as acquire and release and models fences only.
fn loom_fence() {
    #[cfg(loom)]
    crate::atomic::fence(Ordering::SeqCst);
}

/// A callback for a semaphore that reaches a payload.
pub(crate) trait Waiter: Send + Sync {
    /// Called once for each registration, on the signalling thread, when the payload is reached or the semaphore fails.
    fn notify(self: Arc<Self>, result: Result<()>);
}

/// A task that a thread may execute while it waits for a semaphore.
pub trait WaitParticipant: Any + Send + Sync {
    /// Executes the task until it is done or has no work left for this thread. Returns true if the task is done, so
    /// that the signal is due.
    fn participate(self: Arc<Self>) -> bool;
}

/// A timeline semaphore (`!hal.semaphore`): a payload that only grows, which work waits for and advances.
///
/// Failure is sticky: once failed, every query and wait returns the first failure. Dropping a semaphore fails its
/// waiters, because no thread can signal it any more. Without waiters a signal is one atomic exchange.
pub struct Semaphore {
    payload: AtomicU64,
    /// Number of waiters and participants in `state`. A waiter increments it before it loads the payload, and a signal
    /// loads it after it has changed the payload, so that at least one of them sees the other.
    waiting: AtomicUsize,
    state: Mutex<State>,
}

ref_object!(Semaphore, "hal.semaphore");

#[derive(Default)]
struct State {
    /// A thread or an operation that waits owns its waiter, so operations that wait in a circle do not own each other.
    waiters: Vec<(u64, Weak<dyn Waiter>)>,
    /// The task that was last set.
    participant: Option<Participation>,
    failure: Option<Error>,
}

/// A task, and what it has to do with a semaphore.
struct Participation {
    /// The payload that the task will signal, or that waits for what the task signals.
    payload: u64,
    task: Arc<dyn WaitParticipant>,
    role: Role,
}

/// What a task has to do with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The task has started, and signals the payload when it is done.
    Signals,
    /// An operation that waits for the task signals the payload.
    Precedes,
}

impl State {
    fn waiting(&self) -> usize {
        self.waiters.len() + usize::from(self.participant.is_some())
    }
}

impl Semaphore {
    /// Creates a semaphore with the given payload.
    #[inline]
    #[must_use]
    pub fn new(payload: u64) -> Semaphore {
        Semaphore {
            payload: AtomicU64::new(payload.min(MAXIMUM_PAYLOAD)),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave a change under the lock incomplete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn failure(&self) -> Error {
        self.lock().failure.clone().unwrap_or_else(|| Error::internal("semaphore failed for an unknown reason"))
    }

    /// Returns the payload.
    ///
    /// # Errors
    /// The failure of the semaphore.
    #[inline]
    pub fn query(&self) -> Result<u64> {
        match self.payload.load(Ordering::Acquire) {
            FAILED => Err(self.failure()),
            payload => Ok(payload),
        }
    }

    /// Returns true if the payload is reached or the semaphore has failed.
    pub(super) fn is_settled(&self, payload: u64) -> bool {
        // `FAILED` is the greatest payload.
        self.payload.load(Ordering::Acquire) >= payload
    }

    /// Advances the payload and resumes its waiters: queued operations run on this thread.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the payload does not exceed the current one, or exceeds [`MAXIMUM_PAYLOAD`]; the failure of
    /// the semaphore.
    pub fn signal(&self, payload: u64) -> Result<()> {
        let mut present = self.payload.load(Ordering::Relaxed);
        loop {
            if present == FAILED {
                return Err(self.failure());
            }
            if payload <= present || payload > MAXIMUM_PAYLOAD {
                return Err(bad_payload(payload, present));
            }
            match self.payload.compare_exchange_weak(present, payload, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => present = other,
            }
        }
        loom_fence();
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.notify_reached(payload);
        }
        Ok(())
    }

    #[cold]
    fn notify_reached(&self, payload: u64) {
        let participant;
        let reached: Vec<Weak<dyn Waiter>> = {
            let mut state = self.lock();
            let reached = state.waiters.extract_if(.., |(target, _)| *target <= payload).map(|row| row.1).collect();
            participant = state.participant.take_if(|row| row.payload <= payload);
            self.waiting.store(state.waiting(), Ordering::SeqCst);
            reached
        };
        drop(participant);
        for waiter in reached.iter().filter_map(Weak::upgrade) {
            waiter.notify(Ok(()));
        }
    }

    /// Fails the semaphore and all its waiters. The first failure is kept.
    pub fn fail(&self, error: Error) {
        let (waiters, participant) = {
            let mut state = self.lock();
            if state.failure.is_some() {
                return;
            }
            state.failure = Some(error.clone());
            self.payload.store(FAILED, Ordering::SeqCst);
            self.waiting.store(0, Ordering::SeqCst);
            (core::mem::take(&mut state.waiters), state.participant.take())
        };
        drop(participant);
        for waiter in waiters.iter().filter_map(|(_, waiter)| waiter.upgrade()) {
            waiter.notify(Err(error.clone()));
        }
    }

    /// Registers a waiter unless the payload is reached or the semaphore has failed.
    pub(crate) fn register(&self, payload: u64, waiter: &Arc<dyn Waiter>) -> Poll<Result<()>> {
        let mut state = self.lock();
        self.waiting.store(state.waiting() + 1, Ordering::SeqCst);
        loom_fence();
        let present = self.payload.load(Ordering::SeqCst);
        if present != FAILED && present < payload {
            state.waiters.push((payload, Arc::downgrade(waiter)));
            return Poll::Pending;
        }
        self.waiting.store(state.waiting(), Ordering::SeqCst);
        match &state.failure {
            Some(failure) if present == FAILED => Poll::Ready(Err(failure.clone())),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Sets the task of a payload, which threads that wait for it may execute.
    pub(super) fn set_participant(&self, payload: u64, task: Arc<dyn WaitParticipant>, role: Role) {
        let former = {
            let mut state = self.lock();
            // Counted before the payload is loaded, as in `register`, so that a signal in between sees it.
            self.waiting.store(state.waiting() + 1, Ordering::SeqCst);
            loom_fence();
            // `FAILED` is the greatest payload.
            let is_reached = self.payload.load(Ordering::SeqCst) >= payload;
            let participation = Participation { payload, task, role };
            let former = if is_reached { None } else { state.participant.replace(participation) };
            self.waiting.store(state.waiting(), Ordering::SeqCst);
            former
        };
        drop(former);
    }

    /// Returns the task to execute while waiting for a payload, if the payload is not reached and a task is known.
    pub(super) fn participant(&self, payload: u64) -> Option<Arc<dyn WaitParticipant>> {
        if self.waiting.load(Ordering::Acquire) == 0 || self.payload.load(Ordering::Acquire) >= payload {
            return None;
        }
        self.lock().participant.as_ref().map(|row| Arc::clone(&row.task))
    }

    /// Returns the task that has started and signals a payload, or a later one, when it is done.
    pub(super) fn signaller(&self, payload: u64) -> Option<Arc<dyn WaitParticipant>> {
        let state = self.lock();
        let row = state.participant.as_ref()?;
        (row.role == Role::Signals && row.payload >= payload).then(|| Arc::clone(&row.task))
    }

    /// Removes a waiter that has stopped waiting.
    pub(super) fn unregister(&self, waiter: &Arc<dyn Waiter>) {
        let mut state = self.lock();
        state.waiters.retain(|(_, other)| !core::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(waiter)));
        self.waiting.store(state.waiting(), Ordering::SeqCst);
    }
}

impl Drop for Semaphore {
    #[inline]
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !state.waiters.is_empty() {
            abandon(core::mem::take(&mut state.waiters));
        }
    }
}

/// Fails the waiters of a dropped semaphore, which no thread can signal any more.
#[cold]
fn abandon(waiters: Vec<(u64, Weak<dyn Waiter>)>) {
    for (payload, waiter) in waiters {
        if let Some(waiter) = waiter.upgrade() {
            waiter.notify(Err(Error::aborted(format!("semaphore was dropped before anything signalled {payload}"))));
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.payload.load(Ordering::Acquire) {
            FAILED => f.write_str("Semaphore(failed)"),
            payload => write!(f, "Semaphore({payload})"),
        }
    }
}

#[cold]
fn bad_payload(payload: u64, present: u64) -> Error {
    Error::invalid_argument(if payload > MAXIMUM_PAYLOAD {
        format!("semaphore payload {payload} exceeds {MAXIMUM_PAYLOAD}")
    } else {
        format!("semaphore is at {present} already and cannot be signalled to {payload}")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Deadline, StatusCode};
    use std::time::Duration;

    #[test]
    fn payloads_only_grow() {
        let semaphore = Semaphore::new(0);
        semaphore.signal(3).unwrap();
        assert_eq!(semaphore.query().unwrap(), 3);
        assert_eq!(semaphore.signal(3).unwrap_err().code(), StatusCode::InvalidArgument);
        assert_eq!(semaphore.signal(1).unwrap_err().code(), StatusCode::InvalidArgument);
        assert_eq!(semaphore.signal(u64::MAX).unwrap_err().code(), StatusCode::InvalidArgument);
        semaphore.wait(2, Deadline::IMMEDIATE).unwrap();
    }

    #[test]
    fn the_first_failure_stays() {
        let semaphore = Semaphore::new(5);
        semaphore.fail(Error::data_loss("the first"));
        semaphore.fail(Error::internal("the second"));
        for error in [
            semaphore.query().unwrap_err(),
            semaphore.signal(6).unwrap_err(),
            semaphore.wait(1, Deadline::NEVER).unwrap_err(),
        ] {
            assert_eq!((error.code(), error.message()), (StatusCode::DataLoss, "the first"));
        }
    }

    #[test]
    fn waits_end_at_their_deadline_and_unregister() {
        let semaphore = Semaphore::new(0);
        for deadline in [Deadline::IMMEDIATE, Deadline::after(Duration::from_millis(5))] {
            assert_eq!(semaphore.wait(1, deadline).unwrap_err().code(), StatusCode::DeadlineExceeded);
        }
        assert!(semaphore.lock().waiters.is_empty());
        assert_eq!(semaphore.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn threads_meet_on_a_timeline() {
        const ROUNDS: u64 = 2000;
        let (ping, pong) = (Semaphore::new(0), Semaphore::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    ping.wait(round, Deadline::NEVER).unwrap();
                    pong.signal(round).unwrap();
                }
            });
            for round in 1..=ROUNDS {
                ping.signal(round).unwrap();
                pong.wait(round, Deadline::NEVER).unwrap();
            }
        });
        assert_eq!(pong.query().unwrap(), ROUNDS);
    }

    #[test]
    fn many_waiters_are_all_woken() {
        let semaphore = Semaphore::new(0);
        std::thread::scope(|scope| {
            for target in 1..=8 {
                let semaphore = &semaphore;
                scope.spawn(move || semaphore.wait(target, Deadline::NEVER).unwrap());
            }
            for payload in 1..=8 {
                std::thread::yield_now();
                semaphore.signal(payload).unwrap();
            }
        });
        let failing = Semaphore::new(0);
        std::thread::scope(|scope| {
            let waits: Vec<_> = (1..=4)
                .map(|target| {
                    scope.spawn({
                        let failing = &failing;
                        move || failing.wait(target, Deadline::NEVER)
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(5));
            failing.fail(Error::unavailable("gone"));
            for wait in waits {
                assert_eq!(wait.join().unwrap().unwrap_err().code(), StatusCode::Unavailable);
            }
        });
    }
}
