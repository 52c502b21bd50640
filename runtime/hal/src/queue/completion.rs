//! How operations end: the fences that they signal.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::sync::OnceLock;

use crate::commands::staging::WriteBack;
use crate::sync::fence::Fence;
use crate::sync::semaphore::{Role, WaitParticipant};
use crate::vm::{Charge, Ledger, Meter};
use crate::{Error, Result};

/// The queues of a device that an operation may run on, by bit (`iree_hal_queue_affinity_t`). Bits of queues that the device lacks
/// are ignored; if none is left, every queue is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueAffinity(pub u64);

impl QueueAffinity {
    /// Any queue.
    pub const ANY: QueueAffinity = QueueAffinity(u64::MAX);

    /// Returns true if an operation may run on a queue of a device that has `count` of them.
    #[must_use]
    pub fn allows(self, queue: usize, count: usize) -> bool {
        let existing = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        let mask = if self.0 & existing == 0 { existing } else { self.0 & existing };
        queue < 64 && mask >> queue & 1 != 0
    }
}

impl Default for QueueAffinity {
    fn default() -> QueueAffinity {
        QueueAffinity::ANY
    }
}

/// The fence that an operation signals when it is done.
#[derive(Debug, Default)]
pub enum SignalFence<'a> {
    /// No fence.
    #[default]
    None,
    /// An existing fence.
    Given(Arc<Fence>),
    /// A deferred fence: it is created and stored here only if the operation is not done when the submitting call
    /// returns.
    Later(&'a mut Option<Arc<Fence>>),
}

impl SignalFence<'_> {
    /// Signals, or fails, the fence of a finished operation and returns the result.
    ///
    /// # Errors
    /// The failure of the operation; that of the fence.
    #[inline(always)]
    pub fn finish(self, result: Result<()>) -> Result<()> {
        match self {
            SignalFence::Given(fence) => tell(&fence, result),
            SignalFence::None | SignalFence::Later(_) => result,
        }
    }
}

fn tell(fence: &Fence, result: Result<()>) -> Result<()> {
    match result {
        Ok(()) => fence.signal(),
        Err(error) => {
            fence.fail(&error);
            Err(error)
        }
    }
}

impl From<Arc<Fence>> for SignalFence<'_> {
    fn from(fence: Arc<Fence>) -> Self {
        SignalFence::Given(fence)
    }
}

impl From<Option<Arc<Fence>>> for SignalFence<'_> {
    #[inline]
    fn from(fence: Option<Arc<Fence>>) -> Self {
        fence.map_or(SignalFence::None, SignalFence::Given)
    }
}

/// The obligation to signal an operation's fence, and the meter of the call that submitted the operation. Dropping it
/// unfinished fails the fence.
pub struct Completion<'a> {
    signal: SignalFence<'a>,
    ledger: &'a Ledger,
    meter: Option<Cow<'a, Arc<Meter>>>,
    affinity: QueueAffinity,
    /// What few operations have.
    between_devices: Option<Box<BetweenDevices>>,
}

/// What an operation has to do with memory and tasks of devices that are not the host.
#[derive(Default)]
struct BetweenDevices {
    predecessors: Predecessors,
    /// That of the program, for copies that a deferred execution makes.
    ledger: Option<Ledger>,
    write_back: Option<WriteBack>,
}

/// What an operation follows on its device, and the charge of an operation that is submitted before its wait fence is reached.
#[derive(Default)]
pub(super) struct Predecessors {
    pub(super) tasks: Vec<Arc<dyn WaitParticipant>>,
    #[expect(dead_code, reason = "returned when dropped")]
    pub(super) charge: Charge,
}

#[cold]
fn finish_between(devices: BetweenDevices, result: Result<()>) -> Result<()> {
    match devices.write_back {
        Some(write_back) => result.and_then(|()| write_back()),
        None => result,
    }
}

impl fmt::Debug for Completion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl<'a> Completion<'a> {
    /// Creates the completion of an operation that signals `signal`, within the limits of a call.
    #[inline]
    #[must_use]
    pub fn new(
        signal: SignalFence<'a>,
        ledger: &'a Ledger,
        meter: Option<&'a Arc<Meter>>,
        affinity: QueueAffinity,
    ) -> Completion<'a> {
        Completion { signal, ledger, meter: meter.map(Cow::Borrowed), affinity, between_devices: None }
    }

    /// Returns the queues that the operation may run on.
    #[must_use]
    pub fn affinity(&self) -> QueueAffinity {
        self.affinity
    }

    /// Returns the tasks that the operation must follow, for which [`Backend::can_follow`](crate::backend::Backend::can_follow) returned true; none for an operation
    /// whose wait fence was reached.
    #[must_use]
    pub fn predecessors(&self) -> &[Arc<dyn WaitParticipant>] {
        self.between_devices.as_ref().map_or(&[], |devices| &devices.predecessors.tasks)
    }

    pub(super) fn set_predecessors(&mut self, predecessors: Predecessors) {
        self.between_devices.get_or_insert_default().predecessors = predecessors;
    }

    pub(super) fn ledger(&self) -> &Ledger {
        let kept = self.between_devices.as_ref().and_then(|devices| devices.ledger.as_ref());
        kept.unwrap_or(self.ledger)
    }

    /// Keeps the ledger of the call beyond its end.
    pub(super) fn keep_ledger(&mut self) {
        self.between_devices.get_or_insert_default().ledger = Some(self.ledger.clone());
    }

    /// Writes copies back before the fence of an operation that succeeded is signalled.
    pub(super) fn set_write_back(&mut self, write_back: WriteBack) {
        self.between_devices.get_or_insert_default().write_back = Some(write_back);
    }

    /// Returns an error if the signal fence has failed.
    ///
    /// # Errors
    /// The failure of the fence.
    pub fn check(&self) -> Result<()> {
        match &self.signal {
            SignalFence::Given(fence) => fence.query().map(drop),
            SignalFence::None | SignalFence::Later(_) => Ok(()),
        }
    }

    /// Returns the meter of the submitting call, which an operation is charged to before it runs; `None` without limits.
    #[inline]
    #[must_use]
    pub fn meter(&self) -> Option<&Arc<Meter>> {
        self.meter.as_deref()
    }

    /// Converts to the completion of an operation that outlives the submitting call. If the ledger has no space for a deferred
    /// fence, the call gets one that has failed.
    #[inline]
    #[must_use]
    pub fn detach(mut self) -> Completion<'static> {
        let signal = match core::mem::take(&mut self.signal) {
            SignalFence::None => SignalFence::None,
            SignalFence::Given(fence) => SignalFence::Given(fence),
            SignalFence::Later(slot) => {
                let fence = Fence::of_program(self.ledger).unwrap_or_else(|_| unaffordable());
                SignalFence::Given(Arc::clone(slot.insert(fence)))
            }
        };
        let meter = self.meter.take().map(|meter| Cow::Owned(meter.into_owned()));
        let between_devices = self.between_devices.take();
        Completion { signal, ledger: Ledger::HOST, meter, affinity: self.affinity, between_devices }
    }

    /// Lets a thread that will wait for the operation participate in its task, which has started.
    #[inline]
    pub fn set_participant(&self, task: &Arc<dyn WaitParticipant>) {
        self.participate(task, Role::Signals);
    }

    /// Lets a thread that will wait for the operation participate in a task that the operation waits for.
    pub(super) fn set_preceding(&self, task: &Arc<dyn WaitParticipant>) {
        self.participate(task, Role::Precedes);
    }

    #[inline]
    fn participate(&self, task: &Arc<dyn WaitParticipant>, role: Role) {
        if let SignalFence::Given(signal) = &self.signal {
            signal.set_participant(task, role);
        }
    }

    /// Signals, or fails, the signal fence and returns the result.
    ///
    /// # Errors
    /// The failure of the operation; that of the fence.
    #[inline]
    pub fn finish(mut self, result: Result<()>) -> Result<()> {
        let result = match self.between_devices.take() {
            Some(devices) => finish_between(*devices, result),
            None => result,
        };
        core::mem::take(&mut self.signal).finish(result)
    }
}

/// Returns the one fence, failed, for whatever operation cannot have its own.
#[cold]
fn unaffordable() -> Arc<Fence> {
    static FAILED: OnceLock<Arc<Fence>> = OnceLock::new();
    let fail = || {
        let fence = Fence::new();
        fence.fail(&Error::resource_exhausted("the fence of a pending operation exceeds the limits of its program"));
        Arc::new(fence)
    };
    Arc::clone(FAILED.get_or_init(fail))
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        if let SignalFence::Given(signal) = core::mem::take(&mut self.signal) {
            signal.fail(&Error::aborted("queue operation was dropped before it was done"));
        }
    }
}
