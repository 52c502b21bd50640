//! Operations that the device has not finished, and the threads that wait for it.
//!
//! Operations are taken to be finished by queue, in the order of their submission, and each after those that it follows are over: so
//! the fence of an operation is never signalled before that of one that it waited for.
//!
//! A thread that waits for an operation's fence waits for the device itself and finishes what is done. A thread for each queue does
//! that if no other thread waits.

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use incarnate_hal::backend::{Completion, WaitParticipant};
use incarnate_hal::{Buffer, CommandBuffer};

use crate::encoder::Recording;
use crate::gpu::Gpu;
use crate::queues::Point;
use crate::shadows::Shadows;
use crate::{Error, Result};

/// The longest wait for the device, after which its state is examined.
const EXAMINE_EVERY: Duration = Duration::from_millis(100);

/// What an operation uses until it is done.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    /// Its commands; `None` for an operation that only follows others.
    pub(crate) recording: Option<Arc<Recording>>,
    pub(crate) shadows: Shadows,
    #[expect(dead_code, reason = "keeps executables and buffers of the commands")]
    pub(crate) command_buffer: Option<Arc<CommandBuffer>>,
    #[expect(dead_code, reason = "keeps the buffers of the binding table, or one that the operation releases")]
    pub(crate) buffers: Vec<Arc<Buffer>>,
}

struct Operation {
    ticket: Arc<Ticket>,
    /// What it follows.
    predecessors: Vec<Arc<Ticket>>,
    operands: Operands,
    completion: Completion<'static>,
}

/// The operations of a device that are not done.
pub(crate) struct Submissions {
    gpu: Arc<Gpu>,
    state: Mutex<State>,
    /// For each queue, notified when it gets an operation.
    changed: Vec<Condvar>,
    /// Notified when a fence is signalled while a thread waits for that.
    signalled: Condvar,
    /// Operations whose fence is not signalled.
    running: AtomicUsize,
}

struct State {
    /// By queue.
    queues: Vec<Lane>,
    has_ended: bool,
    /// Threads that wait for `Submissions::signalled`.
    blocked: usize,
}

/// The operations of a queue, in order, and its thread.
#[derive(Default)]
struct Lane {
    operations: VecDeque<Operation>,
    thread: Option<JoinHandle<()>>,
}

/// An operation that was submitted.
pub(crate) struct Ticket {
    submissions: Arc<Submissions>,
    queue: usize,
    /// The submissions that are done when the device has done the operation, at most one of each queue.
    points: Vec<Point>,
    /// Set, with the state locked, when a thread takes the operation to finish it.
    is_taken: AtomicBool,
    /// The thread that finishes the operation, and how it ended.
    ending: OnceLock<(ThreadId, Result<()>)>,
    is_signalled: AtomicBool,
}

impl Ticket {
    /// Returns true if the operation's fence is signalled; for the thread that is signalling it, what it calls then comes after.
    fn is_over(&self) -> bool {
        self.is_signalled.load(Ordering::Acquire)
            || self.ending.get().is_some_and(|(thread, _)| *thread == std::thread::current().id())
    }

    /// Returns the failure of the operation, once it is over.
    fn result(&self) -> Result<()> {
        self.ending.get().map_or(Ok(()), |(_, result)| result.clone())
    }
}

impl WaitParticipant for Ticket {
    fn participate(self: Arc<Self>) -> bool {
        let is_done = self.submissions.wait(&self.points);
        self.submissions.finish_done(self.queue);
        is_done
    }
}

enum Next {
    /// An operation to finish.
    Operation(Operation),
    /// One of a queue comes before.
    After(usize),
    /// None is done, or another thread finishes what comes before.
    Nothing,
}

impl Submissions {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Arc<Submissions> {
        let count = gpu.queue_count();
        let state = State { queues: (0..count).map(|_| Lane::default()).collect(), has_ended: false, blocked: 0 };
        Arc::new(Submissions {
            gpu,
            state: Mutex::new(state),
            changed: (0..count).map(|_| Condvar::new()).collect(),
            signalled: Condvar::new(),
            running: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the operation of a task, if it is one of this device.
    pub(crate) fn ticket(&self, task: &Arc<dyn WaitParticipant>) -> Option<Arc<Ticket>> {
        let task: Arc<dyn Any + Send + Sync> = Arc::clone(task) as _;
        let ticket: Arc<Ticket> = task.downcast().ok()?;
        core::ptr::eq(&*ticket.submissions, self).then_some(ticket)
    }

    /// Submits an operation to a queue, after those that its completion names, and finishes the completion when it is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost; RESOURCE_EXHAUSTED.
    pub(crate) fn submit(
        self: &Arc<Submissions>,
        queue: usize,
        operands: Operands,
        completion: Completion<'_>,
    ) -> Result<()> {
        let predecessors: Option<Vec<_>> = completion.predecessors().iter().map(|task| self.ticket(task)).collect();
        let Some(predecessors) = predecessors else {
            return completion.finish(Err(Error::internal("operation follows one of another device")));
        };
        let mut state = self.lock();
        let started = self.start_thread(&mut state, queue);
        match started.and_then(|()| self.send(queue, &operands, &predecessors)) {
            Ok(points) => {
                let submissions = Arc::clone(self);
                let (is_taken, is_signalled) = (AtomicBool::new(false), AtomicBool::new(false));
                let ending = OnceLock::new();
                let ticket = Arc::new(Ticket { submissions, queue, points, is_taken, ending, is_signalled });
                let completion = completion.detach();
                completion.set_participant(&(Arc::clone(&ticket) as Arc<dyn WaitParticipant>));
                self.running.fetch_add(1, Ordering::SeqCst);
                if let Some(lane) = state.queues.get_mut(queue) {
                    lane.operations.push_back(Operation { ticket, predecessors, operands, completion });
                }
                drop(state);
                if let Some(changed) = self.changed.get(queue) {
                    changed.notify_one();
                }
                Ok(())
            }
            Err(error) => {
                drop(state);
                completion.finish(Err(error))
            }
        }
    }

    /// Submits the commands, and returns what is done when the operation is.
    #[allow(unsafe_code, reason = "submits commands, and keeps what they use")]
    fn send(&self, queue: usize, operands: &Operands, predecessors: &[Arc<Ticket>]) -> Result<Vec<Point>> {
        let mut before: Vec<Point> = Vec::new();
        for point in predecessors.iter().filter(|ticket| !ticket.is_over()).flat_map(|ticket| &ticket.points) {
            match before.iter_mut().find(|other| other.queue == point.queue) {
                Some(other) => other.number = other.number.max(point.number),
                None => before.push(*point),
            }
        }
        let Some(recording) = &operands.recording else { return Ok(before) };
        // Those of the same queue are done before, as submissions of a queue are done in order.
        before.retain(|point| point.queue != queue);
        // SAFETY: the operands keep the recording, the executables of its commands and the buffers, and stay in the queue's operations
        // until the submission is done or the device is lost.
        unsafe { recording.submit(queue, &before) }.map(|point| vec![point])
    }

    fn start_thread(self: &Arc<Submissions>, state: &mut State, queue: usize) -> Result<()> {
        let missing = || Error::internal("queue of a Vulkan device is not there");
        let lane = state.queues.get_mut(queue).ok_or_else(missing)?;
        if lane.thread.is_none() {
            let submissions = Arc::clone(self);
            let thread = std::thread::Builder::new().name(format!("vulkan-queue-{queue}"));
            let thread = thread.spawn(move || submissions.run(queue));
            lane.thread = Some(thread.map_err(|error| {
                Error::resource_exhausted(format!("the system has no thread for a Vulkan device: {error}"))
            })?);
        }
        Ok(())
    }

    /// Waits for submissions, or for a while; returns true if they are done or the device is lost.
    fn wait(&self, points: &[Point]) -> bool {
        // The error of a lost device fails every operation.
        points.iter().all(|point| self.gpu.wait(*point, EXAMINE_EVERY).unwrap_or(true))
    }

    /// Finishes the operations of a queue until the device ends.
    fn run(&self, queue: usize) {
        let Some(changed) = self.changed.get(queue) else { return };
        loop {
            let mut state = self.lock();
            let points = loop {
                match state.queues.get(queue).and_then(|lane| lane.operations.front()) {
                    Some(operation) => break operation.ticket.points.clone(),
                    None if state.has_ended => return,
                    None => state = changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            if self.wait(&points) && !self.finish_done(queue) {
                self.wait_for_predecessors(queue);
            }
        }
    }

    /// Waits until another thread has signalled a fence if the first operation of a queue comes after one that is not over. The device
    /// has done both, so that other threads finish what is before it.
    fn wait_for_predecessors(&self, queue: usize) {
        let mut state = self.lock();
        let first = state.queues.get(queue).and_then(|lane| lane.operations.front());
        if first.is_some_and(|operation| operation.predecessors.iter().any(|ticket| !ticket.is_over())) {
            // A thread that signals from now on locks the state afterwards, and sees this one.
            state.blocked += 1;
            state = self.signalled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.blocked -= 1;
        }
    }

    /// Finishes the operations of a queue that the device has done, and those of other queues that come before; all of them if the
    /// device is lost. Returns true if there was one.
    fn finish_done(&self, queue: usize) -> bool {
        let (mut any, mut at) = (false, queue);
        loop {
            match self.next(at) {
                Next::Operation(operation) => {
                    self.finish(operation);
                    (any, at) = (true, queue);
                }
                // An operation comes after those only that were submitted before, so that this ends.
                Next::After(other) => at = other,
                Next::Nothing => return any,
            }
        }
    }

    fn next(&self, queue: usize) -> Next {
        let mut state = self.lock();
        let Some(lane) = state.queues.get_mut(queue) else { return Next::Nothing };
        let Some(operation) = lane.operations.front() else { return Next::Nothing };
        if let Some(before) = operation.predecessors.iter().find(|ticket| !ticket.is_over()) {
            // What is taken is finished by another thread, or by a caller of this one.
            return if before.is_taken.load(Ordering::Relaxed) { Next::Nothing } else { Next::After(before.queue) };
        }
        // An error is that of a lost device, on which nothing more is done.
        if !operation.ticket.points.iter().all(|point| self.gpu.is_done(*point).unwrap_or(true)) {
            return Next::Nothing;
        }
        operation.ticket.is_taken.store(true, Ordering::Relaxed);
        lane.operations.pop_front().map_or(Next::Nothing, Next::Operation)
    }

    fn finish(&self, operation: Operation) {
        let Operation { ticket, predecessors, operands, completion } = operation;
        let _finishing = Finishing::new(self);
        let result = ticket.points.iter().try_for_each(|point| self.gpu.is_done(*point).map(drop));
        let result = result.and_then(|()| predecessors.iter().try_for_each(|ticket| ticket.result()));
        let result = result.and_then(|()| operands.shadows.write_back()).and_then(|()| completion.check());
        if let (Ok(()), Some(recording)) = (&result, &operands.recording) {
            recording.report(ticket.queue);
        }
        let _ = ticket.ending.set((std::thread::current().id(), result.clone()));
        // References are released before the signal.
        drop((operands, predecessors));
        // The signal fence reports a failure.
        let _ = completion.finish(result);
        ticket.is_signalled.store(true, Ordering::Release);
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.lock().blocked > 0 {
            self.signalled.notify_all();
        }
    }

    /// Returns true if the fences of all operations are signalled.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0
    }

    /// Waits until the fences of all operations are signalled, but for those that this thread is signalling: what it calls then may
    /// drop the device.
    pub(crate) fn drain(&self) {
        while self.running.load(Ordering::SeqCst) > Finishing::count(self) {
            let mut any = false;
            for queue in 0..self.gpu.queue_count() {
                let first =
                    self.lock().queues.get(queue).and_then(|lane| Some(lane.operations.front()?.ticket.points.clone()));
                if let Some(points) = first {
                    self.wait(&points);
                    any |= self.finish_done(queue);
                }
            }
            if !any {
                // Another thread is signalling the last fence.
                std::thread::yield_now();
            }
        }
    }

    /// Ends the threads once all operations are done.
    pub(crate) fn end(&self) {
        let threads: Vec<_> = {
            let mut state = self.lock();
            state.has_ended = true;
            state.queues.iter_mut().filter_map(|lane| lane.thread.take()).collect()
        };
        self.changed.iter().for_each(Condvar::notify_all);
        // One of the threads may drop the device's last share.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

thread_local! {
    /// The address of the submissions of which this thread is finishing operations, and how many.
    static FINISHING: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Counts an operation that a thread finishes, until it is dropped.
struct Finishing {
    former: (usize, usize),
}

impl Finishing {
    fn new(submissions: &Submissions) -> Finishing {
        let former = FINISHING.get();
        FINISHING.set((core::ptr::from_ref(submissions).addr(), Finishing::count(submissions) + 1));
        Finishing { former }
    }

    /// The operations that this thread is finishing.
    fn count(submissions: &Submissions) -> usize {
        let (address, count) = FINISHING.get();
        if address == core::ptr::from_ref(submissions).addr() { count } else { 0 }
    }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        FINISHING.set(self.former);
    }
}

impl fmt::Debug for Submissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Submissions({} running)", self.running.load(Ordering::Relaxed))
    }
}
