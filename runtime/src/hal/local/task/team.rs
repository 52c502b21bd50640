//! Executions of commands in order by one thread, with help where it pays.
//!
//! The thread that submits goes on executing the commands itself. Dispatches that are worth it are divided into blocks
//! ([`Crew`]) for threads that look for work just then. Nothing but workgroups goes to other threads, which matters for short
//! command buffers: what records, binds, signals and gives up memory stays in one core's cache.
//!
//! Whether help pays is found out for each kernel, as it depends on how far cores are from each other and what else they do.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::super::super::command_buffer::CommandBuffer;
use super::super::super::commands::{BufferBinding, Command, Commands, Dispatch};
use super::super::super::moves;
use super::super::cost::picoseconds;
use super::super::execution::{self, Scratch};
use super::claims::MAXIMUM_WORKGROUPS;
use super::crew::{Claim, Crew, DRIVER, MAXIMUM_BLOCKS, Offer};
use super::plan::{Estimate, Inline, Measured};
use super::run::LOOKS_BEFORE_YIELDING;
use super::scheduler::Scheduler;
use super::sync::Apart;
use crate::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard, spin_loop, yield_now,
};
use crate::{Error, Result, profile};

/// One thread that executes commands, and those who help it.
#[derive(Debug)]
pub(super) struct Team {
    crew: Crew,
    /// Workgroups in each dimension of the dispatch that is offered. The driver sets them before it offers blocks.
    workgroup_count: Apart<[AtomicU32; 3]>,
    /// There is a driver.
    taken: Apart<AtomicBool>,
    /// What helpers need. The driver sets it when nothing is offered; helpers read it while they have a block, for which the
    /// driver waits.
    resources: Apart<RwLock<Resources>>,
    failure: Mutex<Option<Error>>,
    failed: AtomicBool,
    counts: Apart<Counts>,
}

/// What drivers keep in mind.
#[derive(Debug, Default)]
struct Counts {
    /// Time that help would have saved since the last wake-up for it, in picoseconds.
    missed: AtomicU64,
    /// By how much more than a wake-up that has to be, as those who were woken last found nothing to do.
    reluctance: AtomicU32,
    /// The last wake-up was for the team.
    called: AtomicBool,
    /// Dispatches that are not offered, as a helper kept the driver waiting.
    pause: AtomicU32,
    last_pause: AtomicU32,
    /// When it began, in picoseconds since the device was made.
    paused: AtomicU64,
    /// How long drivers have waited for helpers that were kept from their cores, less what help has saved since, in
    /// picoseconds.
    debt: AtomicU64,
}

#[derive(Debug, Default)]
struct Resources {
    command_buffer: Option<Arc<CommandBuffer>>,
    /// What is bound to the slots.
    table: Vec<BufferBinding<'static>>,
}

/// Every so many measured executions, dispatches that gain by help are run alone, and those that do not with help.
const ALONE_EVERY: u32 = 32;
const HELPED_EVERY: u32 = 8;
/// Dispatches that save less than so many picoseconds by help are not offered.
const LEAST_GAIN: u64 = 400_000;
/// The greatest [`Team::reluctance`].
const GREATEST_RELUCTANCE: u32 = 64;
/// Transfers are divided in steps of so many bytes, if they are of as many.
const CHUNK: u64 = if cfg!(perturb) { 64 } else { 4096 };
const LEAST_DIVIDED_TRANSFER: u64 = if cfg!(perturb) { 1 } else { 64 << 10 };
/// Blocks of a transfer for each thread.
const BLOCKS_OF_TRANSFER: u64 = 2;
/// A driver that waits so much longer than blocks take had a helper that another program keeps from its core.
const STALL: Duration = Duration::from_micros(200);
/// When such helpers have cost so many picoseconds more than help has saved, there is a pause. A helper that has just been
/// woken often is kept once or twice, by a few milliseconds, above all in virtual machines.
const GREATEST_DEBT: u64 = 20_000_000_000;
/// The first and the longest pause, in dispatches.
const PAUSES: (u32, u32) = (64, 1 << 16);
/// A pause that so many picoseconds have passed since says nothing about the next.
const FORGOTTEN: u64 = 2_000_000_000_000;
/// How often a helper looks into its lane for each look at anything else.
pub(super) const LOOKS: u32 = 16;
/// Rounds of these, of which in the first it looks into all lanes.
const ROUNDS: u32 = 64;

/// An execution that is under way.
struct Drive<'a> {
    scheduler: &'a Scheduler,
    team: &'a Team,
    command_buffer: &'a Arc<CommandBuffer>,
    commands: &'a Commands,
    table: &'a [BufferBinding<'a>],
    how: Inline,
    seat: Seat,
    /// Blocks that helpers have finished or will have, of all offers.
    expected: u64,
    /// Some dispatch was divided.
    helped: bool,
    counted: bool,
}

/// How a dispatch is divided.
struct Division {
    workgroups: u64,
    /// Workgroups that are claimed at once.
    block: u64,
    /// Bits of the helpers' lanes.
    helpers: u64,
    /// How long the last blocks may take.
    patience: Duration,
    /// What the helpers save, in picoseconds.
    gain: u64,
}

/// What the thread is to the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// It has offered nothing yet.
    None,
    /// It is the driver.
    Driver,
    /// Another thread is the driver.
    Other,
}

/// Runs all commands in order; true where helpers had a part.
pub(super) fn execute(
    scheduler: &Scheduler,
    command_buffer: &Arc<CommandBuffer>,
    table: &[BufferBinding<'_>],
    how: Inline,
) -> Result<bool> {
    let commands = command_buffer.commands()?;
    execution::check_table(commands, table)?;
    let _moving = moves::begin(commands)?;
    let team = scheduler.team();
    let mut drive = Drive {
        scheduler,
        team,
        command_buffer,
        commands,
        table,
        how,
        seat: Seat::None,
        expected: 0,
        helped: false,
        counted: false,
    };
    if how.awaited && team.helpers() == 0 {
        scheduler.call_helper();
    }
    if team.helpers() != 0 {
        // Those who look for work do so longer while there is a driver.
        drive.take_seat();
    }
    let mut scratch = Scratch::take();
    let result = commands.list.iter().enumerate().try_for_each(|(index, command)| {
        drive.command(index, command, &mut scratch).map_err(|error| execution::describe(error, index, command))
    });
    scratch.give_back();
    let helped = drive.helped;
    drive.leave();
    result.map(|()| helped)
}

/// Runs blocks of a command, of which this thread has claimed one, until there are no more. A workgroup of a transfer is a
/// [`CHUNK`].
fn run(
    scheduler: &Scheduler,
    commands: &Commands,
    command: &Command,
    table: &[BufferBinding<'_>],
    scratch: &mut Scratch,
    blocks: &mut impl Iterator<Item = Range<u64>>,
) -> Result<()> {
    if let Command::Dispatch(dispatch) = command {
        let count = scheduler.team().workgroup_count.each_ref().map(|word| word.load(Ordering::Relaxed));
        return execution::execute_blocks(commands, dispatch, count, table, scratch, scheduler.threads(), blocks);
    }
    let bytes = |chunk: u64| usize::try_from(chunk.saturating_mul(CHUNK)).unwrap_or(usize::MAX);
    blocks.try_for_each(|block| {
        execution::execute_transfer_part(commands, command, table, bytes(block.start)..bytes(block.end))
    })
}

impl Drive<'_> {
    /// As [`Drive::division`] for a transfer.
    fn division_of_transfer(&mut self, command: &Command) -> Result<Option<Division>> {
        if !self.how.helped || matches!(command, Command::Barrier) {
            return Ok(None);
        }
        let helpers = self.team.helpers();
        if helpers == 0 {
            return Ok(None);
        }
        let bytes = execution::divisible_bytes(self.commands, command, self.table)?;
        let Some(bytes) = bytes.filter(|bytes| *bytes >= LEAST_DIVIDED_TRANSFER) else { return Ok(None) };
        if !self.take_seat() || self.pauses() {
            return Ok(None);
        }
        // Few blocks, always the same ones by the same threads, for what is copied has often been written by a copy.
        let chunks = bytes.div_ceil(CHUNK);
        let threads = u64::from(helpers.count_ones()) + 1;
        let block = chunks.div_ceil(threads * BLOCKS_OF_TRANSFER);
        Ok(Some(Division { workgroups: chunks, block, helpers, patience: STALL, gain: 0 }))
    }

    /// True where nothing is offered for now, as a helper kept the driver waiting.
    fn pauses(&self) -> bool {
        let pause = self.team.counts.pause.load(Ordering::Relaxed);
        if pause > 0 {
            self.team.counts.pause.store(pause - 1, Ordering::Relaxed);
        }
        pause > 0
    }

    #[inline]
    fn command(&mut self, index: usize, command: &Command, scratch: &mut Scratch) -> Result<()> {
        let recording = profile::is_on();
        let Command::Dispatch(dispatch) = command else {
            if let Some(division) = self.division_of_transfer(command)? {
                return self.divide(index, command, &division, scratch).map(|_| ());
            }
            if recording {
                return execution::execute_recorded(self.commands, index, command, self.table, scratch);
            }
            return execution::execute_command(self.commands, command, self.table, scratch);
        };
        let (count, total) = execution::workgroup_count(self.commands, dispatch, self.table)?;
        let start = (self.how.measured != Measured::No).then(Instant::now);
        let divided = match self.division(dispatch, total) {
            Some(division) => {
                let words = self.team.workgroup_count.iter().zip(count);
                words.for_each(|(word, count)| word.store(count, Ordering::Relaxed));
                Some(self.divide(index, command, &division, scratch)?)
            }
            None if recording => {
                execution::execute_recorded(self.commands, index, command, self.table, scratch)?;
                None
            }
            None => {
                execution::execute_command(self.commands, command, self.table, scratch)?;
                None
            }
        };
        if let (Some(start), 1..) = (start, total) {
            let time = picoseconds(start.elapsed()) / total;
            let (executable, function) = (&dispatch.executable, dispatch.function);
            if let (Some(cost), None) = (executable.cost(function), divided) {
                cost.learn(time);
            }
            // Where nobody came that was offered a part, it says nothing of either way.
            if let (Some(ways), None | Some(true)) = (executable.ways(function), divided) {
                ways.learn(time, divided.is_some());
            }
        }
        Ok(())
    }

    /// How a dispatch is divided, and among whom; `None` where the driver runs it alone.
    #[inline]
    fn division(&mut self, dispatch: &Dispatch, total: u64) -> Option<Division> {
        if !(2..MAXIMUM_WORKGROUPS).contains(&total) || self.seat == Seat::Other || !self.how.helped {
            return None;
        }
        if cfg!(perturb) {
            return self.forced_division(dispatch, total);
        }
        let own = dispatch.executable.cost(dispatch.function)?.get()?;
        let work = own.saturating_mul(total);
        // Half of it is what one helper saves at most.
        if work < 2 * LEAST_GAIN {
            return None;
        }
        let ways = dispatch.executable.ways(dispatch.function)?;
        let pays = ways.help_pays(|_| 0);
        let every = if pays { ALONE_EVERY } else { HELPED_EVERY };
        let tried = matches!(self.how.measured, Measured::Yes(turn) if turn.is_multiple_of(every));
        let info = dispatch.executable.code().functions().get(dispatch.function)?;
        if info.sequential {
            return None;
        }
        if pays == tried {
            if !pays && self.how.tried {
                // Where help as a whole did not pay, single dispatches are not tried by themselves.
                ways.reconsider_help();
            }
            return None;
        }
        if self.pauses() {
            return None;
        }
        let helpers = self.team.crew.helpers();
        if helpers == 0 && !pays {
            // Nobody is woken to find out.
            ways.reconsider_help();
            return None;
        }
        let mut threads = helpers.count_ones() as usize + 1;
        // Nobody is woken for a trial.
        if threads < self.scheduler.concurrency() && !self.how.tried {
            let estimate = Estimate::of_dispatch(Some(own), total, false, threads + 1);
            self.miss(&estimate, threads);
        }
        if helpers == 0 {
            // One that comes while this dispatch is under way takes of the driver's blocks.
            if !self.scheduler.expects_threads() {
                return None;
            }
            threads += 1;
        }
        if !self.take_seat() {
            return None;
        }
        let Estimate { block, blocks, work, .. } = Estimate::of_dispatch(Some(own), total, false, threads);
        if !(2..=MAXIMUM_BLOCKS).contains(&blocks) {
            return None;
        }
        let patience = STALL + 2 * Duration::from_nanos(own.saturating_mul(block) / 1000);
        Some(Division { block, workgroups: total, helpers, patience, gain: work - work / threads as u64 })
    }

    /// As [`Drive::division`] where everything that can be shared is, whether that pays or not.
    fn forced_division(&mut self, dispatch: &Dispatch, total: u64) -> Option<Division> {
        let info = dispatch.executable.code().functions().get(dispatch.function)?;
        if info.sequential || total > MAXIMUM_BLOCKS || !self.take_seat() {
            return None;
        }
        let helpers = self.team.crew.helpers();
        Some(Division { block: 1, workgroups: total, helpers, patience: STALL, gain: 0 })
    }

    /// Counts what one more helper would save, and wakes one if that has become worth it.
    fn miss(&mut self, estimate: &Estimate, threads: usize) {
        let by = |threads: u64| estimate.work / threads.min(estimate.blocks).max(1);
        let gain = by(threads as u64) - by(threads as u64 + 1);
        // Counts that are lost to another thread do no harm.
        let missed = self.team.counts.missed.load(Ordering::Relaxed).saturating_add(gain);
        let reluctance = u64::from(self.team.counts.reluctance.load(Ordering::Relaxed)) + 1;
        if missed < reluctance.saturating_mul(self.scheduler.worth_waking()) {
            self.team.counts.missed.store(missed, Ordering::Relaxed);
            return;
        }
        self.team.counts.missed.store(0, Ordering::Relaxed);
        self.team.counts.called.store(true, Ordering::Relaxed);
        self.scheduler.call_helper();
        // Who comes stays as long as there is a driver.
        self.take_seat();
    }

    /// Becomes the driver, if nobody else is.
    fn take_seat(&mut self) -> bool {
        if self.seat != Seat::None {
            return self.seat == Seat::Driver;
        }
        let is_taken = || self.team.taken.swap(true, Ordering::Acquire);
        if cfg!(perturb) {
            // Every execution is shared.
            while is_taken() {
                yield_now();
            }
        } else if is_taken() {
            self.seat = Seat::Other;
            // Helpers leave where callers alone keep all cores busy.
            self.scheduler.count_caller();
            self.counted = true;
            return false;
        }
        self.seat = Seat::Driver;
        self.expected = self.team.crew.finished();
        let mut resources = self.team.write();
        resources.command_buffer = Some(Arc::clone(self.command_buffer));
        resources.table.extend(self.table.iter().map(BufferBinding::to_own));
        true
    }

    /// Runs a command together with helpers; true where any came.
    fn divide(&mut self, index: usize, command: &Command, division: &Division, scratch: &mut Scratch) -> Result<bool> {
        let team = self.team;
        // Commands are numbered by 32 bits.
        let &Division { workgroups, block, helpers, patience, gain } = division;
        let blocks = team.crew.offer(Offer { command: index as u32, workgroups, block }, helpers);
        let mut own = 0;
        let mut done = 0;
        let start = profile::is_on().then(Instant::now);
        let mut claims = core::iter::from_fn(|| team.crew.claim(DRIVER)).map(|claim| {
            own += 1;
            done += claim.workgroups.end - claim.workgroups.start;
            claim.workgroups
        });
        let result = run(self.scheduler, self.commands, command, self.table, scratch, &mut claims);
        if result.is_err() {
            // What is left is not run by anybody.
            claims.for_each(drop);
        }
        if let Some(start) = start {
            execution::record(start, self.commands, command, self.table, done, true);
        }
        self.expected += blocks - own;
        if own < blocks {
            self.helped = true;
            self.wait(patience);
            self.saved(gain);
            if team.failed.load(Ordering::Relaxed) {
                return Err(self.failure().unwrap_or_else(|| Error::internal("helper failed")));
            }
        }
        result.map(|()| own < blocks)
    }

    /// Waits for the blocks that helpers have begun, and takes it into account where that is longer than expected.
    fn wait(&self, patience: Duration) {
        let crew = &self.team.crew;
        for _ in 0..LOOKS_BEFORE_YIELDING {
            if crew.finished() == self.expected {
                return;
            }
            spin_loop();
        }
        let start = Instant::now();
        while crew.finished() != self.expected {
            // A helper may be waiting for this core.
            yield_now();
        }
        let waited = start.elapsed();
        if waited > patience {
            self.stalled(waited);
        }
    }

    #[cold]
    fn stalled(&self, waited: Duration) {
        let counts = &self.team.counts;
        let debt = counts.debt.load(Ordering::Relaxed).saturating_add(picoseconds(waited));
        if debt <= GREATEST_DEBT {
            counts.debt.store(debt, Ordering::Relaxed);
            return;
        }
        let now = self.scheduler.now();
        let recently = now.saturating_sub(counts.paused.load(Ordering::Relaxed)) < FORGOTTEN;
        let pause = if recently { counts.last_pause.load(Ordering::Relaxed).saturating_mul(2) } else { 0 };
        let pause = pause.clamp(PAUSES.0, PAUSES.1);
        counts.debt.store(GREATEST_DEBT / 2, Ordering::Relaxed);
        counts.paused.store(now, Ordering::Relaxed);
        counts.last_pause.store(pause, Ordering::Relaxed);
        counts.pause.store(pause, Ordering::Relaxed);
    }

    /// Takes into account that a helper came and has saved some picoseconds.
    fn saved(&self, gain: u64) {
        let debt = &self.team.counts.debt;
        let known = debt.load(Ordering::Relaxed);
        if known > 0 {
            debt.store(known.saturating_sub(gain), Ordering::Relaxed);
        }
    }

    fn failure(&self) -> Option<Error> {
        self.team.failed.store(false, Ordering::Relaxed);
        self.team.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives up what was bound.
    fn leave(self) {
        match self.seat {
            Seat::Driver => {
                let mut resources = self.team.write();
                // The table keeps its memory for the next execution.
                resources.table.clear();
                resources.command_buffer = None;
                drop(resources);
                self.team.taken.store(false, Ordering::Release);
            }
            Seat::Other if self.counted => self.scheduler.discount_caller(),
            _ => {}
        }
    }
}

impl Team {
    /// A team of up to so many threads.
    pub(super) fn new(threads: usize) -> Team {
        Team {
            crew: Crew::new(threads),
            workgroup_count: Apart::default(),
            taken: Apart::default(),
            resources: Apart::default(),
            failure: Mutex::default(),
            failed: AtomicBool::new(false),
            counts: Apart::default(),
        }
    }

    /// Bits of the lanes of those who look for work.
    #[inline]
    pub(super) fn helpers(&self) -> u64 {
        self.crew.helpers()
    }

    /// True where a thread executes commands with help just now.
    pub(super) fn has_driver(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Makes the calling thread a helper until it drops what it is given; `None` where there are enough.
    pub(super) fn join(&self) -> Option<Helper<'_>> {
        let lane = self.crew.join()?;
        Some(Helper { team: self, lane, scratch: Some(Scratch::take()), rounds: 0 })
    }

    /// Takes into account whether a thread that was woken found anything to do.
    pub(super) fn learn_wake_up(&self, useful: bool) {
        if !self.counts.called.swap(false, Ordering::Relaxed) {
            return;
        }
        let reluctance = self.counts.reluctance.load(Ordering::Relaxed);
        let next = if useful { 0 } else { (2 * reluctance + 1).min(GREATEST_RELUCTANCE) };
        if next != reluctance {
            self.counts.reluctance.store(next, Ordering::Relaxed);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Resources> {
        self.resources.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Resources> {
        self.resources.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs blocks of a dispatch until there are no more, and gives their number.
    fn help(&self, scheduler: &Scheduler, first: Claim, lane: usize, scratch: &mut Scratch) -> u64 {
        let mut blocks = 0;
        let mut done = 0;
        let Claim { command: index, workgroups } = first;
        // As long as one block is not counted as finished, all are of the same offer.
        // Fused: after `None`, a lane that the driver sets last may hold blocks again. They are left to the driver, or to the
        // next call, as `run` does not come back to them.
        let mut claims = core::iter::once(workgroups)
            .chain(core::iter::from_fn(|| self.crew.claim(lane).map(|claim| claim.workgroups)).fuse())
            .inspect(|workgroups| {
                blocks += 1;
                done += workgroups.end - workgroups.start;
            });
        let resources = self.read();
        let commands = resources.command_buffer.as_ref().and_then(|buffer| buffer.commands().ok());
        let command = commands.and_then(|commands| Some((commands, commands.list.get(index as usize)?)));
        let start = profile::is_on().then(Instant::now);
        let result = match command {
            _ if self.failed.load(Ordering::Relaxed) => Ok(()),
            Some((commands, command)) => run(scheduler, commands, command, &resources.table, scratch, &mut claims),
            _ => Err(Error::internal("command buffer of an execution is gone")),
        };
        // After a failure what is left is counted and not run.
        claims.for_each(drop);
        if let (Some(start), Some((commands, command))) = (start, command) {
            execution::record(start, commands, command, &resources.table, done, false);
        }
        if let Err(error) = result {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.failed.store(true, Ordering::Relaxed);
        }
        blocks
    }
}

/// A thread that helps.
pub(super) struct Helper<'a> {
    team: &'a Team,
    lane: usize,
    /// There until the end.
    scratch: Option<alloc::boxed::Box<Scratch>>,
    rounds: u32,
}

impl Helper<'_> {
    /// Looks for something to do for a moment, and does it; true where there was something.
    pub(super) fn look(&mut self, scheduler: &Scheduler) -> bool {
        let crew = &self.team.crew;
        // Others' lanes are left alone but for an offer from before this thread came.
        let everywhere = self.rounds.is_multiple_of(ROUNDS);
        self.rounds = self.rounds.wrapping_add(1);
        let mut claim = if everywhere { crew.claim(self.lane) } else { None };
        for _ in 0..LOOKS {
            if claim.is_some() {
                break;
            }
            spin_loop();
            claim = crew.claim_own(self.lane);
        }
        let (Some(claim), Some(scratch)) = (claim, &mut self.scratch) else { return false };
        let blocks = self.team.help(scheduler, claim, self.lane, scratch);
        crew.finish(blocks);
        true
    }
}

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.team.crew.leave(self.lane);
        if let Some(scratch) = self.scratch.take() {
            scratch.give_back();
        }
    }
}
