//! Operations that the device has not finished, and the threads that wait for it.
//!
//! A thread that waits for an operation's fence waits for the device itself and finishes what is done. A thread of the device does
//! that if no other thread waits.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use incarnate_hal::backend::{Completion, WaitParticipant};
use incarnate_hal::{Buffer, CommandBuffer};

use crate::encoder::Recording;
use crate::gpu::Gpu;
use crate::shadows::Shadows;
use crate::{Error, Result};

/// The longest wait for the device, after which its state is examined.
const EXAMINE_EVERY: Duration = Duration::from_millis(100);

/// What an operation uses until it is done.
#[derive(Debug)]
pub(crate) struct Operands {
    pub(crate) recording: Arc<Recording>,
    pub(crate) shadows: Shadows,
    #[expect(dead_code, reason = "keeps executables and buffers of the commands")]
    pub(crate) command_buffer: Arc<CommandBuffer>,
    #[expect(dead_code, reason = "keeps the buffers of the binding table")]
    pub(crate) buffers: Vec<Arc<Buffer>>,
}

struct Operation {
    number: u64,
    operands: Operands,
    completion: Completion<'static>,
}

/// The operations of a device that are not done, in order.
pub(crate) struct Submissions {
    gpu: Arc<Gpu>,
    state: Mutex<State>,
    changed: Condvar,
    /// Operations whose fence is not signalled.
    running: AtomicUsize,
}

#[derive(Default)]
struct State {
    operations: VecDeque<Operation>,
    thread: Option<JoinHandle<()>>,
    has_ended: bool,
}

/// Lets a thread that waits for an operation wait for the device.
struct Participant {
    submissions: Arc<Submissions>,
    number: u64,
}

impl WaitParticipant for Participant {
    fn participate(self: Arc<Self>) -> bool {
        let is_done = self.submissions.gpu.wait(self.number, EXAMINE_EVERY).unwrap_or(true);
        self.submissions.finish_done();
        is_done
    }
}

impl Submissions {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Arc<Submissions> {
        Arc::new(Submissions { gpu, state: Mutex::default(), changed: Condvar::new(), running: AtomicUsize::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits an operation, which finishes `completion` when it is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost; RESOURCE_EXHAUSTED.
    #[allow(unsafe_code, reason = "submits commands, and keeps what they use")]
    pub(crate) fn submit(self: &Arc<Submissions>, operands: Operands, completion: Completion<'_>) -> Result<()> {
        let mut state = self.lock();
        if let Err(error) = self.start_thread(&mut state) {
            drop(state);
            return completion.finish(Err(error));
        }
        // SAFETY: the operands keep the recording, the executables of its commands and the buffers, and stay in `operations` until the
        // submission is done or the device is lost.
        match unsafe { operands.recording.submit() } {
            Ok(number) => {
                let completion = completion.detach();
                completion.set_participant(Arc::new(Participant { submissions: Arc::clone(self), number }));
                self.running.fetch_add(1, Ordering::SeqCst);
                state.operations.push_back(Operation { number, operands, completion });
                drop(state);
                self.changed.notify_one();
                Ok(())
            }
            Err(error) => {
                drop(state);
                completion.finish(Err(error))
            }
        }
    }

    fn start_thread(self: &Arc<Submissions>, state: &mut State) -> Result<()> {
        if state.thread.is_none() {
            let submissions = Arc::clone(self);
            let thread = std::thread::Builder::new().name("incarnate-vulkan".into());
            let thread = thread.spawn(move || submissions.run());
            state.thread = Some(thread.map_err(|error| {
                Error::resource_exhausted(format!("the system has no thread for a Vulkan device: {error}"))
            })?);
        }
        Ok(())
    }

    /// Finishes operations until the device ends.
    fn run(&self) {
        loop {
            let mut state = self.lock();
            let number = loop {
                match state.operations.front() {
                    Some(operation) => break operation.number,
                    None if state.has_ended => return,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            // The error of a lost device fails every operation.
            let _ = self.gpu.wait(number, EXAMINE_EVERY);
            self.finish_done();
        }
    }

    /// Finishes the operations that the device has done; all of them if it is lost.
    pub(crate) fn finish_done(&self) {
        let completed = self.gpu.completed();
        let limit = completed.as_ref().copied().unwrap_or(u64::MAX);
        let result = completed.map(|_| ());
        loop {
            let mut state = self.lock();
            let is_done = state.operations.front().is_some_and(|operation| operation.number <= limit);
            let operation = if is_done { state.operations.pop_front() } else { None };
            drop(state);
            let Some(Operation { operands, completion, .. }) = operation else { return };
            let done = result.clone().and_then(|()| operands.shadows.write_back());
            let _finishing = Finishing::new(self);
            // References are released before the signal.
            drop(operands);
            // The signal fence reports a failure.
            let _ = completion.finish(done);
            self.running.fetch_sub(1, Ordering::SeqCst);
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
            let last = self.lock().operations.back().map(|operation| operation.number);
            match last {
                Some(number) => {
                    let _ = self.gpu.wait(number, EXAMINE_EVERY);
                    self.finish_done();
                }
                // Another thread is signalling the last fence.
                None => std::thread::yield_now(),
            }
        }
    }

    /// Ends the thread once all operations are done.
    pub(crate) fn end(&self) {
        let thread = {
            let mut state = self.lock();
            state.has_ended = true;
            state.thread.take()
        };
        self.changed.notify_all();
        // The thread itself may drop the device's last share.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
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
