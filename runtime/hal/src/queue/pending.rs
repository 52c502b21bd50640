//! Operations whose wait fence is not reached.
//!
//! A pending operation is owned by the [`PendingOperations`] of its session, and the thread that signals the last of the
//! semaphores that it waits for submits it. If one of them fails or is dropped, or the session ends, the operation fails its
//! signal fence. Chains of operations run iteratively: the depth of the stack does not grow with their length.
//!
//! [`Activity`] counts the operations that can still signal a fence, so that a wait that cannot end is recognised.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use core::cell::RefCell;
use core::fmt;
use core::task::Poll;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::backend::Backend;
use super::completion::Completion;
use super::operation::Operation;
use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::commands::command_buffer::CommandBuffer;
use crate::commands::recorded::BufferBinding;
use crate::commands::staging::{self, Staged};
use crate::sync::fence::Fence;
use crate::sync::semaphore::Waiter;
use crate::sync::wait::Countdown;
use crate::vm::{Charge, Fuel, Ledger};
use crate::{Error, Result};

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
    pub(super) fn add(self: &Arc<PendingOperations>, count: usize, work: Work) -> Arc<Pending> {
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
pub(super) struct Activity {
    /// Operations that wait for a fence of the host, and those whose fence is reached and which have not returned.
    pub(super) active: AtomicUsize,
    /// Number of operations that were ever counted in `active`.
    pub(super) started: AtomicU64,
}

/// An operation that is counted as active until it is dropped. An operation that becomes ready is counted before the one
/// that signals its fence ends to be.
#[derive(Debug)]
pub(super) struct Active(Arc<Activity>);

impl Active {
    pub(super) fn new(activity: &Arc<Activity>) -> Active {
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

/// The bytes of a pending operation for each timepoint that it waits for: an entry in an array that at most doubles.
const WAITER_BYTES: u64 = 2 * size_of::<(u64, Weak<dyn Waiter>)>() as u64;

/// Charges a pending operation of `extent` bytes.
pub(super) fn charge(extent: u64, wait: &Fence, ledger: &Ledger) -> Result<Charge> {
    let waiters = (wait.timepoints().count() as u64).saturating_mul(WAITER_BYTES);
    ledger.charge(extent.saturating_add(waiters).saturating_add(size_of::<Pending>() as u64))
}

/// An operation that waits for timepoints.
pub(super) struct Pending {
    countdown: Countdown,
    work: Mutex<Option<Work>>,
    owner: Weak<PendingOperations>,
    /// Where `owner` has the operation.
    position: usize,
}

/// An operation, and what it runs with.
pub(super) struct Work {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) operation: Operation,
    pub(super) completion: Completion<'static>,
    pub(super) activity: Arc<Activity>,
    /// Set while the operation counts as active.
    pub(super) active: Option<Active>,
    pub(super) _charge: Charge,
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

/// Runs an operation whose wait fence is reached.
pub(super) fn run_on(backend: &dyn Backend, operation: Operation, completion: Completion<'_>) -> Result<()> {
    match &operation {
        Operation::Execute { command_buffer, bindings } => execute(backend, command_buffer, bindings, completion),
        _ => backend.run(operation, completion),
    }
}

/// Executes commands with copies of the memory that the host cannot access, if the backend runs them on the host.
///
/// # Errors
/// Those of [`Backend::execute`]; RESOURCE_EXHAUSTED without memory for the copies; the failure of the other device.
pub(super) fn execute(
    backend: &dyn Backend,
    command_buffer: &Arc<CommandBuffer>,
    table: &[BufferBinding<'_>],
    mut completion: Completion<'_>,
) -> Result<()> {
    let staged =
        command_buffer.commands().ok().and_then(|commands| Some((commands, staging::needed(commands, table)?)));
    let Some((commands, stage)) = staged.filter(|_| backend.executable_cache().is_none()) else {
        return backend.execute(command_buffer, table, completion);
    };
    let mut fuel = Fuel::of(completion.meter());
    match stage(commands, table, completion.ledger(), &mut fuel) {
        Ok(Staged { commands, table, write_back }) => {
            completion.set_write_back(write_back);
            let commands = Arc::new(CommandBuffer::of_commands(command_buffer.modes(), commands));
            backend.execute(&commands, &table, completion)
        }
        Err(error) => completion.finish(Err(error)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;
    use crate::queue::{Fences, Queue};

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
