//! Which executions are under way, and which threads work on them.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::super::super::command_buffer::CommandBuffer;
use super::super::super::commands::BufferBinding;
use super::super::super::queue::Completion;
use super::super::cost::{Cost, picoseconds};
use super::executor::{Executor, Work};
use super::graph::Graph;
use super::run::{Idle, Role, Run};
use super::sync::Apart;
use super::team::{self, Team};
use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};

/// Executions that can be under way at once; more are run by those who submit them.
const PLACES: usize = 64;
/// Runs that are kept for reuse.
const KEPT_RUNS: usize = PLACES;
/// Bounds of what a wake-up is believed to take, in picoseconds, and what it is taken for before the first.
const WAKE_UP: (u64, u64, u64) = (2_000_000, 100_000_000, 20_000_000);
/// How much work, as a multiple of a wake-up's time, makes a wake-up worth while.
const WORTH_WAKING: u64 = 2;
/// The least time that work must save, in picoseconds, where a thread is awake already.
const LEAST_GAIN_OF_AWAKE: u64 = 3_000_000;
/// Bounds of the time for which threads look for work where nothing else is asked for.
const SPIN: (Duration, Duration) = (Duration::from_micros(40), Duration::from_micros(100));
/// How many times as long as otherwise a thread looks for work while another executes commands that it can help with.
const PATIENCE_WITH_DRIVER: u32 = 10;

/// Shares the executions of a device among threads.
pub(super) struct Scheduler {
    places: Box<[Mutex<Option<Arc<Run>>>]>,
    /// Bits of places that are taken.
    reserved: Apart<AtomicU64>,
    /// Bits of places that hold a run that is not over.
    occupied: Apart<AtomicU64>,
    /// Runs for reuse. A thread that is about to leave one may still hold it.
    kept: Apart<Mutex<Vec<Arc<Run>>>>,
    /// This one, for the threads that are called.
    this: Weak<Scheduler>,
    /// Threads of the executor that are in [`Work::participate`].
    workers: Apart<AtomicUsize>,
    /// Threads that wait for an execution and work along.
    waiters: Apart<AtomicUsize>,
    /// Threads that have been woken and have not arrived.
    coming: Apart<AtomicUsize>,
    /// When the last wake-up was, in picoseconds since `epoch`.
    last_wake_up: AtomicU64,
    wake_up: Cost,
    submissions: Apart<AtomicU32>,
    epoch: Instant,
    executor: Arc<dyn Executor>,
    concurrency: usize,
    /// How long threads look for work; `None` for about as long as a wake-up takes.
    spin: Option<Duration>,
    team: Team,
    under_way: Apart<AtomicUsize>,
    drained: (Mutex<()>, Condvar),
}

thread_local! {
    /// Executions that this thread is just ending.
    static ENDING: Cell<usize> = const { Cell::new(0) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under a lock is complete before anything can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("executor", &self.executor)
            .field("under_way", &self.under_way.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    pub(super) fn new(executor: Arc<dyn Executor>, spin: Option<Duration>) -> Arc<Scheduler> {
        Arc::new_cyclic(|this| Scheduler {
            this: this.clone(),
            places: (0..PLACES).map(|_| Mutex::new(None)).collect(),
            reserved: Apart::default(),
            occupied: Apart::default(),
            kept: Apart::default(),
            workers: Apart::default(),
            waiters: Apart::default(),
            coming: Apart::default(),
            last_wake_up: AtomicU64::new(0),
            wake_up: Cost::default(),
            submissions: Apart::default(),
            epoch: Instant::now(),
            team: Team::new(executor.concurrency()),
            concurrency: executor.concurrency().max(1),
            executor,
            spin,
            under_way: Apart::default(),
            drained: (Mutex::default(), Condvar::new()),
        })
    }

    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// How long threads look for work before they sleep.
    pub(super) fn spin_time(&self) -> Duration {
        self.spin.unwrap_or_else(|| Duration::from_nanos(self.wake_up_time() / 1000).clamp(SPIN.0, SPIN.1))
    }

    /// Counts an execution of commands that are executed once; gives the number of those before.
    pub(super) fn count_submission(&self) -> u32 {
        let count = self.submissions.load(Ordering::Relaxed);
        // One that is lost to another thread does no harm.
        self.submissions.store(count.wrapping_add(1), Ordering::Relaxed);
        count
    }

    /// The threads that help others with short executions.
    pub(super) fn team(&self) -> &Team {
        &self.team
    }

    /// How many threads may be at a dispatch, as kernels are told.
    pub(super) fn threads(&self) -> u8 {
        u8::try_from(self.concurrency).unwrap_or(u8::MAX)
    }

    /// Counts a thread that executes commands by itself while another is the team's driver.
    pub(super) fn count_caller(&self) {
        self.waiters.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back a [`Scheduler::count_caller`].
    pub(super) fn discount_caller(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes a thread for the team, if there may be one more beside the calling one.
    pub(super) fn call_helper(&self) {
        let present = self.workers.load(Ordering::Relaxed)
            + self.waiters.load(Ordering::Relaxed)
            + self.coming.load(Ordering::Relaxed);
        self.wake(usize::from(present + 1 < self.concurrency || cfg!(perturb)));
    }

    /// True where a thread has been woken and has not arrived.
    pub(super) fn expects_threads(&self) -> bool {
        self.coming.load(Ordering::Relaxed) > 0
    }

    /// Time that has to be saved for a thread to be woken, in picoseconds.
    pub(super) fn worth_waking(&self) -> u64 {
        WORTH_WAKING * self.wake_up_time()
    }

    /// Picoseconds since the device was made.
    pub(super) fn now(&self) -> u64 {
        picoseconds(self.epoch.elapsed())
    }

    /// The least time that work must save, in picoseconds, to be spread over threads.
    pub(super) fn least_gain(&self) -> u64 {
        match self.workers.load(Ordering::Relaxed) {
            0 => self.worth_waking(),
            // One that looks for work need not be woken.
            _ => LEAST_GAIN_OF_AWAKE,
        }
    }

    /// What it takes until a thread that is called works, in picoseconds.
    fn wake_up_time(&self) -> u64 {
        self.wake_up.get().unwrap_or(WAKE_UP.2).clamp(WAKE_UP.0, WAKE_UP.1)
    }

    /// True where more threads work than should.
    pub(super) fn crowded(&self) -> bool {
        if cfg!(perturb) {
            // Workers stay, so that there is somebody to share with.
            return false;
        }
        let waiters = self.waiters.load(Ordering::Relaxed);
        // The driver is not counted, as it comes and goes often; it matters where there are other callers.
        let drivers = usize::from(waiters > 0 && self.team.has_driver());
        self.workers.load(Ordering::Relaxed) + waiters + drivers > self.concurrency
    }

    /// Starts an execution that `hands` threads can make use of, the calling one among them; gives the completion back where
    /// too many are under way.
    pub(super) fn submit(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        graph: &Arc<Graph>,
        table: &[BufferBinding<'_>],
        completion: Completion<'static>,
        hands: usize,
    ) -> core::result::Result<(), Completion<'static>> {
        let Some(place) = self.reserve() else { return Err(completion) };
        let mut run = self.take_run();
        match Arc::get_mut(&mut run) {
            Some(run) => run.set(command_buffer, graph, table, completion, (place, hands)),
            None => {
                self.reserved.fetch_and(!(1 << place), Ordering::AcqRel);
                return Err(completion);
            }
        }
        self.under_way.fetch_add(1, Ordering::AcqRel);
        run.offer_help();
        if let Some(slot) = self.places.get(place as usize) {
            *lock(slot) = Some(Arc::clone(&run));
        }
        self.occupied.fetch_or(1 << place, Ordering::AcqRel);
        run.begin(self);
        if run.is_finished() {
            return Ok(());
        }
        // A read that is ordered with the change by a worker that leaves, which looks for work after it: one of the two
        // sees the other.
        let workers = self.workers.fetch_add(0, Ordering::AcqRel);
        let present = workers + self.coming.load(Ordering::Relaxed);
        // This thread is expected to wait for the execution, and to work along.
        let others = self.concurrency.saturating_sub(1 + present + self.waiters.load(Ordering::Relaxed));
        let wanted = hands.saturating_sub(1 + present).min(others);
        self.wake(if workers == 0 { wanted.max(1) } else { wanted });
        Ok(())
    }

    /// A run that nobody else holds.
    fn take_run(&self) -> Arc<Run> {
        let mut kept = lock(&self.kept);
        let free = kept.iter_mut().rposition(|run| Arc::get_mut(run).is_some());
        free.map_or_else(|| Arc::new(Run::new(self.this.clone())), |index| kept.swap_remove(index))
    }

    fn reserve(&self) -> Option<u32> {
        let mut reserved = self.reserved.load(Ordering::Relaxed);
        loop {
            let place = reserved.trailing_ones();
            if place as usize >= PLACES {
                return None;
            }
            let with = reserved | 1 << place;
            match self.reserved.compare_exchange_weak(reserved, with, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(place),
                Err(other) => reserved = other,
            }
        }
    }

    /// Takes an execution that is over out of its place and has it `signal`.
    pub(super) fn end(&self, place: u32, signal: impl FnOnce()) {
        self.occupied.fetch_and(!(1 << place), Ordering::AcqRel);
        let run = self.places.get(place as usize).and_then(|slot| lock(slot).take());
        self.reserved.fetch_and(!(1 << place), Ordering::AcqRel);
        if let Some(run) = run {
            let mut kept = lock(&self.kept);
            if kept.len() < KEPT_RUNS {
                kept.push(run);
            }
        }
        ENDING.set(ENDING.get() + 1);
        signal();
        ENDING.set(ENDING.get().saturating_sub(1));
        if self.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(lock(&self.drained.0));
            self.drained.1.notify_all();
        }
    }

    /// Waits until no execution is under way; but not where this thread is just ending one, as it would wait for itself.
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

    /// Wakes threads.
    fn wake(&self, count: usize) {
        if count == 0 {
            return;
        }
        self.last_wake_up.store(self.now(), Ordering::Relaxed);
        self.coming.fetch_add(count, Ordering::Relaxed);
        // Whoever calls holds a share.
        let Some(this) = self.this.upgrade() else { return };
        let work: Arc<dyn Work> = this;
        let woken = self.executor.wake(&work, count).min(count);
        self.coming.fetch_sub(count - woken, Ordering::Relaxed);
    }

    /// True where fewer threads are there or coming than may be.
    #[inline]
    pub(super) fn lacks_threads(&self) -> bool {
        self.workers.load(Ordering::Relaxed)
            + self.waiters.load(Ordering::Relaxed)
            + self.coming.load(Ordering::Relaxed)
            < self.concurrency
    }

    /// Wakes threads for `work` picoseconds that can be divided into `blocks`, beyond what the present ones have begun; as
    /// many as it is worth.
    pub(super) fn call_for_help(&self, work: u64, blocks: u64) {
        if self.concurrency == 1 {
            return;
        }
        let present = self.workers.load(Ordering::Relaxed)
            + self.waiters.load(Ordering::Relaxed)
            + self.coming.load(Ordering::Relaxed);
        if present >= self.concurrency {
            return;
        }
        let worth = (work / (WORTH_WAKING * self.wake_up_time())).saturating_sub(present as u64);
        let free = (self.concurrency - present) as u64;
        // At most the number of workers.
        self.wake(worth.min(blocks).min(free) as usize);
    }

    /// A run that is under way and wanted.
    fn find(&self, wanted: impl Fn(&Run) -> bool) -> Option<Arc<Run>> {
        let mut occupied = self.occupied.load(Ordering::Acquire);
        while occupied != 0 {
            let place = occupied.trailing_zeros();
            occupied &= occupied - 1;
            let Some(slot) = self.places.get(place as usize) else { continue };
            if let Some(run) = lock(slot).as_ref().filter(|run| wanted(run)) {
                return Some(Arc::clone(run));
            }
        }
        None
    }

    /// True where a worker would find something in another run.
    pub(super) fn has_other_work(&self, own: &Run) -> bool {
        let occupied = self.occupied.load(Ordering::Acquire);
        if occupied.count_ones() < 2 {
            return false;
        }
        let crowded = self.crowded();
        self.find(|run| !core::ptr::eq(run, own) && run.wants_help(crowded)).is_some()
    }

    /// Has a thread that waits for an execution work along.
    pub(super) fn assist(&self, work: impl FnOnce()) {
        self.waiters.fetch_add(1, Ordering::AcqRel);
        work();
        self.waiters.fetch_sub(1, Ordering::AcqRel);
        // Workers may have left because of this thread.
        if self.has_work() && self.workers.load(Ordering::Relaxed) + self.coming.load(Ordering::Relaxed) == 0 {
            self.wake(1);
        }
    }

    fn arrived(&self) {
        self.wake_up.learn(self.now().saturating_sub(self.last_wake_up.load(Ordering::Relaxed)).min(WAKE_UP.1));
        // Never below zero: each thread that comes was counted before it was woken.
        self.coming.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Work for Scheduler {
    fn participate(&self, woken: bool) {
        self.workers.fetch_add(1, Ordering::AcqRel);
        if woken {
            self.arrived();
        }
        let mut idle: Option<Idle> = None;
        let mut helper = None;
        let spin = self.spin_time();
        let (mut useful, mut was_driven) = (false, false);
        loop {
            let crowded = self.crowded();
            if let Some(run) = self.find(|run| run.wants_help(crowded)) {
                helper = None;
                run.participate(self, Role::Worker);
                (idle, useful) = (None, true);
            } else if crowded || spin.is_zero() {
                break;
            } else {
                if helper.is_none() {
                    helper = self.team.join();
                }
                if helper.as_mut().is_some_and(|helper| helper.look(self)) {
                    (idle, useful) = (None, true);
                } else {
                    // A driver that executes what nobody can help with may need help right after.
                    let driven = self.team.has_driver();
                    let patience = if driven { PATIENCE_WITH_DRIVER * spin } else { spin };
                    if driven != was_driven {
                        (idle, was_driven) = (None, driven);
                    }
                    if idle.get_or_insert_with(Idle::new).is_over_after(team::LOOKS, patience) {
                        break;
                    }
                }
            }
        }
        drop(helper);
        if woken {
            self.team.learn_wake_up(useful);
        }
        self.workers.fetch_sub(1, Ordering::AcqRel);
    }

    fn has_work(&self) -> bool {
        // With this thread.
        let working = self.workers.load(Ordering::Relaxed) + self.waiters.load(Ordering::Relaxed) + 1;
        let crowded = working > self.concurrency;
        self.find(|run| run.wants_help(crowded)).is_some()
    }
}
