//! The executions of a device that are under way, and the threads that participate in them.

use alloc::borrow::ToOwned;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use super::division::Division;
use super::estimate::{self, ASYNCHRONOUS, Estimate};
use super::execution::{Execution, Role};
use super::executor::{Executor, Work};
use super::padded::Padded;
use super::sleep::{Idle, Presence};
use crate::Result;
use crate::hal::atomic::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};
use crate::hal::backend::Completion;
use crate::hal::{BufferBinding, CommandBuffer};
use crate::vm::parallel::{Divider, with_divider};
use crate::worker_number::current_worker;

/// The least time of divisible work, in picoseconds, that is shared with workers that are awake: the time in which an execution
/// is set up and published ten times (`cargo bench --bench task`).
const SHARE: u64 = 10_000_000;
/// The least time of divisible work, in picoseconds, for which a worker is woken: two wake-ups (`cargo bench --bench task --
/// wake_up_for_2x200_us`).
const WAKE: u64 = 40_000_000;
/// How long a worker polls for executions before it parks: two wake-ups.
const SPIN: Duration = Duration::from_micros(50);
/// How long a participant polls for the next stage of an execution, which is soon: the time of a long chunk
/// (`benches/peer/run --drivers`).
const STAGE_SPIN: Duration = Duration::from_millis(1);
/// Executions whose memory is kept for reuse.
const KEPT_EXECUTIONS: usize = 64;

/// The execution engine of a device.
pub(super) struct Engine {
    this: Weak<Engine>,
    executor: Arc<dyn Executor>,
    concurrency: usize,
    /// How long a worker polls.
    spin: Duration,
    /// Executions that other threads may participate in.
    registered: Padded<Mutex<Vec<Arc<Execution>>>>,
    /// Loops that other threads may run parts of.
    divisions: Padded<Mutex<Vec<Arc<Division>>>>,
    /// Number of executions and divisions that have ever been registered, for threads that poll.
    epoch: Padded<AtomicU64>,
    /// Executions for reuse, to which other threads may still have references.
    kept: Padded<Mutex<Vec<Arc<Execution>>>>,
    /// Threads that run chunks or parts.
    busy: Padded<AtomicUsize>,
    /// Threads of the program that execute or participate.
    callers: Padded<AtomicUsize>,
    /// Threads of the executor in [`Work::participate`], and those that have been woken and have not arrived.
    workers: Presence,
    under_way: Padded<AtomicUsize>,
    drained: (Mutex<()>, Condvar),
}

/// How an execution is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// By the submitting thread.
    Sequential,
    /// By the submitting thread, and workers that join.
    Shared,
    /// By workers, and threads that wait for it.
    Asynchronous,
}

thread_local! {
    /// Executions that this thread is just ending.
    static ENDING: Cell<usize> = const { Cell::new(0) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under a lock is complete before anything can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("executor", &self.executor)
            .field("under_way", &self.under_way.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn new(executor: Arc<dyn Executor>, spin: Option<Duration>) -> Arc<Engine> {
        Arc::new_cyclic(|this| Engine {
            this: this.clone(),
            concurrency: executor.concurrency().max(1),
            executor,
            spin: spin.unwrap_or(SPIN),
            registered: Padded::default(),
            divisions: Padded::default(),
            epoch: Padded(AtomicU64::new(0)),
            kept: Padded::default(),
            busy: Padded(AtomicUsize::new(0)),
            callers: Padded(AtomicUsize::new(0)),
            workers: Presence::default(),
            under_way: Padded(AtomicUsize::new(0)),
            drained: (Mutex::default(), Condvar::new()),
        })
    }

    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Number of executions and divisions that have ever been registered.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// How long a participant polls for the next stage.
    pub(super) fn stage_spin(&self) -> Duration {
        if self.spin.is_zero() { self.spin } else { STAGE_SPIN.max(self.spin) }
    }

    /// True where more threads are at work than the device's concurrency if so many more join.
    fn is_crowded_with(&self, joining: usize) -> bool {
        // A stress test has workers share what they can.
        !cfg!(perturb) && self.callers.load(Ordering::Relaxed) + self.workers.count() + joining > self.concurrency
    }

    /// True where the calling thread, which is counted as a worker, is one too many. Of workers with numbers those with the highest are, so that
    /// the same ones stay at each execution, with shares that no thread of the program begins with.
    pub(super) fn is_surplus(&self) -> bool {
        let number = current_worker() as usize;
        self.is_crowded_with(0) && (number == 0 || self.callers.load(Ordering::Relaxed) + number > self.concurrency)
    }

    /// Counts the calling thread as one of the program that works, for the time of `work`.
    pub(super) fn as_caller<R>(&self, work: impl FnOnce() -> R) -> R {
        self.callers.fetch_add(1, Ordering::Relaxed);
        let result = work();
        self.callers.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// How an execution of the expected time is run, and whether the calling thread counts as working meanwhile.
    pub(super) fn mode(&self, estimate: &Estimate) -> (Mode, bool) {
        if estimate.total < SHARE && !cfg!(perturb) {
            return (Mode::Sequential, false);
        }
        if cfg!(perturb) {
            // A stress test shares every execution, in one way or the other.
            let is_even = self.epoch().is_multiple_of(2);
            return (if is_even { Mode::Shared } else { Mode::Asynchronous }, true);
        }
        let callers = self.callers.load(Ordering::Relaxed);
        let is_awake = self.workers.count() > 0;
        if estimate.total >= ASYNCHRONOUS && callers < self.concurrency {
            (Mode::Asynchronous, true)
        } else if callers + 1 < self.concurrency && estimate.divisible >= if is_awake { SHARE } else { WAKE } {
            (Mode::Shared, true)
        } else {
            (Mode::Sequential, true)
        }
    }

    /// Runs an execution of the expected time in a mode that is not sequential.
    pub(super) fn submit(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        table: &[BufferBinding<'_>],
        completion: Completion<'_>,
        (mode, estimate): (Mode, &Estimate),
    ) -> Result<()> {
        let mut execution = self.take_execution();
        match Arc::get_mut(&mut execution) {
            Some(execution) => execution.set(command_buffer, table, completion.meter()),
            None => return completion.finish(Err(crate::Error::internal("execution is in use"))),
        }
        self.keep(&execution);
        self.under_way.fetch_add(1, Ordering::AcqRel);
        if mode == Mode::Asynchronous {
            let left = execution.leave_completion(completion);
            self.register(&execution);
            // The submitting thread is expected to wait for the execution, and so to participate.
            if self.wake_for(estimate.divisible, self.concurrency - 1) || self.wake(1) {
                return left;
            }
            // There is no worker, and no thread may come to wait.
            self.as_caller(|| execution.participate(self, Role::Caller));
            return left;
        }
        self.as_caller(|| {
            if !execution.begin(self) {
                self.register(&execution);
                self.wake_for(estimate.divisible, self.concurrency - 1);
                execution.participate(self, Role::Caller);
            }
        });
        execution.leave_completion(completion)
    }

    /// An execution to which no other thread has a reference.
    fn take_execution(&self) -> Arc<Execution> {
        let mut kept = lock(&self.kept);
        let free = kept.iter_mut().rposition(|execution| Arc::get_mut(execution).is_some());
        free.map_or_else(
            || Arc::new(Execution::new(self.this.clone(), self.concurrency)),
            |index| kept.swap_remove(index),
        )
    }

    fn keep(&self, execution: &Arc<Execution>) {
        let mut kept = lock(&self.kept);
        if kept.len() < KEPT_EXECUTIONS {
            kept.push(Arc::clone(execution));
        }
    }

    /// Lets other threads participate in an execution.
    fn register(&self, execution: &Arc<Execution>) {
        lock(&self.registered).push(Arc::clone(execution));
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back [`Engine::register`], if it was called.
    pub(super) fn unregister(&self, execution: &Arc<Execution>) {
        let mut registered = lock(&self.registered);
        if let Some(index) = registered.iter().position(|other| Arc::ptr_eq(other, execution)) {
            registered.remove(index);
        }
    }

    /// Has loops of the kernels that `work` runs divided among threads.
    pub(super) fn dividing<R>(&self, work: impl FnOnce() -> R) -> R {
        match self.this.upgrade() {
            Some(this) if self.concurrency > 1 => self.as_busy(|| with_divider(this, work)),
            _ => work(),
        }
    }

    /// How many more threads may run chunks or parts at this moment. One that has just finished its last may not be counted yet.
    pub(super) fn idle_threads(&self) -> usize {
        self.concurrency.saturating_sub(self.busy.load(Ordering::Relaxed))
    }

    /// Counts the calling thread as busy for the time of `work`, which does not unwind.
    fn as_busy<R>(&self, work: impl FnOnce() -> R) -> R {
        self.busy.fetch_add(1, Ordering::Relaxed);
        let result = work();
        self.busy.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Runs parts of loops that other threads divide, if there are any; false where there are none.
    pub(super) fn join_divisions(&self) -> bool {
        let mut joined = false;
        loop {
            let open = lock(&self.divisions).iter().find(|division| division.is_claimable()).map(Arc::clone);
            match open {
                Some(division) => joined |= self.as_busy(|| division.join()),
                None => return joined,
            }
        }
    }

    /// True where a loop has unclaimed parts, and this thread, which is not counted, may run some.
    pub(super) fn has_divisions(&self) -> bool {
        !self.is_crowded_with(1) && lock(&self.divisions).iter().any(|division| division.is_claimable())
    }

    /// Has an execution that ended `signal`.
    pub(super) fn end(&self, signal: impl FnOnce()) {
        ENDING.set(ENDING.get() + 1);
        signal();
        ENDING.set(ENDING.get().saturating_sub(1));
        if self.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(lock(&self.drained.0));
            self.drained.1.notify_all();
        }
    }

    /// True if no execution is under way: each has signalled its completion.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0
    }

    /// Waits until no execution is under way, unless this thread is just ending one: it would wait for itself.
    pub(super) fn drain(&self) {
        if ENDING.get() > 0 {
            return;
        }
        let mut guard = lock(&self.drained.0);
        while self.under_way.load(Ordering::Acquire) > 0 {
            guard = self.drained.1.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the executor's threads.
    pub(super) fn shut_down(&self) {
        self.executor.shut_down();
        lock(&self.kept).clear();
    }

    /// Wakes as many workers as published work of so many picoseconds is worth, up to `wanted`. True where a worker is awake.
    pub(super) fn wake_for(&self, time: u64, wanted: usize) -> bool {
        let workers = self.workers.count_after_publishing();
        let worth = usize::try_from(time / WAKE).unwrap_or(usize::MAX);
        let callers = if cfg!(perturb) { 0 } else { self.callers.load(Ordering::Relaxed) };
        let free = self.concurrency.saturating_sub(callers + workers);
        let count = worth.max(usize::from(cfg!(perturb))).min(wanted).min(free);
        (count > 0 && self.wake(count)) || workers > 0
    }

    /// Wakes workers; false where there are none.
    fn wake(&self, count: usize) -> bool {
        // A caller holds a reference.
        let Some(this) = self.this.upgrade() else { return false };
        self.workers.enter(count);
        let work: Arc<dyn Work> = this;
        let woken = self.executor.wake(&work, count).min(count);
        self.workers.leave(count - woken);
        woken > 0
    }

    /// An execution for a worker to participate in: one with unclaimed chunks, or else any, if it polls. A worker that would be one too many
    /// finds only an execution without participants.
    fn find(&self, polls: bool, is_too_many: bool) -> Option<Arc<Execution>> {
        let registered = lock(&self.registered);
        let is_open =
            |execution: &&Arc<Execution>| execution.is_claimable() && (!is_too_many || execution.participants() == 0);
        let any = || registered.first().filter(|_| polls && !is_too_many);
        registered.iter().find(is_open).or_else(any).map(Arc::clone)
    }
}

impl Work for Engine {
    fn participate(&self, woken: bool) {
        if !woken {
            self.workers.enter(1);
        }
        let mut idle = Idle::default();
        loop {
            let epoch = self.epoch();
            if !self.is_surplus() && self.join_divisions() {
                idle = Idle::default();
                continue;
            }
            if let Some(execution) = self.find(!self.spin.is_zero(), self.is_surplus())
                && execution.participate(self, Role::Worker { epoch })
            {
                idle = Idle::default();
                continue;
            }
            while self.epoch() == epoch && !self.is_surplus() && !idle.is_over(self.spin) {}
            if self.epoch() != epoch && !self.is_surplus() {
                continue;
            }
            // Either a publisher sees that this thread has left, or this thread sees what was published.
            self.workers.leave(1);
            if !self.has_work() {
                return;
            }
            self.workers.enter(1);
        }
    }

    fn has_work(&self) -> bool {
        self.find(false, self.is_crowded_with(1)).is_some() || self.has_divisions()
    }
}

impl Divider for Engine {
    fn parts(&self, iterations: usize, time: u64) -> usize {
        // Threads that run other chunks have enough to do.
        let idle = if cfg!(perturb) { self.concurrency } else { self.idle_threads() };
        let least = if self.workers.count() > 0 { SHARE } else { WAKE };
        match idle > 0 && (time >= least || cfg!(perturb)) {
            true => usize::try_from(estimate::parts(time, iterations as u64, idle + 1)).unwrap_or(1),
            false => 1,
        }
    }

    fn divide(&self, parts: usize, time: u64, run: &(dyn Fn(usize) + Sync)) {
        let publish = |division: &Arc<Division>| {
            lock(&self.divisions).push(Arc::clone(division));
            self.epoch.fetch_add(1, Ordering::AcqRel);
            self.wake_for(time, parts - 1);
        };
        let withdraw = |division: &Arc<Division>| lock(&self.divisions).retain(|other| !Arc::ptr_eq(other, division));
        let count = u32::try_from(parts).unwrap_or(u32::MAX);
        if let Err(error) = Division::run((count, self.concurrency), run, publish, withdraw) {
            // As if the loop had panicked on this thread, which the kernel's call catches.
            std::panic::resume_unwind(alloc::boxed::Box::new(error.message().to_owned()));
        }
    }
}

#[cfg(all(test, not(any(loom, perturb))))]
mod tests {
    use super::*;
    use crate::worker_number::set_current_worker;

    /// Threads that none are.
    #[derive(Debug)]
    struct NoThreads(usize);

    impl Executor for NoThreads {
        fn concurrency(&self) -> usize {
            self.0
        }

        fn wake(&self, _: &Arc<dyn Work>, _: usize) -> usize {
            0
        }
    }

    #[test]
    fn workers_with_the_highest_numbers_are_surplus() {
        let engine = Engine::new(Arc::new(NoThreads(3)), None);
        let surplus = || {
            [0, 1, 2, 3].map(|number| {
                set_current_worker(number);
                engine.is_surplus()
            })
        };
        engine.workers.enter(3);
        assert_eq!(surplus(), [false; 4]);
        engine.as_caller(|| {
            // Those without a number cannot be told from each other.
            assert_eq!(surplus(), [true, false, false, true]);
            engine.as_caller(|| assert_eq!(surplus(), [true, false, true, true]));
            engine.workers.leave(1);
            assert_eq!(surplus(), [false; 4]);
        });
        set_current_worker(0);
    }
}
