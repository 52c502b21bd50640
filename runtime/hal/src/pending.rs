//! Operations whose wait fence is not reached.
//!
//! A pending operation is owned by the [`PendingOperations`] of its session, and the thread that signals the last of the
//! semaphores that it waits for submits it. If one of them fails or is dropped, or the session ends, the operation fails its
//! signal fence. Chains of operations run iteratively: the depth of the stack does not grow with their length.
//!
//! [`Activity`] counts the operations that can still signal a fence, so that a wait that cannot end is recognised.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use core::cell::RefCell;
use core::fmt;
use core::task::Poll;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffer::Buffer;
use super::command_buffer::CommandBuffer;
use super::commands::BufferBinding;
use super::fence::Fence;
use super::queue::{Backend, CallLimits, Completion, Fences, Operation, Predecessors, Submitted};
use super::remote;
use super::semaphore::Waiter;
use super::wait::Countdown;
use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::vm::{Charge, Ledger, array};
use crate::{Error, Result};

/// The queue of a device: its backend, and the operations that are pending.
#[derive(Debug)]
pub struct Queue {
    backend: Arc<dyn Backend>,
    activity: Arc<Activity>,
    /// The operations of host programs.
    pending: Arc<PendingOperations>,
}

/// The pending operations of a session, which fail when it ends, in any order: those that wait for each other in a circle would never
/// run.
#[derive(Default)]
pub struct PendingOperations(Mutex<Pendings>);

#[derive(Default)]
struct Pendings {
    /// Those that are pending, at their positions.
    operations: Vec<Option<Arc<Pending>>>,
    /// The other positions.
    free: Vec<usize>,
}

impl PendingOperations {
    fn lock(&self) -> MutexGuard<'_, Pendings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation that becomes ready when `count` timepoints are reached.
    fn add(self: &Arc<PendingOperations>, count: usize, work: Work) -> Arc<Pending> {
        let mut pendings = self.lock();
        let position = pendings.free.pop().unwrap_or(pendings.operations.len());
        let (countdown, work) = (Countdown::new(count), Mutex::new(Some(work)));
        let pending = Arc::new(Pending { countdown, work, owner: Arc::downgrade(self), position });
        let operation = Some(Arc::clone(&pending));
        match pendings.operations.get_mut(position) {
            Some(slot) => *slot = operation,
            None => pendings.operations.push(operation),
        }
        pending
    }

    /// Removes an operation, and returns it if it is there.
    fn remove(&self, pending: &Pending) -> Option<Arc<Pending>> {
        let mut pendings = self.lock();
        let slot = pendings.operations.get_mut(pending.position)?;
        // Its own, as a countdown ends once; checked, because another one's would never run.
        let removed = slot.take_if(|other| core::ptr::eq(&raw const **other, pending))?;
        pendings.free.push(pending.position);
        if pendings.free.len() == pendings.operations.len() {
            // Most often there are no others. No memory stays for the most that there have been.
            *pendings = Pendings::default();
        }
        Some(removed)
    }
}

impl Drop for PendingOperations {
    fn drop(&mut self) {
        let pendings = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for pending in core::mem::take(&mut pendings.operations).into_iter().flatten() {
            pending.end(Err(Error::aborted("the session ended while the queue operation waited for a fence")));
        }
    }
}

impl fmt::Debug for PendingOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingOperations({})", self.lock().operations.iter().flatten().count())
    }
}

/// The pending operations of a queue that can still run.
#[derive(Debug, Default)]
struct Activity {
    /// Operations that wait for a fence of the host, and those whose fence is reached and which have not returned.
    active: AtomicUsize,
    /// Number of operations that were ever counted in `active`.
    started: AtomicU64,
}

/// An operation that is counted as active until it is dropped. An operation that becomes ready is counted before the one
/// that signals its fence ends to be.
#[derive(Debug)]
struct Active(Arc<Activity>);

impl Active {
    fn new(activity: &Arc<Activity>) -> Active {
        activity.active.fetch_add(1, Ordering::SeqCst);
        activity.started.fetch_add(1, Ordering::SeqCst);
        Active(Arc::clone(activity))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns true if a fence is reached or absent.
///
/// # Errors
/// The failure of the fence.
#[inline(always)]
pub fn is_reached(fence: Option<&Fence>) -> Result<bool> {
    match fence {
        Some(fence) => fence.query(),
        None => Ok(true),
    }
}

impl Queue {
    /// Creates the queue of a backend.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Queue {
        Queue { backend, activity: Arc::default(), pending: Arc::default() }
    }

    /// Returns the backend.
    #[inline]
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Runs an operation once the wait fence is reached and then signals the signal fence. Both fences are optional.
    ///
    /// # Errors
    /// The failure of the wait fence, or of the operation, if it is known on return; RESOURCE_EXHAUSTED if the ledger has no
    /// space for a pending operation.
    pub fn submit(&self, fences: Fences<'_>, operation: Operation) -> Result<()> {
        let Fences { wait, signal, limits, affinity } = fences;
        let mut completion = Completion::new(signal, limits, affinity);
        match is_reached(wait) {
            Ok(true) => run_on(&*self.backend, operation, completion),
            Ok(false) => match self.follow(wait, Submitted::Operation(&operation), limits, &mut completion) {
                Ok(true) => self.backend.run(operation, completion),
                Ok(false) => self.defer(wait, operation, completion, limits),
                Err(error) => completion.finish(Err(error)),
            },
            Err(error) => completion.finish(Err(error)),
        }
    }

    /// Submits an operation that is costly to create, if it must be pending: `source` is copied then.
    ///
    /// # Errors
    /// Those of [`Queue::submit`].
    #[cold]
    pub fn submit_update(&self, fences: Fences<'_>, source: &[u8], target: Arc<Buffer>, offset: u64) -> Result<()> {
        let bytes = fences.limits.ledger().charge(source.len() as u64);
        match bytes.and_then(|bytes| Ok((bytes, array::copy_of(source)?))) {
            Ok((bytes, source)) => {
                // The pending operation is charged for its copy.
                drop(bytes);
                self.submit(fences, Operation::Update { source: source.into(), target, offset })
            }
            Err(error) => fences.signal.finish(Err(error)),
        }
    }

    /// Submits the execution of a command buffer like [`Queue::submit`].
    ///
    /// # Errors
    /// Those of [`Queue::submit`].
    #[inline]
    pub fn submit_execution(
        &self,
        fences: Fences<'_>,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
    ) -> Result<()> {
        let Fences { wait, signal, limits, affinity } = fences;
        let mut completion = Completion::new(signal, limits, affinity);
        match is_reached(wait) {
            Ok(true) => remote::execute(&*self.backend, command_buffer, bindings, completion),
            Ok(false) => {
                let execution = Submitted::Execution(command_buffer, bindings);
                match self.follow(wait, execution, limits, &mut completion) {
                    Ok(true) => self.backend.execute(command_buffer, bindings, completion),
                    Ok(false) => {
                        // At most as many as one call passes.
                        let bindings: Box<[_]> = bindings.iter().map(BufferBinding::to_own).collect();
                        let operation = Operation::Execute { command_buffer: Arc::clone(command_buffer), bindings };
                        self.defer(wait, operation, completion, limits)
                    }
                    Err(error) => completion.finish(Err(error)),
                }
            }
            Err(error) => completion.finish(Err(error)),
        }
    }

    /// Sets what an operation follows, if the device itself can order it after all that it waits for.
    #[cold]
    fn follow(
        &self,
        wait: Option<&Fence>,
        operation: Submitted<'_>,
        limits: CallLimits<'_>,
        completion: &mut Completion<'_>,
    ) -> Result<bool> {
        let Some((wait, tasks)) = wait.and_then(|wait| Some((wait, wait.signallers()?))) else { return Ok(false) };
        if !self.backend.can_follow(&tasks, operation) {
            return Ok(false);
        }
        let extent = match operation {
            Submitted::Operation(operation) => operation.extent(),
            Submitted::Execution(_, bindings) => size_of_val(bindings) as u64,
        };
        let charge = charge(extent, wait, limits.ledger())?;
        completion.set_predecessors(Predecessors { tasks, charge });
        Ok(true)
    }

    #[cold]
    fn defer(
        &self,
        wait: Option<&Fence>,
        operation: Operation,
        mut completion: Completion<'_>,
        limits: CallLimits<'_>,
    ) -> Result<()> {
        if limits.ledger().is_limited()
            && let Operation::Execute { command_buffer, bindings } = &operation
            && command_buffer.commands().is_ok_and(|commands| remote::needed(commands, bindings).is_some())
        {
            completion.keep_ledger();
        }
        // Only a fence can be unreached.
        let Some(wait) = wait else { return completion.finish(Err(Error::internal("no fence is pending"))) };
        match charge(operation.extent(), wait, limits.ledger()) {
            Ok(charge) => {
                let owner = limits.pending.unwrap_or(&self.pending);
                self.defer_charged(wait, operation, completion.detach(), charge, owner);
            }
            Err(error) => return completion.finish(Err(error)),
        }
        Ok(())
    }

    fn defer_charged(
        &self,
        wait: &Fence,
        operation: Operation,
        completion: Completion<'static>,
        charge: Charge,
        owner: &Arc<PendingOperations>,
    ) {
        if let Some(participant) = wait.participant() {
            // A thread that waits for this operation participates in what the operation waits for.
            completion.set_preceding(&participant);
        }
        let active = (!wait.is_of_program()).then(|| Active::new(&self.activity));
        let activity = Arc::clone(&self.activity);
        let work =
            Work { backend: Arc::clone(&self.backend), operation, completion, activity, active, _charge: charge };
        let waiter: Arc<dyn Waiter> = owner.add(wait.timepoints().count(), work);
        for (semaphore, payload) in wait.timepoints() {
            if let Poll::Ready(result) = semaphore.register(payload, &waiter) {
                Arc::clone(&waiter).notify(result);
            }
        }
    }

    /// Returns true if no operation of any of the queues is running or waits for a fence of the host. Then only a call
    /// can signal what the others wait for.
    pub fn are_idle<'a>(queues: impl Iterator<Item = &'a Queue> + Clone) -> bool {
        let started =
            || queues.clone().map(|queue| queue.activity.started.load(Ordering::SeqCst)).fold(0, u64::wrapping_add);
        let is_idle = |queue: &Queue| queue.activity.active.load(Ordering::SeqCst) == 0 && queue.backend.is_idle();
        let before = started();
        // If an operation of one queue has started another one meanwhile, the queues were not idle at one time.
        queues.clone().all(is_idle) && started() == before
    }
}

/// The bytes of a pending operation for each timepoint that it waits for: an entry in an array that at most doubles.
const WAITER_BYTES: u64 = 2 * size_of::<(u64, Weak<dyn Waiter>)>() as u64;

fn charge(extent: u64, wait: &Fence, ledger: &Ledger) -> Result<Charge> {
    let waiters = (wait.timepoints().count() as u64).saturating_mul(WAITER_BYTES);
    ledger.charge(extent.saturating_add(waiters).saturating_add(size_of::<Pending>() as u64))
}

struct Pending {
    countdown: Countdown,
    work: Mutex<Option<Work>>,
    owner: Weak<PendingOperations>,
    /// Where `owner` has the operation.
    position: usize,
}

struct Work {
    backend: Arc<dyn Backend>,
    operation: Operation,
    completion: Completion<'static>,
    activity: Arc<Activity>,
    /// Set while the operation counts as active.
    active: Option<Active>,
    _charge: Charge,
}

impl Waiter for Pending {
    fn notify(self: Arc<Self>, result: Result<()>) {
        if self.countdown.count(result) {
            self.ready();
        }
    }
}

impl Pending {
    /// Runs the operation, which no longer is pending.
    fn ready(&self) {
        if let Some(owner) = self.owner.upgrade() {
            drop(owner.remove(self));
        }
        if let Poll::Ready(result) = self.countdown.result() {
            self.end(result);
        }
    }

    /// Runs the operation if its wait succeeded, else fails it; or queues it if a caller's frame on this thread is already running
    /// operations.
    fn end(&self, result: Result<()>) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut work) = work {
            work.active.get_or_insert_with(|| Active::new(&work.activity));
            enqueue(work, result);
        }
    }
}

type ReadyQueue = VecDeque<(Work, Result<()>)>;

thread_local! {
    /// Operations that became ready while this thread runs others; `None` while it runs none.
    static READY: RefCell<Option<ReadyQueue>> = const { RefCell::new(None) };
}

fn enqueue(work: Work, result: Result<()>) {
    let mut item = Some((work, result));
    let nested = READY.try_with(|ready| match &mut *ready.borrow_mut() {
        Some(queue) => {
            queue.extend(item.take());
            true
        }
        empty => {
            *empty = Some(VecDeque::new());
            false
        }
    });
    if nested == Ok(true) {
        return;
    }
    // The guard resets the queue even if a callee panics.
    let _guard = ReadyGuard;
    while let Some((work, result)) = item.take() {
        run(work, result);
        item = READY.try_with(|ready| ready.borrow_mut().as_mut().and_then(VecDeque::pop_front)).ok().flatten();
    }
}

struct ReadyGuard;

impl Drop for ReadyGuard {
    fn drop(&mut self) {
        let rest = READY.try_with(|ready| ready.borrow_mut().take());
        drop(rest);
    }
}

fn run(work: Work, result: Result<()>) {
    // Counts as active, and is charged, until its fence is signalled or the backend counts it.
    let Work { backend, operation, completion, active: _active, _charge, .. } = work;
    // The signal fence reports a failure; there is no caller to return it to.
    let _ = match result {
        Ok(()) => run_on(&*backend, operation, completion),
        Err(error) => completion.finish(Err(error)),
    };
}

fn run_on(backend: &dyn Backend, operation: Operation, completion: Completion<'_>) -> Result<()> {
    match &operation {
        Operation::Execute { command_buffer, bindings } => {
            remote::execute(backend, command_buffer, bindings, completion)
        }
        _ => backend.run(operation, completion),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    /// Does nothing but to signal.
    #[derive(Debug)]
    struct Signals;

    impl Backend for Signals {
        fn execute(&self, _: &Arc<CommandBuffer>, _: &[BufferBinding<'_>], completion: Completion<'_>) -> Result<()> {
            completion.finish(Ok(()))
        }

        fn concurrency(&self) -> usize {
            1
        }
    }

    /// The fence that an operation waits for, and the one that it signals.
    fn submitted(queue: &Queue) -> [Arc<Fence>; 2] {
        let [wait, signal] = [(); 2].map(|()| Arc::new(Fence::new()));
        let fences = Fences { wait: Some(&wait), signal: Arc::clone(&signal).into(), ..Fences::default() };
        queue.submit(fences, Operation::Barrier).unwrap();
        [wait, signal]
    }

    #[test]
    fn places_of_operations_that_are_done_are_those_of_others() {
        let queue = Queue::new(Arc::new(Signals));
        let places = || queue.pending.lock().operations.len();
        let first = submitted(&queue);
        for _ in 0..100 {
            let [wait, signal] = submitted(&queue);
            wait.signal().unwrap();
            assert!(signal.query().unwrap());
        }
        assert_eq!(places(), 2);
        let [second, third] = [submitted(&queue), submitted(&queue)];
        for [wait, signal] in [third, first] {
            assert!(!signal.query().unwrap());
            wait.signal().unwrap();
            assert!(signal.query().unwrap());
        }
        assert!(!second[1].query().unwrap() && places() == 3);
        second[0].signal().unwrap();
        assert!(second[1].query().unwrap() && places() == 0);
    }

    #[test]
    fn operations_fail_when_their_session_ends() {
        let queue = Queue::new(Arc::new(Signals));
        let all = [(); 5].map(|()| submitted(&queue));
        all[2][0].signal().unwrap();
        drop(queue);
        for (at, [wait, signal]) in all.iter().enumerate() {
            let status = signal.query().map_err(|error| error.code());
            if at == 2 {
                assert_eq!(status, Ok(true));
            } else {
                assert_eq!(status, Err(StatusCode::Aborted));
                // Nothing is left that would run.
                wait.signal().unwrap();
            }
        }
    }
}
