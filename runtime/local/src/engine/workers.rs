//! The threads of a local-task device.

use alloc::format;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use std::sync::{Mutex, OnceLock};
use std::thread::{self, JoinHandle, Thread};

use super::executor::{Executor, Work};
use super::sleep::ParkedSet;
use super::topology;
use crate::hal::atomic::{AtomicBool, Ordering};
use crate::worker_number::set_current_worker;

/// Threads that sleep until there is work. They are started when they are first needed.
#[derive(Debug)]
pub(super) struct WorkerPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    parked: ParkedSet,
    /// The logical processors that workers may run on; each has one of them where they are `pinned`.
    processors: &'static [usize],
    pinned: bool,
    /// The threads that have been started, in the order of their numbers.
    started: Vec<OnceLock<Thread>>,
    stopping: AtomicBool,
}

impl WorkerPool {
    pub(super) fn new(count: usize, pinned: bool) -> WorkerPool {
        let shared = Shared {
            parked: ParkedSet::new(count),
            processors: topology::processors(),
            pinned,
            started: (0..count).map(|_| OnceLock::new()).collect(),
            stopping: AtomicBool::new(false),
        };
        WorkerPool { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Starts one more thread, if there is one to be started.
    #[cold]
    fn start(&self, work: &Arc<dyn Work>) -> bool {
        let mut threads = lock_threads(&self.threads);
        let number = threads.len();
        if number >= self.shared.started.len() || self.shared.stopping.load(Ordering::Acquire) {
            return false;
        }
        let (shared, work) = (Arc::clone(&self.shared), Arc::downgrade(work));
        let body = move || {
            // There are at most `MAXIMUM_WORKERS`.
            set_current_worker(number as u32 + 1);
            shared.bind(number);
            shared.run(number, &work);
        };
        match thread::Builder::new().name(format!("task-worker-{number}")).spawn(body) {
            Ok(handle) => {
                threads.push(handle);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the system starts no more workers");
                false
            }
        }
    }
}

fn lock_threads(threads: &Mutex<Vec<JoinHandle<()>>>) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
    threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    fn run(&self, number: usize, work: &Weak<dyn Work>) {
        if let Some(slot) = self.started.get(number) {
            slot.get_or_init(thread::current);
        }
        let mut woken = true;
        loop {
            match work.upgrade() {
                Some(work) => work.participate(woken),
                None => return,
            }
            self.parked.enter(number);
            let more = work.upgrade().is_some_and(|work| work.has_work());
            if more || self.stopping.load(Ordering::Acquire) {
                woken = !self.parked.leave(number);
            } else {
                while self.parked.contains(number) {
                    thread::park();
                }
                woken = true;
            }
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Binds the calling thread to the processors that it may run on: a thread that starts another may be bound to one.
    fn bind(&self, number: usize) {
        let one = number.checked_rem(self.processors.len()).and_then(|index| self.processors.get(index..=index));
        match one {
            Some(one) if self.pinned => topology::bind(one),
            Some(_) => topology::bind(self.processors),
            None => {}
        }
    }

    fn wake_one(&self) -> bool {
        let Some(number) = self.parked.take() else { return false };
        // A worker names itself before it first enters the set.
        if let Some(thread) = self.started.get(number).and_then(OnceLock::get) {
            thread.unpark();
        }
        true
    }
}

impl Executor for WorkerPool {
    fn concurrency(&self) -> usize {
        self.shared.started.len()
    }

    fn wake(&self, work: &Arc<dyn Work>, count: usize) -> usize {
        (0..count).take_while(|_| self.shared.wake_one() || self.start(work)).count()
    }

    fn shut_down(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        let threads = core::mem::take(&mut *lock_threads(&self.threads));
        while self.shared.wake_one() {}
        for thread in threads {
            // The last share of a device may be dropped by one of its own workers, which ends by itself.
            if thread.thread().id() != thread::current().id() {
                // A worker that panicked has said so already.
                let _ = thread.join();
            }
        }
    }
}
