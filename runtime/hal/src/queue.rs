//! Queues: operations that run when their wait fence is reached, and then signal.
//!
//! An operation whose wait fence is reached goes to the device's [`Backend`] at once, on the submitting thread. Others are
//! [pending](super::pending). Nothing here blocks, so a single-threaded program can submit first and signal later.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::sync::OnceLock;

use super::allocator::Allocator;
use super::buffer::Buffer;
use super::command_buffer::{CommandBuffer, InlineExecution};
use super::commands::BufferBinding;
use super::executable::ExecutableCache;
use super::fence::Fence;
use super::file::File;
use super::pending::PendingOperations;
use super::semaphore::{Role, WaitParticipant};
use crate::bytecode::imports::BYTES_PER_STEP;
use crate::profile::{self, EventKind, Facts};
use crate::vm::{Charge, Fuel, Ledger, Meter, array};
use crate::{Error, Result};

/// A queue operation. Transfers are rare here: most are commands of a command buffer.
#[derive(Debug)]
pub enum Operation {
    /// Waits and signals, and does nothing else.
    Barrier,
    /// Releases a reference to a buffer.
    Release(Arc<Buffer>),
    /// Fills a range of a buffer; see [`Buffer::fill`].
    Fill {
        /// The buffer.
        target: Arc<Buffer>,
        /// The start of the range.
        offset: u64,
        /// The length of the range.
        length: u64,
        /// The pattern, in the low bytes.
        pattern: u64,
        /// The length of the pattern in bytes.
        pattern_length: usize,
    },
    /// Repeats a pattern of any length; an incomplete last repetition is truncated.
    Splat {
        /// The buffer.
        target: Arc<Buffer>,
        /// The start of the range.
        offset: u64,
        /// The length of the range.
        length: u64,
        /// The pattern.
        pattern: Box<[u8]>,
    },
    /// Writes bytes to a buffer; see [`Buffer::write`].
    Update {
        /// The bytes.
        source: Box<[u8]>,
        /// The buffer.
        target: Arc<Buffer>,
        /// The position in the buffer.
        offset: u64,
    },
    /// Copies between buffers; see [`Buffer::copy_from`].
    Copy {
        /// The buffer that is read.
        source: Arc<Buffer>,
        /// The position in the source.
        source_offset: u64,
        /// The buffer that is written.
        target: Arc<Buffer>,
        /// The position in the target.
        target_offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Copies from a file into a buffer; see [`File::read`].
    Read {
        /// The file.
        source: Arc<File>,
        /// The position in the file.
        source_offset: u64,
        /// The buffer.
        target: Arc<Buffer>,
        /// The position in the buffer.
        target_offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Copies from a buffer into a file; see [`File::write`].
    Write {
        /// The buffer.
        source: Arc<Buffer>,
        /// The position in the buffer.
        source_offset: u64,
        /// The file.
        target: Arc<File>,
        /// The position in the file.
        target_offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Executes a command buffer.
    Execute {
        /// The command buffer.
        command_buffer: Arc<CommandBuffer>,
        /// What is bound to its slots.
        bindings: Box<[BufferBinding<'static>]>,
    },
    /// Transfers to run sequentially.
    Batch(Vec<Operation>),
}

impl Operation {
    /// Runs a transfer on the calling thread. Does nothing for other operations.
    ///
    /// # Errors
    /// Those of the transfer; those of [`Fuel::charge`], before it begins.
    pub fn transfer(&self, meter: Option<&Arc<Meter>>) -> Result<()> {
        let recorded = profile::now();
        let result = self.transfer_unrecorded(meter);
        if let Some(start) = recorded {
            self.record(start);
        }
        result
    }

    #[cold]
    fn record(&self, start: crate::vm::clock::Instant) {
        let name = match self {
            Operation::Barrier | Operation::Release(_) | Operation::Execute { .. } | Operation::Batch(_) => return,
            Operation::Fill { .. } | Operation::Splat { .. } => "queue fill",
            Operation::Update { .. } => "queue update",
            Operation::Copy { .. } => "queue copy",
            Operation::Read { .. } => "queue read",
            Operation::Write { .. } => "queue write",
        };
        profile::record(start, &Facts { bytes: self.bytes(), ..Facts::plain(EventKind::Transfer, name) });
    }

    fn transfer_unrecorded(&self, meter: Option<&Arc<Meter>>) -> Result<()> {
        match self {
            Operation::Barrier | Operation::Release(_) | Operation::Execute { .. } => Ok(()),
            Operation::Fill { target, offset, length, pattern, pattern_length } => {
                target.fill(*offset, *length, *pattern, *pattern_length)
            }
            Operation::Splat { target, offset, length, pattern } => splat(target, *offset, *length, pattern),
            Operation::Update { source, target, offset } => target.write(*offset, source),
            Operation::Copy { source, source_offset, target, target_offset, length } => {
                target.copy_from(*target_offset, source, *source_offset, *length)
            }
            Operation::Read { source, source_offset, target, target_offset, length } => {
                source.read(*source_offset, target, *target_offset, *length)
            }
            Operation::Write { source, source_offset, target, target_offset, length } => {
                target.write(*target_offset, source, *source_offset, *length)
            }
            // The call that submits one transfer is charged by its operands; a batch has its own.
            Operation::Batch(operations) => {
                let mut fuel = Fuel::of(meter);
                operations.iter().try_for_each(|operation| {
                    fuel.charge(1 + operation.bytes() / BYTES_PER_STEP)?;
                    operation.transfer(meter)
                })
            }
        }
    }

    /// The bytes that a transfer writes.
    fn bytes(&self) -> u64 {
        match self {
            Operation::Barrier | Operation::Release(_) | Operation::Execute { .. } | Operation::Batch(_) => 0,
            Operation::Fill { length, .. } | Operation::Splat { length, .. } => *length,
            Operation::Update { source, .. } => source.len() as u64,
            Operation::Copy { length, .. } | Operation::Read { length, .. } | Operation::Write { length, .. } => {
                *length
            }
        }
    }

    /// The bytes that the operation takes while it is pending, beside those of objects that it refers to.
    pub(super) fn extent(&self) -> u64 {
        let contents = match self {
            Operation::Update { source, .. } => source.len(),
            Operation::Splat { pattern, .. } => pattern.len(),
            Operation::Execute { bindings, .. } => size_of_val(&**bindings),
            Operation::Batch(operations) => {
                let extents = operations.iter().map(Operation::extent);
                return extents.fold(size_of::<Operation>() as u64, u64::saturating_add);
            }
            _ => 0,
        };
        (size_of::<Operation>() + contents) as u64
    }
}

/// Bytes that are written at once when a pattern is repeated.
const SPLAT_BYTES: usize = 64 << 10;

fn splat(target: &Buffer, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
    let (start, length) = target.range(offset, length)?;
    if pattern.is_empty() {
        return Err(Error::invalid_argument("pattern without bytes"));
    }
    let repetitions = SPLAT_BYTES.min(length).div_ceil(pattern.len());
    let mut block = array::with_capacity(repetitions.saturating_mul(pattern.len()))?;
    #[expect(clippy::disallowed_methods, reason = "the memory is reserved")]
    (0..repetitions).for_each(|_| block.extend_from_slice(pattern));
    let mut written = 0;
    while written < length {
        let count = block.len().min(length - written);
        target.write((start + written) as u64, block.get(..count).unwrap_or(&block))?;
        written += count;
    }
    Ok(())
}

/// Runs operations whose wait fence is reached.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Runs or starts an operation and finishes `completion` when it is done. An error that is known on return is also
    /// returned.
    fn run(&self, operation: Operation, completion: Completion<'_>) -> Result<()> {
        let result = match &operation {
            Operation::Execute { command_buffer, bindings } => {
                return self.execute(command_buffer, bindings, completion);
            }
            other => other.transfer(completion.meter()),
        };
        // The operation's references are released before the signal.
        drop(operation);
        completion.finish(result)
    }

    /// Executes a command buffer like [`Backend::run`], but borrows its operands: the common case, in which nothing is
    /// pending, takes no references.
    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()>;

    /// Returns true if the device itself can order an operation after others, which it has started and which signal what the
    /// operation waits for. Then the operation is passed to [`Backend::run`] or [`Backend::execute`] at once, with these tasks in
    /// its [`Completion`]; its fence fails if that of one of them has failed.
    ///
    /// `tasks` may be tasks of other devices. A device without commands of its own orders nothing.
    fn can_follow(&self, tasks: &[Arc<dyn WaitParticipant>], operation: Submitted<'_>) -> bool {
        let _ = (tasks, operation);
        false
    }

    /// Returns the number of workers that run the workgroups of a dispatch.
    fn concurrency(&self) -> usize;

    /// Returns the number of queues that a [`QueueAffinity`] selects from.
    fn queue_count(&self) -> usize {
        1
    }

    /// Returns the function that runs commands at once on the calling thread, while they are recorded; `None` if the device
    /// cannot.
    fn inline_execution(&self) -> Option<InlineExecution> {
        None
    }

    /// Returns an allocator of the device's own memory, by [`Allocator::of_device`]; `None` if its memory is the host's.
    fn device_allocator(&self) -> Option<Allocator> {
        None
    }

    /// Returns what loads the device's executables; `None` if it dispatches code for the host's processors.
    fn executable_cache(&self) -> Option<&dyn ExecutableCache> {
        None
    }

    /// Waits until no operation is running.
    fn drain(&self) {}

    /// Returns true if no operation is running that [`Backend::run`] or [`Backend::execute`] left running when it returned. An
    /// operation runs until its fence is signalled.
    fn is_idle(&self) -> bool {
        true
    }
}

/// An operation that is being submitted.
#[derive(Clone, Copy, Debug)]
pub enum Submitted<'a> {
    /// An operation with operands of its own.
    Operation(&'a Operation),
    /// The execution of a command buffer with a binding table.
    Execution(&'a Arc<CommandBuffer>, &'a [BufferBinding<'a>]),
}

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
    before_signal: Option<BeforeSignal>,
}

/// What is done before the fence of an operation that succeeded is signalled.
pub(super) type BeforeSignal = Box<dyn FnOnce() -> Result<()> + Send>;

/// What an operation follows on its device, and the charge of an operation that is submitted before its wait fence is reached.
#[derive(Default)]
pub(super) struct Predecessors {
    pub(super) tasks: Vec<Arc<dyn WaitParticipant>>,
    #[expect(dead_code, reason = "returned when dropped")]
    pub(super) charge: Charge,
}

#[cold]
fn finish_between(devices: BetweenDevices, result: Result<()>) -> Result<()> {
    match devices.before_signal {
        Some(before_signal) => result.and_then(|()| before_signal()),
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
    pub fn new(signal: SignalFence<'a>, limits: CallLimits<'a>, affinity: QueueAffinity) -> Completion<'a> {
        let meter = limits.meter.map(Cow::Borrowed);
        Completion { signal, ledger: limits.ledger(), meter, affinity, between_devices: None }
    }

    /// Returns the queues that the operation may run on.
    #[must_use]
    pub fn affinity(&self) -> QueueAffinity {
        self.affinity
    }

    /// Returns the tasks that the operation must follow, for which [`Backend::can_follow`] returned true; none for an operation
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

    pub(super) fn before_signal(&mut self, body: BeforeSignal) {
        self.between_devices.get_or_insert_default().before_signal = Some(body);
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
