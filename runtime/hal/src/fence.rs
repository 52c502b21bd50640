//! Fences: sets of timepoints on semaphores.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::semaphore::{Semaphore, WaitParticipant};
use super::wait::{self, Deadline};
use crate::bytecode::imports::BYTES_PER_STEP;
use crate::{Error, Result, ref_object};

/// A set of timepoints (`!hal.fence`), reached when all of them are. An empty one is reached from the start.
pub struct Fence {
    timepoints: Timepoints,
}

ref_object!(Fence, "hal.fence", |fence| fence.timepoints().count() as u64 * BYTES_PER_STEP);

enum Timepoints {
    /// The first payload of a timeline that belongs to this fence: the common case, without another allocation.
    Own(Semaphore),
    Joined(Vec<Timepoint>),
}

/// The payload of a fence on its own timeline.
const OWN_PAYLOAD: u64 = 1;

struct Timepoint {
    semaphore: Timeline,
    payload: u64,
}

#[derive(Clone)]
enum Timeline {
    Shared(Arc<Semaphore>),
    /// The semaphore of a [`Timepoints::Own`] fence.
    OfFence(Arc<Fence>),
}

impl Timeline {
    fn semaphore(&self) -> Option<&Semaphore> {
        match self {
            Timeline::Shared(semaphore) => Some(semaphore),
            Timeline::OfFence(fence) => match &fence.timepoints {
                Timepoints::Own(semaphore) => Some(semaphore),
                Timepoints::Joined(_) => None,
            },
        }
    }
}

impl Default for Fence {
    fn default() -> Fence {
        Fence::new()
    }
}

impl Fence {
    /// Creates a fence on a timeline of its own, not reached.
    #[inline]
    #[must_use]
    pub fn new() -> Fence {
        Fence { timepoints: Timepoints::Own(Semaphore::new(0)) }
    }

    /// Creates a fence that is reached when each semaphore reaches its payload. Of several payloads of one semaphore
    /// the greatest counts.
    #[must_use]
    pub fn from_timepoints(timepoints: impl IntoIterator<Item = (Arc<Semaphore>, u64)>) -> Fence {
        let mut joined = Vec::new();
        for (semaphore, payload) in timepoints {
            insert(&mut joined, Timeline::Shared(semaphore), payload);
        }
        Fence { timepoints: Timepoints::Joined(joined) }
    }

    /// Creates a fence that is reached when all of `fences` are; `None` if they have no timepoints.
    #[must_use]
    pub fn join<'a>(fences: impl IntoIterator<Item = &'a Arc<Fence>>) -> Option<Fence> {
        let mut joined = Vec::new();
        for fence in fences {
            match &fence.timepoints {
                Timepoints::Own(_) => insert(&mut joined, Timeline::OfFence(Arc::clone(fence)), OWN_PAYLOAD),
                Timepoints::Joined(timepoints) => {
                    for timepoint in timepoints {
                        insert(&mut joined, timepoint.semaphore.clone(), timepoint.payload);
                    }
                }
            }
        }
        (!joined.is_empty()).then_some(Fence { timepoints: Timepoints::Joined(joined) })
    }

    /// Joins those fences that are not reached, or have failed; `None` if all are reached.
    #[must_use]
    pub fn join_unreached<'a>(fences: impl Iterator<Item = &'a Arc<Fence>> + Clone) -> Option<Arc<Fence>> {
        let mut left = fences.filter(|fence| !matches!(fence.query(), Ok(true)));
        let first = left.next()?;
        match left.next() {
            None => Some(Arc::clone(first)),
            Some(second) => Fence::join([first, second].into_iter().chain(left)).map(Arc::new),
        }
    }

    /// Returns the semaphores and the payloads that they must reach.
    #[inline]
    pub fn timepoints(&self) -> impl Iterator<Item = (&Semaphore, u64)> + Clone {
        let (own, joined) = match &self.timepoints {
            Timepoints::Own(semaphore) => (Some((semaphore, OWN_PAYLOAD)), &[][..]),
            Timepoints::Joined(timepoints) => (None, &timepoints[..]),
        };
        own.into_iter().chain(joined.iter().filter_map(|row| Some((row.semaphore.semaphore()?, row.payload))))
    }

    /// Returns true if the fence is reached.
    ///
    /// # Errors
    /// The failure of a semaphore.
    #[inline]
    pub fn query(&self) -> Result<bool> {
        if let Timepoints::Own(semaphore) = &self.timepoints {
            return Ok(semaphore.query()? >= OWN_PAYLOAD);
        }
        let mut reached = true;
        for (semaphore, payload) in self.timepoints() {
            reached &= semaphore.query()? >= payload;
        }
        Ok(reached)
    }

    /// Sets the task that will signal the fence, which threads that wait for it may execute.
    pub(super) fn set_participant(&self, participant: Arc<dyn WaitParticipant>) {
        for (semaphore, payload) in self.timepoints() {
            semaphore.set_participant(payload, Arc::clone(&participant));
        }
    }

    /// Returns the task that will signal a timepoint, if one is not reached and its task is known.
    pub(super) fn participant(&self) -> Option<Arc<dyn WaitParticipant>> {
        self.timepoints().find_map(|(semaphore, payload)| semaphore.participant(payload))
    }

    /// Signals every timepoint.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if one is reached already; the failure of a semaphore.
    pub fn signal(&self) -> Result<()> {
        self.timepoints().try_for_each(|(semaphore, payload)| semaphore.signal(payload))
    }

    /// Fails every semaphore.
    pub fn fail(&self, error: &Error) {
        for (semaphore, _) in self.timepoints() {
            semaphore.fail(error.clone());
        }
    }

    /// Blocks until the fence is signalled, or until this is its last reference, after which no other thread can signal
    /// it.
    ///
    /// # Errors
    /// ABORTED if the fence was dropped without a signal; the failure of the fence.
    pub fn wait_unless_abandoned(self: &Arc<Fence>) -> Result<()> {
        let abandoned = matches!(self.timepoints, Timepoints::Own(_)) && Arc::strong_count(self) == 1;
        // Synchronizes with the release of the other references, so that a signal before it is visible.
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        if abandoned && !self.query()? {
            return Err(Error::aborted("fence was dropped without being signalled"));
        }
        self.wait(Deadline::NEVER)
    }

    /// Blocks until the fence is reached.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED after the deadline; the failure of a semaphore.
    pub fn wait(&self, deadline: Deadline) -> Result<()> {
        wait::wait_all(self.timepoints(), deadline)
    }

    /// Blocks until all of the fences are reached.
    ///
    /// # Errors
    /// Those of [`Fence::wait`].
    pub fn wait_all<'a>(fences: impl Iterator<Item = &'a Fence> + Clone, deadline: Deadline) -> Result<()> {
        wait::wait_all(fences.flat_map(Fence::timepoints), deadline)
    }

    /// Blocks until a timepoint of one of the fences is reached.
    ///
    /// # Errors
    /// Those of [`Fence::wait`].
    pub fn wait_any<'a>(fences: impl Iterator<Item = &'a Fence> + Clone, deadline: Deadline) -> Result<()> {
        wait::wait_any(fences.flat_map(Fence::timepoints), deadline)
    }
}

fn insert(timepoints: &mut Vec<Timepoint>, semaphore: Timeline, payload: u64) {
    let same = |row: &&mut Timepoint| match (row.semaphore.semaphore(), semaphore.semaphore()) {
        (Some(a), Some(b)) => core::ptr::eq(a, b),
        _ => false,
    };
    match timepoints.iter_mut().find(same) {
        Some(row) => row.payload = row.payload.max(payload),
        None => timepoints.push(Timepoint { semaphore, payload }),
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fence")?;
        f.debug_list().entries(self.timepoints()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::StatusCode;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use core::task::{Context, Poll, Waker};
    use std::time::Duration;

    #[test]
    fn reached_fences_are_not_joined() {
        let [reached, open, failed, other] = [(); 4].map(|()| Arc::new(Fence::new()));
        reached.signal().unwrap();
        failed.fail(&Error::unavailable("gone"));
        assert!(Fence::join_unreached([&reached, &reached].into_iter()).is_none());
        assert!(Fence::join_unreached(core::iter::empty()).is_none());
        let only = Fence::join_unreached([&reached, &open].into_iter()).unwrap();
        assert!(Arc::ptr_eq(&only, &open));
        let both = Fence::join_unreached([&open, &reached, &other].into_iter()).unwrap();
        assert_eq!(both.timepoints().count(), 2);
        other.signal().unwrap();
        assert!(!both.query().unwrap());
        open.signal().unwrap();
        assert!(both.query().unwrap());
        let error = Fence::join_unreached([&reached, &failed].into_iter()).unwrap().query().unwrap_err();
        assert_eq!(error.code(), StatusCode::Unavailable);
    }

    #[test]
    fn a_joined_fence_is_reached_with_its_last_timepoint() {
        let (a, b) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        let inner = Arc::new(Fence::join([&a, &b, &a]).unwrap());
        let semaphore = Arc::new(Semaphore::new(0));
        let other = Arc::new(Fence::from_timepoints([(Arc::clone(&semaphore), 2), (Arc::clone(&semaphore), 5)]));
        let joined = Fence::join([&inner, &other, &a]).unwrap();
        assert_eq!(joined.timepoints().count(), 3);
        a.signal().unwrap();
        b.signal().unwrap();
        semaphore.signal(4).unwrap();
        assert!(!joined.query().unwrap());
        assert_eq!(joined.wait(Deadline::IMMEDIATE).unwrap_err().code(), StatusCode::DeadlineExceeded);
        semaphore.signal(5).unwrap();
        assert!(joined.query().unwrap());
        joined.wait(Deadline::NEVER).unwrap();
        assert!(Fence::join(&[]).is_none());
    }

    #[test]
    fn a_failure_ends_a_wait_for_all_at_once() {
        let (never, failing) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        let joined = Fence::join([&never, &failing]).unwrap();
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| joined.wait(Deadline::NEVER));
            std::thread::sleep(Duration::from_millis(5));
            failing.fail(&Error::data_loss("lost"));
            assert_eq!(wait.join().unwrap().unwrap_err().message(), "lost");
        });
        assert_eq!(joined.query().unwrap_err().code(), StatusCode::DataLoss);
        assert!(!never.query().unwrap());
    }

    #[test]
    fn waiting_for_any_ends_with_the_first() {
        let fences = [Fence::new(), Fence::new()];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                fences[1].signal().unwrap();
            });
            Fence::wait_any(fences.iter(), Deadline::NEVER).unwrap();
        });
        let timeout = Deadline::after(Duration::from_millis(5));
        assert!(Fence::wait_all(fences.iter(), timeout).is_err());
        fences[0].signal().unwrap();
        Fence::wait_all(fences.iter(), Deadline::NEVER).unwrap();
    }

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl std::task::Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_fence_is_a_future() {
        let fence = Arc::new(Fence::new());
        let counter = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        let mut future = core::pin::pin!(fence.reached());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(counter.0.load(Ordering::SeqCst), 0);
        fence.signal().unwrap();
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
        let mut ready = core::pin::pin!(fence.reached());
        assert!(matches!(ready.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    }
}
