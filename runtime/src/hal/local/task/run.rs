//! One execution of a command buffer by several threads.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::super::super::command_buffer::CommandBuffer;
use super::super::super::commands::{BufferBinding, Command, Commands, Dispatch};
use super::super::super::queue::Completion;
use super::super::super::semaphore::Helper;
use super::super::cost::{Cost, picoseconds};
use super::super::execution::{self, Scratch};
use super::super::task::current_worker;
use super::claims::MAXIMUM_WORKGROUPS;
use super::graph::Graph;
use super::plan::Estimate;
use super::scheduler::Scheduler;
use super::tracker::{Block, Seat, Tracker};
use crate::atomic::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, RwLock, RwLockReadGuard, spin_loop, yield_now};
use crate::{Error, Result, profile};

/// The state of an execution. It is set while nobody else holds it, and kept for the next one afterwards.
#[derive(Debug)]
pub(super) struct Run {
    scheduler: Weak<Scheduler>,
    graph: Arc<Graph>,
    /// Number of the place that the scheduler keeps it in.
    place: u32,
    submitted: Option<Instant>,
    /// Executions before this one; threads begin to count nodes from it, so that those of short graphs are all measured.
    turn: u32,
    tracker: Tracker,
    /// Held for reading by whoever works on it until `finished`. Who ends it waits for them, and gives up what was bound
    /// before anybody learns of the end.
    resources: RwLock<Resources>,
    outcome: Mutex<Outcome>,
    failed: AtomicBool,
    /// Every node is done.
    finished: AtomicBool,
    /// The lanes that threads choose from, and bits of those that are taken.
    lanes: usize,
    taken_lanes: AtomicU64,
    /// Threads that work on it.
    participants: AtomicU32,
    /// Time that threads spent in commands, in picoseconds.
    work: AtomicU64,
    /// The longest that a block is expected to take, in picoseconds.
    longest_block: AtomicU64,
}

/// The most lanes of a dispatch's workgroups. More threads share them.
const MAXIMUM_LANES: usize = 16;
/// Each thread measures what a workgroup costs once in so many nodes that it works on.
const COST_MEASURED_EVERY: u32 = 16;

/// What a thread that works on a run has for itself.
#[derive(Debug)]
struct Hand {
    scratch: Box<Scratch>,
    seat: Seat,
    /// The lane is nobody else's.
    owns_lane: bool,
    nodes: u32,
}

/// How a thread goes on.
#[derive(Debug)]
enum Next {
    /// With any block.
    Any,
    /// With this block.
    This(Block),
    /// It has counted the last node, and ends the run.
    End,
}

#[derive(Debug, Default)]
struct Resources {
    command_buffer: Option<Arc<CommandBuffer>>,
    /// What is bound to the slots.
    table: Vec<BufferBinding<'static>>,
}

impl Resources {
    fn commands(&self) -> Option<&Commands> {
        self.command_buffer.as_ref()?.commands().ok()
    }
}

#[derive(Debug, Default)]
struct Outcome {
    completion: Option<Completion<'static>>,
    failure: Option<Error>,
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A thread of the executor, which has other executions to look after too.
    Worker,
    /// A thread that waits for the end of this one.
    Waiter,
}

/// How often a thread that finds nothing looks at the clock.
const LOOKS_FOR_EACH_GLANCE_AT_THE_CLOCK: u32 = 4;
/// How often a thread that waits for another one looks before it offers its core to others, some microseconds.
pub(super) const LOOKS_BEFORE_YIELDING: u32 = 400;
/// Where there is more time between two glances at the clock, the thread did not run.
const LONGEST_LOOK: Duration = Duration::from_micros(20);
/// The longest that a thread waits within an execution for others to finish their blocks.
const LONGEST_SPIN: Duration = Duration::from_millis(1);

impl Run {
    /// A run for executions of a scheduler.
    pub(super) fn new(scheduler: Weak<Scheduler>) -> Run {
        Run {
            scheduler,
            graph: Arc::default(),
            place: 0,
            submitted: None,
            turn: 0,
            tracker: Tracker::default(),
            resources: RwLock::default(),
            outcome: Mutex::default(),
            failed: AtomicBool::new(false),
            finished: AtomicBool::new(true),
            lanes: 1,
            taken_lanes: AtomicU64::new(0),
            participants: AtomicU32::new(0),
            work: AtomicU64::new(0),
            longest_block: AtomicU64::new(0),
        }
    }

    /// Sets an execution up, in a place of the scheduler, for so many threads.
    pub(super) fn set(
        &mut self,
        command_buffer: &Arc<CommandBuffer>,
        graph: &Arc<Graph>,
        table: &[BufferBinding<'_>],
        completion: Completion<'static>,
        (place, threads): (u32, usize),
    ) {
        self.lanes = threads.clamp(1, MAXIMUM_LANES);
        self.taken_lanes = AtomicU64::new(0);
        self.tracker.reset(graph, self.lanes);
        self.graph = Arc::clone(graph);
        self.place = place;
        self.turn = self.turn.wrapping_add(1);
        self.submitted = Some(Instant::now());
        let resources = self.resources.get_mut().unwrap_or_else(PoisonError::into_inner);
        resources.command_buffer = Some(Arc::clone(command_buffer));
        resources.table.extend(table.iter().map(BufferBinding::to_own));
        let outcome = self.outcome.get_mut().unwrap_or_else(PoisonError::into_inner);
        *outcome = Outcome { completion: Some(completion), failure: None };
        self.failed = AtomicBool::new(false);
        self.finished = AtomicBool::new(false);
        self.work = AtomicU64::new(0);
        self.longest_block = AtomicU64::new(0);
    }

    /// Lets those who will wait for the execution work along.
    pub(super) fn offer_help(self: &Arc<Run>) {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(completion) = &outcome.completion {
            completion.set_helper(Arc::clone(self) as Arc<dyn Helper>);
        }
    }

    /// Makes what waits for nothing ready.
    pub(super) fn begin(&self, scheduler: &Scheduler) {
        let mut empty = SmallVec::<[u32; 8]>::new();
        let resources = self.resources();
        for root in self.graph.roots() {
            match self.open(scheduler, &resources, *root) {
                Some(_) => self.tracker.publish(*root),
                None => empty.push(*root),
            }
        }
        let over = self.graph.len() == 0 || matches!(self.complete(scheduler, &resources, empty, None), Next::End);
        drop(resources);
        if over {
            self.finish(scheduler);
        }
    }

    /// True once everything is done and its fence is signalled or about to be.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// True where a thread would find something to do, and none is at it or more are welcome.
    pub(super) fn wants_help(&self, crowded: bool) -> bool {
        (!crowded || self.participants.load(Ordering::Acquire) == 0) && self.tracker.claimable()
    }

    /// Works along: a waiter until the end, or until there has been nothing to do for some time, a worker until there is
    /// nothing to do here.
    pub(super) fn participate(&self, scheduler: &Scheduler, role: Role) {
        self.participants.fetch_add(1, Ordering::AcqRel);
        let (lane, owns_lane) = self.take_lane();
        let mut hand = Hand { scratch: Scratch::take(), seat: Seat::new(lane), owns_lane, nodes: self.turn };
        let resources = self.resources();
        let over = !self.is_finished() && self.work_along(scheduler, &resources, role, &mut hand);
        drop(resources);
        if hand.owns_lane {
            self.taken_lanes.fetch_and(!(1 << hand.seat.lane), Ordering::Relaxed);
        }
        hand.scratch.give_back();
        self.participants.fetch_sub(1, Ordering::AcqRel);
        if over {
            self.finish(scheduler);
        }
    }

    /// The lane of this thread's number, which it had in other runs as well, if it is free; else any free one.
    fn take_lane(&self) -> (usize, bool) {
        let own = current_worker() as usize % self.lanes;
        for lane in (own..self.lanes).chain(0..own) {
            if self.taken_lanes.fetch_or(1 << lane, Ordering::Relaxed) >> lane & 1 == 0 {
                return (lane, true);
            }
        }
        (own, false)
    }

    /// True for the thread that is to end the run.
    fn work_along(&self, scheduler: &Scheduler, resources: &Resources, role: Role, hand: &mut Hand) -> bool {
        let mut block = self.tracker.claim(&mut hand.seat);
        let mut idle: Option<Idle> = None;
        // When this thread last began to be busy.
        let mut busy = Instant::now();
        let mut work = Duration::ZERO;
        let over = loop {
            if let Some(claimed) = block.take() {
                if idle.take().is_some() {
                    busy = Instant::now();
                }
                match self.work_on(scheduler, resources, claimed, hand) {
                    Next::End => break true,
                    Next::This(next) => block = Some(next),
                    Next::Any if role == Role::Worker && scheduler.crowded() => break false,
                    Next::Any => {}
                }
            } else {
                let waiting = match &mut idle {
                    Some(idle) => idle,
                    none => {
                        work += busy.elapsed();
                        none.insert(Idle::new())
                    }
                };
                if self.is_finished()
                    || role == Role::Worker && scheduler.has_other_work(self)
                    || waiting.is_over(self.patience(scheduler))
                {
                    break false;
                }
            }
            if block.is_none() {
                block = self.tracker.claim(&mut hand.seat);
            }
        };
        if idle.is_none() {
            work += busy.elapsed();
        }
        self.work.fetch_add(picoseconds(work), Ordering::Relaxed);
        over
    }

    /// How long a thread waits for others that have the last blocks of what comes next: as long as these take, for it would
    /// be missed right after. No time where threads never look for work.
    fn patience(&self, scheduler: &Scheduler) -> Duration {
        let spin = scheduler.spin_time();
        if spin.is_zero() {
            return spin;
        }
        let block = Duration::from_nanos(self.longest_block.load(Ordering::Relaxed) / 1000);
        (spin + 2 * block).min(LONGEST_SPIN.max(spin))
    }

    fn resources(&self) -> RwLockReadGuard<'_, Resources> {
        self.resources.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the blocks of a node that has become ready; `None` where there is nothing to do in it.
    fn open(&self, scheduler: &Scheduler, resources: &Resources, node: u32) -> Option<Estimate> {
        let command_index = self.graph.command(node)? as usize;
        let commands = resources.commands()?;
        let command = commands.list.get(command_index)?;
        let (total, estimate) = match command {
            Command::Dispatch(dispatch) => match workgroups(commands, dispatch, &resources.table) {
                Ok((_, 0)) => return None,
                Ok((count, total)) => {
                    self.tracker.set_count(node, count);
                    let info = dispatch.executable.code().functions().get(dispatch.function);
                    let sequential = info.is_some_and(|info| info.sequential);
                    let cost = dispatch.executable.cost(dispatch.function).and_then(Cost::get);
                    (total, Estimate::of_dispatch(cost, total, sequential, scheduler.concurrency()))
                }
                Err(error) => {
                    self.fail(execution::describe(error, command_index, command));
                    return None;
                }
            },
            _ => (1, Estimate { block: 1, blocks: 1, ..Estimate::default() }),
        };
        let block_time = estimate.work / estimate.blocks.max(1);
        if block_time > self.longest_block.load(Ordering::Relaxed) {
            self.longest_block.fetch_max(block_time, Ordering::Relaxed);
        }
        self.tracker.open(node, total, estimate.block);
        Some(estimate)
    }

    /// Runs a block and as many more of its node as there are, and counts them.
    fn work_on(&self, scheduler: &Scheduler, resources: &Resources, block: Block, hand: &mut Hand) -> Next {
        let Block { node, workgroups } = block;
        let mut done = 0;
        let first = workgroups.start == 0;
        let cost = self.cost(resources, node);
        let measured = hand.nodes.is_multiple_of(COST_MEASURED_EVERY) || cost.is_some_and(|cost| cost.get().is_none());
        hand.nodes = hand.nodes.wrapping_add(1);
        let start = (measured || profile::is_on()).then(Instant::now);
        let lane = hand.seat.lane;
        let mut blocks = core::iter::once(workgroups)
            .chain(core::iter::from_fn(|| self.tracker.claim_of(node, lane)))
            .inspect(|block| done += block.end - block.start);
        if !self.failed.load(Ordering::Relaxed) {
            self.execute(scheduler, resources, node, &mut blocks, &mut hand.scratch);
        }
        // After a failure what is left is counted and not run.
        blocks.for_each(drop);
        if let Some(start) = start {
            if profile::is_on() {
                self.record(resources, node, start, done, first);
            }
            if let Some(cost) = cost
                && measured
                && !self.failed.load(Ordering::Relaxed)
            {
                cost.learn(picoseconds(start.elapsed()) / done.max(1));
            }
        }
        if self.tracker.finish(node, done) {
            self.complete(scheduler, resources, SmallVec::from_elem(node, 1), Some(lane))
        } else {
            Next::Any
        }
    }

    #[cold]
    fn record(&self, resources: &Resources, node: u32, start: Instant, workgroups: u64, first: bool) {
        let commands = resources.commands();
        let command = self.graph.command(node).and_then(|index| commands?.list.get(index as usize));
        if let (Some(commands), Some(command)) = (commands, command) {
            execution::record(start, commands, command, &resources.table, workgroups, first);
        }
    }

    /// What is known of the cost of a node that is a dispatch.
    fn cost<'a>(&self, resources: &'a Resources, node: u32) -> Option<&'a Cost> {
        let Command::Dispatch(dispatch) = resources.commands()?.list.get(self.graph.command(node)? as usize)? else {
            return None;
        };
        dispatch.executable.cost(dispatch.function)
    }

    /// Runs blocks of a node until there are no more or something fails.
    fn execute(
        &self,
        scheduler: &Scheduler,
        resources: &Resources,
        node: u32,
        blocks: &mut dyn Iterator<Item = Range<u64>>,
        scratch: &mut Scratch,
    ) {
        let commands = resources.commands();
        let command_index = self.graph.command(node).unwrap_or(u32::MAX) as usize;
        let Some((commands, command)) = commands.and_then(|all| Some((all, all.list.get(command_index)?))) else {
            return self.fail(Error::internal("command buffer of an execution is gone"));
        };
        let result = match command {
            Command::Dispatch(dispatch) => {
                // What is not known may be worth anything.
                let cost = dispatch.executable.cost(dispatch.function).and_then(Cost::get);
                let workgroup = cost.unwrap_or(u64::MAX);
                let mut until_failure = blocks.take_while(|_| {
                    if scheduler.lacks_threads() {
                        let left = self.tracker.left(node);
                        scheduler.call_for_help(workgroup.saturating_mul(left), left);
                    }
                    !self.failed.load(Ordering::Relaxed)
                });
                let threads = u8::try_from(scheduler.concurrency()).unwrap_or(u8::MAX);
                let count = self.tracker.count(node);
                let table = &resources.table;
                execution::execute_blocks(commands, dispatch, count, table, scratch, threads, &mut until_failure)
            }
            transfer => {
                // It is one block.
                blocks.for_each(drop);
                execution::execute_transfer(commands, transfer, &resources.table)
            }
        };
        if let Err(error) = result {
            self.fail(execution::describe(error, command_index, command));
        }
    }

    /// Counts nodes as done and makes ready what waited for them. A thread of `lane` is given a block of a node that has
    /// become ready; all others are published.
    fn complete(
        &self,
        scheduler: &Scheduler,
        resources: &Resources,
        mut done: SmallVec<[u32; 8]>,
        lane: Option<usize>,
    ) -> Next {
        let mut next = Next::Any;
        while let Some(node) = done.pop() {
            for successor in self.graph.successors(node) {
                if !self.tracker.release(*successor) {
                    continue;
                }
                let Some(estimate) = self.open(scheduler, resources, *successor) else {
                    done.push(*successor);
                    continue;
                };
                if let (Some(lane), Next::Any) = (lane, &next) {
                    // Claimed before others can see it, so there is a block.
                    if let Some(workgroups) = self.tracker.claim_of(*successor, lane) {
                        next = Next::This(Block { node: *successor, workgroups });
                    }
                    if estimate.blocks < 2 {
                        continue;
                    }
                }
                self.tracker.publish(*successor);
                scheduler.call_for_help(estimate.work, estimate.blocks);
            }
            if self.tracker.finish_node() {
                next = Next::End;
            }
        }
        next
    }

    /// Keeps the first failure.
    fn fail(&self, error: Error) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.failure.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// Ends the execution: called once, when every node is done, by a thread that no longer works on it.
    fn finish(&self, scheduler: &Scheduler) {
        self.finished.store(true, Ordering::Release);
        let (completion, failure) = {
            let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            (outcome.completion.take(), outcome.failure.take())
        };
        {
            let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
            // The table keeps its memory for the next execution.
            resources.table.clear();
            if let (Some(command_buffer), None) = (resources.command_buffer.take(), &failure) {
                let time = self.submitted.map_or(0, |submitted| picoseconds(submitted.elapsed()));
                command_buffer.plan().learn_spread(self.work.load(Ordering::Relaxed), time);
            }
        }
        scheduler.end(self.place, || {
            if let Some(completion) = completion {
                // Whoever waits learns of a failure through the fence.
                let _ = completion.finish(failure.map_or(Ok(()), Err));
            }
        });
    }
}

impl Helper for Run {
    fn help(&self) -> bool {
        if let Some(scheduler) = self.scheduler.upgrade() {
            scheduler.assist(|| self.participate(&scheduler, Role::Waiter));
        }
        self.is_finished()
    }
}

fn workgroups(commands: &Commands, dispatch: &Dispatch, table: &[BufferBinding<'_>]) -> Result<([u32; 3], u64)> {
    let (count, total) = execution::workgroup_count(commands, dispatch, table)?;
    if total > MAXIMUM_WORKGROUPS {
        return Err(Error::out_of_range(alloc::format!("dispatch of {total} workgroups")));
    }
    Ok((count, total))
}

/// A thread that looks for work.
pub(super) struct Idle {
    /// When it last looked at the clock.
    glance: Instant,
    /// For how long it has looked, without what the system had it wait meanwhile.
    looked: Duration,
    looks: u32,
}

impl Idle {
    pub(super) fn new() -> Idle {
        Idle { glance: Instant::now(), looked: Duration::ZERO, looks: 0 }
    }

    /// Waits a moment; true where that has gone on for long enough.
    pub(super) fn is_over(&mut self, limit: Duration) -> bool {
        self.is_over_after(1, limit)
    }

    /// As [`Idle::is_over`] for a thread that has looked more than once.
    pub(super) fn is_over_after(&mut self, looks: u32, limit: Duration) -> bool {
        if limit.is_zero() {
            return true;
        }
        self.looks = self.looks.wrapping_add(looks);
        if self.looks <= LOOKS_BEFORE_YIELDING {
            spin_loop();
            return false;
        }
        // Whoever is waited for may be waiting for this core.
        yield_now();
        if !self.looks.is_multiple_of(LOOKS_FOR_EACH_GLANCE_AT_THE_CLOCK) {
            return false;
        }
        let now = Instant::now();
        // A thread that sleeps because it did not run has to be woken right after.
        self.looked += now.saturating_duration_since(self.glance).min(LONGEST_LOOK);
        self.glance = now;
        self.looked >= limit
    }
}
