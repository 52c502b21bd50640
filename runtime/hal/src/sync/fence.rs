//! Fences: sets of timepoints on semaphores.

use alloc::collections::BinaryHeap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::semaphore::{Role, Semaphore, WaitParticipant};
use super::wait::{self, Deadline};
use crate::bytecode::imports::BYTES_PER_STEP;
use crate::vm::{self, Charge, Ledger, array};
use crate::{Error, Result, ref_object};

/// A set of timepoints (`!hal.fence`), reached when all of them are. An empty one is reached from the start.
pub struct Fence {
    timepoints: Timepoints,
    /// A program created the fence, and those that it joins: only operations and calls of the program signal it.
    is_of_program: bool,
    #[expect(dead_code, reason = "returned when dropped")]
    charge: Charge,
}

ref_object!(Fence, "hal.fence", |fence| fence.timepoints().count() as u64 * BYTES_PER_STEP);

enum Timepoints {
    /// The first payload of a timeline that belongs to this fence: the common case, without another allocation.
    Own(Semaphore),
    Joined(Vec<Timepoint>),
}

/// Marks a timepoint that was merged into another one; no payload is as great.
const MERGED: u64 = u64::MAX;

/// The payload of a fence on its own timeline.
const OWN_PAYLOAD: u64 = 1;

#[derive(Clone)]
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
    /// The charge of a fence on its own timeline, in bytes.
    pub(super) const BYTES: u64 = size_of::<Fence>() as u64;

    /// Creates a fence of a host program on a timeline of its own, not reached.
    #[inline]
    #[must_use]
    pub fn new() -> Fence {
        Fence { timepoints: Timepoints::Own(Semaphore::new(0)), is_of_program: false, charge: Charge::none() }
    }

    /// Creates the fence that a call signals when its results are complete. The caller gives it to nobody but the call, so that
    /// only the program and the operations that it submits signal it.
    #[inline]
    #[must_use]
    pub fn of_results() -> Fence {
        Fence { is_of_program: true, ..Fence::new() }
    }

    /// Creates a fence for a program, which is charged to its ledger.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the ledger is used up.
    #[inline]
    pub fn of_program(ledger: &Ledger) -> Result<Arc<Fence>> {
        let charge = ledger.charge(Fence::BYTES)?;
        let timepoints = || Timepoints::Own(Semaphore::new(0));
        Ok(vm::arc_of(|| Fence { timepoints: timepoints(), is_of_program: true, charge }))
    }

    /// Returns true if only the program that has the fence, and the operations that it submits, signal it.
    #[inline]
    #[must_use]
    pub fn is_of_program(&self) -> bool {
        self.is_of_program
    }

    /// Creates a fence that is reached when each semaphore reaches its payload. Of several payloads of one semaphore
    /// the greatest counts.
    #[must_use]
    pub fn from_timepoints(timepoints: impl IntoIterator<Item = (Arc<Semaphore>, u64)>) -> Fence {
        let timepoints = timepoints.into_iter();
        let mut joined: Vec<_> = timepoints
            .map(|(semaphore, payload)| Timepoint { semaphore: Timeline::Shared(semaphore), payload })
            .collect();
        merge(&mut joined, Vec::new());
        Fence { timepoints: Timepoints::Joined(joined), is_of_program: false, charge: Charge::none() }
    }

    /// Creates a fence that is reached when all of `fences` are; `None` if they have no timepoints. It is charged to the ledger
    /// of the program that joins them, [`Ledger::HOST`] for a host program.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the ledger is used up.
    pub fn join<'a>(
        fences: impl Iterator<Item = &'a Arc<Fence>> + Clone,
        ledger: &Ledger,
    ) -> Result<Option<Arc<Fence>>> {
        let count: usize = fences.clone().map(|fence| fence.timepoints().count()).sum();
        if count == 0 {
            return Ok(None);
        }
        let charge = ledger.charge(Fence::BYTES + (count as u64).saturating_mul(size_of::<Timepoint>() as u64))?;
        let mut joined = array::with_capacity(count)?;
        let mut is_of_program = true;
        for fence in fences {
            is_of_program &= fence.is_of_program;
            match &fence.timepoints {
                Timepoints::Own(_) => {
                    joined.push(Timepoint { semaphore: Timeline::OfFence(Arc::clone(fence)), payload: OWN_PAYLOAD });
                }
                Timepoints::Joined(timepoints) => joined.extend(timepoints.iter().cloned()),
            }
        }
        let order_bytes = (count as u64).saturating_mul(size_of::<(Option<*const Semaphore>, usize)>() as u64);
        let _charge = ledger.charge(order_bytes)?;
        merge(&mut joined, array::with_capacity(count)?);
        Ok(Some(Arc::new(Fence { timepoints: Timepoints::Joined(joined), is_of_program, charge })))
    }

    /// Joins those fences that are not reached, or have failed; `None` if all are reached.
    ///
    /// # Errors
    /// Those of [`Fence::join`].
    pub fn join_unreached<'a>(
        fences: impl Iterator<Item = &'a Arc<Fence>> + Clone,
        ledger: &Ledger,
    ) -> Result<Option<Arc<Fence>>> {
        let mut left = fences.clone().filter(|fence| !matches!(fence.query(), Ok(true)));
        let Some(first) = left.next() else { return Ok(None) };
        if left.next().is_none() {
            return Ok(Some(Arc::clone(first)));
        }
        // A fence that is reached meanwhile only adds timepoints that are reached.
        Fence::join(fences.filter(|fence| !matches!(fence.query(), Ok(true))), ledger)
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

    /// Sets the task of the fence, which threads that wait for it may execute.
    pub(crate) fn set_participant(&self, task: &Arc<dyn WaitParticipant>, role: Role) {
        for (semaphore, payload) in self.timepoints() {
            semaphore.set_participant(payload, Arc::clone(task), role);
        }
    }

    /// Returns the tasks that have started and signal the timepoints that are not reached; `None` if one has no such task.
    pub(crate) fn signallers(&self) -> Option<Vec<Arc<dyn WaitParticipant>>> {
        let mut tasks = Vec::new();
        for (semaphore, payload) in self.timepoints() {
            if semaphore.query().ok()? >= payload {
                continue;
            }
            match semaphore.signaller(payload) {
                Some(task) => tasks.push(task),
                // It may have been signalled meanwhile.
                None if semaphore.query().ok()? >= payload => {}
                None => return None,
            }
        }
        Some(tasks)
    }

    /// Returns the task of a timepoint, if one is not reached and has one.
    pub(crate) fn participant(&self) -> Option<Arc<dyn WaitParticipant>> {
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

    /// Blocks until the fence is signalled, or until this is its last reference.
    ///
    /// # Errors
    /// Those of [`Fence::check_abandoned`]; the failure of the fence.
    pub fn wait_unless_abandoned(self: &Arc<Fence>) -> Result<()> {
        self.check_abandoned()?;
        self.wait(Deadline::NEVER)
    }

    /// Returns an error if this is the last reference to a fence that is not signalled: then no other thread can signal it.
    ///
    /// # Errors
    /// ABORTED if the fence was dropped without a signal; the failure of the fence.
    pub fn check_abandoned(self: &Arc<Fence>) -> Result<()> {
        let abandoned = matches!(self.timepoints, Timepoints::Own(_)) && Arc::strong_count(self) == 1;
        // Synchronizes with the release of the other references, so that a signal before it is visible.
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        if abandoned && !self.query()? {
            return Err(Error::aborted("fence was dropped without being signalled"));
        }
        Ok(())
    }

    /// Blocks until the fence is reached.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED after the deadline; the failure of a semaphore.
    pub fn wait(&self, deadline: Deadline) -> Result<()> {
        // A participating thread may return after its deadline.
        wait::wait_all(self.timepoints(), deadline, deadline == Deadline::NEVER)
    }

    /// Blocks like [`Fence::wait`], and participates in the work that will signal the fence even if there is a deadline: for
    /// callers that check their own time within that work.
    ///
    /// # Errors
    /// Those of [`Fence::wait`].
    pub fn wait_and_participate(&self, deadline: Deadline) -> Result<()> {
        wait::wait_all(self.timepoints(), deadline, true)
    }

    /// Blocks until all of the fences are reached.
    ///
    /// # Errors
    /// Those of [`Fence::wait`].
    pub fn wait_all<'a>(fences: impl Iterator<Item = &'a Fence> + Clone, deadline: Deadline) -> Result<()> {
        wait::wait_all(fences.flat_map(Fence::timepoints), deadline, deadline == Deadline::NEVER)
    }

    /// Blocks until a timepoint of one of the fences is reached.
    ///
    /// # Errors
    /// Those of [`Fence::wait`].
    pub fn wait_any<'a>(fences: impl Iterator<Item = &'a Fence> + Clone, deadline: Deadline) -> Result<()> {
        wait::wait_any(fences.flat_map(Fence::timepoints), deadline)
    }
}

/// The address of each timepoint's semaphore, and the timepoint's index.
type MergeOrder = Vec<(Option<*const Semaphore>, usize)>;

/// Merges the timepoints of each semaphore into its first one, with the greatest payload. `order` has the capacity for all of them.
fn merge(timepoints: &mut Vec<Timepoint>, mut order: MergeOrder) {
    let address = |timepoint: &Timepoint| timepoint.semaphore.semaphore().map(core::ptr::from_ref);
    order.extend(timepoints.iter().map(address).zip(0usize..));
    // Sorted by a heap: a tenth of the code of `sort_unstable`, which small programs use nowhere else.
    let order = BinaryHeap::from(order).into_sorted_vec();
    for run in order.chunk_by(|(address, _), (other, _)| address == other).filter(|run| run.len() > 1) {
        let payload = |(_, index): &(_, usize)| timepoints.get(*index).map(|timepoint| timepoint.payload);
        let greatest = run.iter().filter_map(payload).max();
        for (position, (_, index)) in run.iter().enumerate() {
            if let Some(timepoint) = timepoints.get_mut(*index) {
                timepoint.payload = greatest.filter(|_| position == 0).unwrap_or(MERGED);
            }
        }
    }
    timepoints.retain(|timepoint| timepoint.payload != MERGED);
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

    fn join(fences: &[&Arc<Fence>]) -> Option<Arc<Fence>> {
        Fence::join(fences.iter().copied(), Ledger::HOST).unwrap()
    }

    fn join_unreached(fences: &[&Arc<Fence>]) -> Option<Arc<Fence>> {
        Fence::join_unreached(fences.iter().copied(), Ledger::HOST).unwrap()
    }

    #[test]
    fn joins_are_charged_and_belong_to_the_program_if_all_fences_do() {
        let ledger = Ledger::new(1 << 20, 100);
        let own: Vec<_> = (0..50).map(|_| Fence::of_program(&ledger).unwrap()).collect();
        let held = ledger.bytes();
        let all = Fence::join(own.iter(), &ledger).unwrap().unwrap();
        assert!(ledger.bytes() >= held + 50 * size_of::<Timepoint>() as u64 && ledger.objects() == 51);
        // Joins of joins have each timepoint once.
        let twice = Fence::join([&all, &own[3], &all].into_iter(), &ledger).unwrap().unwrap();
        assert!(twice.timepoints().count() == 50 && twice.is_of_program());
        let host = Arc::new(Fence::new());
        let mixed = Fence::join([&all, &host].into_iter(), &ledger).unwrap().unwrap();
        assert!(!mixed.is_of_program() && !host.is_of_program());
        assert!(Fence::join(core::iter::repeat_n(&all, 1000), &ledger).is_err());
        drop((own, all, twice, mixed));
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
    }

    #[test]
    fn reached_fences_are_not_joined() {
        let [reached, open, failed, other] = [(); 4].map(|()| Arc::new(Fence::new()));
        reached.signal().unwrap();
        failed.fail(&Error::unavailable("gone"));
        assert!(join_unreached(&[&reached, &reached]).is_none());
        assert!(join_unreached(&[]).is_none());
        let only = join_unreached(&[&reached, &open]).unwrap();
        assert!(Arc::ptr_eq(&only, &open));
        let both = join_unreached(&[&open, &reached, &other]).unwrap();
        assert_eq!(both.timepoints().count(), 2);
        other.signal().unwrap();
        assert!(!both.query().unwrap());
        open.signal().unwrap();
        assert!(both.query().unwrap());
        let error = join_unreached(&[&reached, &failed]).unwrap().query().unwrap_err();
        assert_eq!(error.code(), StatusCode::Unavailable);
    }

    #[test]
    fn a_joined_fence_is_reached_with_its_last_timepoint() {
        let (a, b) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        let inner = join(&[&a, &b, &a]).unwrap();
        let semaphore = Arc::new(Semaphore::new(0));
        let other = Arc::new(Fence::from_timepoints([(Arc::clone(&semaphore), 2), (Arc::clone(&semaphore), 5)]));
        let joined = join(&[&inner, &other, &a]).unwrap();
        assert_eq!(joined.timepoints().count(), 3);
        a.signal().unwrap();
        b.signal().unwrap();
        semaphore.signal(4).unwrap();
        assert!(!joined.query().unwrap());
        assert_eq!(joined.wait(Deadline::IMMEDIATE).unwrap_err().code(), StatusCode::DeadlineExceeded);
        semaphore.signal(5).unwrap();
        assert!(joined.query().unwrap());
        joined.wait(Deadline::NEVER).unwrap();
        assert!(join(&[]).is_none());
    }

    #[test]
    fn a_failure_ends_a_wait_for_all_at_once() {
        let (never, failing) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        let joined = join(&[&never, &failing]).unwrap();
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
