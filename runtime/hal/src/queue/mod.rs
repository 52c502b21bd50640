//! Queues: operations that run when their wait fence is reached, and then signal.
//!
//! An operation whose wait fence is reached goes to the device's [`Backend`] at once, on the submitting thread. Others are
//! [pending]. Nothing here blocks, so a single-threaded program can submit first and signal later.

pub(crate) mod arguments;
pub(crate) mod backend;
pub(crate) mod completion;
pub(crate) mod file;
pub(crate) mod operation;
pub(crate) mod pending;
pub(crate) mod transfers;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::task::Poll;

use self::backend::{Backend, Submitted};
use self::completion::{Completion, Predecessors, QueueAffinity, SignalFence};
use self::operation::Operation;
use self::pending::{Active, Activity, PendingOperations, Work, charge, execute, run_on};
use crate::atomic::Ordering;
use crate::commands::command_buffer::CommandBuffer;
use crate::commands::recorded::BufferBinding;
use crate::commands::staging;
use crate::memory::buffer::Buffer;
use crate::sync::fence::Fence;
use crate::sync::semaphore::Waiter;
use crate::vm::{Charge, Ledger, Meter, array};
use crate::{Error, Result};

/// What the call that submits an operation may use up. The default is that of a host program: no limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallLimits<'a> {
    /// The ledger of what the call creates.
    pub ledger: Option<&'a Ledger>,
    /// The steps and the time of the call, which its operations share, also those that run after it.
    pub meter: Option<&'a Arc<Meter>>,
    /// The pending operations of the session; `None` for those of the device's queue.
    pub pending: Option<&'a Arc<PendingOperations>>,
}

impl<'a> CallLimits<'a> {
    /// Returns the ledger of the call, or that of host programs.
    #[must_use]
    pub fn ledger(&self) -> &'a Ledger {
        self.ledger.unwrap_or(Ledger::HOST)
    }
}

/// The fences of a queue operation, and the limits of the call that submits it.
#[derive(Debug, Default)]
pub struct Fences<'a> {
    /// The fence to wait for.
    pub wait: Option<&'a Fence>,
    /// The fence to signal.
    pub signal: SignalFence<'a>,
    /// The limits of the call.
    pub limits: CallLimits<'a>,
    /// The queues that the operation may run on.
    pub affinity: QueueAffinity,
}

/// The queue of a device: its backend, and the operations that are pending.
#[derive(Debug)]
pub struct Queue {
    backend: Arc<dyn Backend>,
    activity: Arc<Activity>,
    /// The operations of host programs.
    pending: Arc<PendingOperations>,
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
        let mut completion = Completion::new(signal, limits.ledger(), limits.meter, affinity);
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
        let mut completion = Completion::new(signal, limits.ledger(), limits.meter, affinity);
        match is_reached(wait) {
            Ok(true) => execute(&*self.backend, command_buffer, bindings, completion),
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
            && command_buffer.commands().is_ok_and(|commands| staging::needed(commands, bindings).is_some())
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
