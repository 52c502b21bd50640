//! Queues: operations that run when their wait fence is reached, and then signal.
//!
//! An operation whose wait fence is reached goes to the device's [`Backend`] at once, on the submitting thread. A
//! pending operation is owned by the semaphores that it waits for, and the thread that signals the last of them submits
//! it. If one of them fails or is dropped, the operation fails its signal fence. Nothing here blocks, so a
//! single-threaded program can submit first and signal later. Chains of operations run iteratively: the depth of the
//! stack does not grow with their length.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::task::Poll;
use std::sync::{Mutex, PoisonError};

use super::buffer::Buffer;
use super::command_buffer::{CommandBuffer, InlineExecution};
use super::commands::BufferBinding;
use super::fence::Fence;
use super::file::File;
use super::semaphore::{WaitParticipant, Waiter};
use super::wait::Countdown;
use crate::profile::{self, EventKind, Facts};
use crate::{Error, Result, vm};

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
    /// Those of the transfer.
    pub fn transfer(&self) -> Result<()> {
        let recorded = profile::now();
        let result = self.transfer_unrecorded();
        if let Some(start) = recorded {
            self.record(start);
        }
        result
    }

    #[cold]
    fn record(&self, start: std::time::Instant) {
        let (name, bytes) = match self {
            Operation::Barrier | Operation::Release(_) | Operation::Execute { .. } | Operation::Batch(_) => return,
            Operation::Fill { length, .. } | Operation::Splat { length, .. } => ("queue fill", *length),
            Operation::Update { source, .. } => ("queue update", source.len() as u64),
            Operation::Copy { length, .. } => ("queue copy", *length),
            Operation::Read { length, .. } => ("queue read", *length),
            Operation::Write { length, .. } => ("queue write", *length),
        };
        profile::record(start, &Facts { bytes, ..Facts::plain(EventKind::Transfer, name) });
    }

    fn transfer_unrecorded(&self) -> Result<()> {
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
            Operation::Batch(operations) => operations.iter().try_for_each(Operation::transfer),
        }
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
    let block = pattern.repeat(repetitions);
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
            other => other.transfer(),
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

    /// Returns the number of workers that run the workgroups of a dispatch.
    fn concurrency(&self) -> usize;

    /// Returns the function that runs commands at once on the calling thread, while they are recorded; `None` if the device
    /// cannot.
    fn inline_execution(&self) -> Option<InlineExecution> {
        None
    }

    /// Waits until no operation is running.
    fn drain(&self) {}
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

/// The obligation to signal an operation's fence. Dropping it unfinished fails the fence.
#[derive(Debug)]
pub struct Completion<'a> {
    signal: SignalFence<'a>,
}

impl<'a> Completion<'a> {
    /// Creates the completion of an operation that signals `signal`.
    #[inline]
    #[must_use]
    pub fn new(signal: SignalFence<'a>) -> Completion<'a> {
        Completion { signal }
    }

    /// Converts to the completion of an operation that outlives the submitting call.
    #[inline]
    #[must_use]
    pub fn detach(mut self) -> Completion<'static> {
        let signal = match core::mem::take(&mut self.signal) {
            SignalFence::None => SignalFence::None,
            SignalFence::Given(fence) => SignalFence::Given(fence),
            SignalFence::Later(fence) => SignalFence::Given(Arc::clone(fence.insert(vm::arc_of(Fence::new)))),
        };
        Completion { signal }
    }

    /// Lets a thread that will wait for the operation participate in it.
    #[inline]
    pub fn set_participant(&self, participant: Arc<dyn WaitParticipant>) {
        if let SignalFence::Given(signal) = &self.signal {
            signal.set_participant(participant);
        }
    }

    /// Signals, or fails, the signal fence and returns the result.
    ///
    /// # Errors
    /// The failure of the operation; that of the fence.
    #[inline]
    pub fn finish(mut self, result: Result<()>) -> Result<()> {
        core::mem::take(&mut self.signal).finish(result)
    }
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        if let SignalFence::Given(signal) = core::mem::take(&mut self.signal) {
            signal.fail(&Error::aborted("queue operation was dropped before it was done"));
        }
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

/// Runs an operation once `wait` is reached and then signals `signal`. Both fences are optional.
///
/// # Errors
/// The failure of `wait`, or of the operation, if it is known on return.
pub fn submit(
    backend: &Arc<dyn Backend>,
    wait: Option<&Fence>,
    signal: SignalFence<'_>,
    operation: Operation,
) -> Result<()> {
    let completion = Completion::new(signal);
    match is_reached(wait) {
        Ok(true) => backend.run(operation, completion),
        Ok(false) => {
            if let Some(wait) = wait {
                defer(backend, wait, operation, completion.detach());
            }
            Ok(())
        }
        Err(error) => completion.finish(Err(error)),
    }
}

/// Submits the execution of a command buffer like [`submit`].
///
/// # Errors
/// Those of [`submit`].
#[inline]
pub fn submit_execution(
    backend: &Arc<dyn Backend>,
    wait: Option<&Fence>,
    signal: SignalFence<'_>,
    command_buffer: &Arc<CommandBuffer>,
    bindings: &[BufferBinding<'_>],
) -> Result<()> {
    let completion = Completion::new(signal);
    match is_reached(wait) {
        Ok(true) => backend.execute(command_buffer, bindings, completion),
        Ok(false) => {
            if let Some(wait) = wait {
                let (command_buffer, bindings) =
                    (Arc::clone(command_buffer), bindings.iter().map(BufferBinding::to_own).collect());
                defer(backend, wait, Operation::Execute { command_buffer, bindings }, completion.detach());
            }
            Ok(())
        }
        Err(error) => completion.finish(Err(error)),
    }
}

/// An operation whose wait fence is not reached.
struct Pending {
    countdown: Countdown,
    work: Mutex<Option<Work>>,
}

struct Work {
    backend: Arc<dyn Backend>,
    operation: Operation,
    completion: Completion<'static>,
}

impl Waiter for Pending {
    fn notify(self: Arc<Self>, result: Result<()>) {
        if self.countdown.count(result) {
            self.ready();
        }
    }
}

impl Pending {
    /// Runs the operation, or queues it if a caller's frame on this thread is already running operations.
    fn ready(&self) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(work), Poll::Ready(result)) = (work, self.countdown.result()) {
            enqueue(work, result);
        }
    }
}

#[cold]
fn defer(backend: &Arc<dyn Backend>, wait: &Fence, operation: Operation, completion: Completion<'static>) {
    if let Some(participant) = wait.participant() {
        // A thread that waits for this operation participates in what the operation waits for.
        completion.set_participant(participant);
    }
    let work = Work { backend: Arc::clone(backend), operation, completion };
    let pending =
        Arc::new(Pending { countdown: Countdown::new(wait.timepoints().count()), work: Mutex::new(Some(work)) });
    let waiter: Arc<dyn Waiter> = Arc::clone(&pending) as Arc<dyn Waiter>;
    for (semaphore, payload) in wait.timepoints() {
        if let Poll::Ready(result) = semaphore.register(payload, &waiter) {
            Arc::clone(&waiter).notify(result);
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
    let Work { backend, operation, completion } = work;
    // The signal fence reports a failure; there is no caller to return it to.
    let _ = match result {
        Ok(()) => backend.run(operation, completion),
        Err(error) => completion.finish(Err(error)),
    };
}
