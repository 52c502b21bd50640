//! What a command buffer remembers from one execution to the next: its graph, and what it was measured to cost.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use super::super::super::commands::{BindingSource, BufferBinding, Command, Commands, Dispatch, WorkgroupCount};
use super::super::super::memory::MemoryAccess;
use super::super::cost::Cost;
use super::comparison::{Comparison, MEASURED_EVERY, executions_in};
use super::graph::Graph;

/// A command buffer's plan.
#[derive(Debug, Default)]
pub(in crate::hal) struct Plan {
    minimal: OnceLock<Arc<Graph>>,
    in_waves: OnceLock<Arc<Graph>>,
    /// Of all commands, one after the other, as measured.
    work: Cost,
    /// By how much several threads shorten that, in picoseconds, as estimated.
    gain: AtomicU64,
    executions: AtomicU32,
    /// From submission to the end, by the submitting thread.
    inline: Comparison,
    /// The same by several threads. Where other programs keep the cores busy it can be more.
    spread_time: Cost,
}

/// Executions of which several threads save less are not compared, but run by one.
const LEAST_COMPARED: u64 = 3_000_000;
/// Executions that cost more picoseconds than this are spread without comparing.
const LONGEST_COMPARED: u64 = 2_000_000_000;
/// Picoseconds between trials of what is slower of spreading and executing in order, and bounds of their number of executions.
/// It is tried some times in a row, of which the first pays for waking threads and for bringing memory to their caches.
const PAUSE_OF_SPREADING: u64 = 200_000_000_000;
const SPREADING_TRIED_EVERY: (u32, u32) = (64, 1 << 20);
const TRIALS: u32 = 4;
/// Of so many executions, the first are spread and the others are not; then the ways are compared.
const FIRST_SPREAD: u32 = 6;
const COMPARED_AFTER: u32 = 20;

/// What a workgroup is taken to cost before any has run, in picoseconds. Much, so that the first ones are spread and
/// measured.
const UNKNOWN_WORKGROUP: u64 = 20_000_000;
/// What transfers cost for each byte, in picoseconds.
const TRANSFERRED_BYTE: u64 = 100;
/// Executions of less than so many picoseconds are measured once in so many, as measuring one is a good part of its time.
const SHORT: u64 = 1_000_000;
const SHORT_MEASURED_EVERY: u32 = 256;
/// Commands of fewer picoseconds are executed without a thought of help.
const LEAST_HELPED: u64 = 2_000_000;
/// Blocks of fewer picoseconds than this are not worth being claimed.
const LEAST_BLOCK: u64 = 500_000;
/// Blocks that each thread finds in a dispatch that is large enough: the more, the more even the threads' ends.
const BLOCKS_FOR_EACH_THREAD: u64 = 32;
/// Dispatches below so many picoseconds are left to one thread.
const LEAST_SHARED: u64 = 2 * LEAST_BLOCK;
/// Commands whose buffers are compared pair by pair when they are bound.
const MOST_COMPARED: usize = 64;

/// What a command is expected to cost, and how it is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Of the whole command, in picoseconds.
    pub(super) work: u64,
    /// Workgroups that are claimed at once; at least 1.
    pub(super) block: u64,
    /// Number of blocks.
    pub(super) blocks: u64,
    /// Nothing like it has been measured.
    pub(super) unknown: bool,
}

impl Estimate {
    /// Of a command that one thread runs.
    fn whole(work: u64, workgroups: u64) -> Estimate {
        Estimate { work, block: workgroups.max(1), blocks: workgroups.min(1), unknown: false }
    }

    /// Of a dispatch of `workgroups`, by `threads`.
    pub(super) fn of_dispatch(workgroup: Option<u64>, workgroups: u64, sequential: bool, threads: usize) -> Estimate {
        let work = workgroup.unwrap_or(UNKNOWN_WORKGROUP).saturating_mul(workgroups);
        let unknown = workgroup.is_none();
        if sequential || workgroups < 2 || threads < 2 || work < LEAST_SHARED {
            return Estimate { unknown, ..Estimate::whole(work, workgroups) };
        }
        let most = (threads as u64).saturating_mul(BLOCKS_FOR_EACH_THREAD);
        let blocks = (work / LEAST_BLOCK).min(most).min(workgroups).max(1);
        let block = workgroups.div_ceil(blocks);
        Estimate { work, block, blocks: workgroups.div_ceil(block), unknown }
    }
}

/// How many workgroups a dispatch has, where that is not read when it runs.
fn direct_workgroups(dispatch: &Dispatch) -> Option<u64> {
    match dispatch.workgroup_count {
        WorkgroupCount::Direct(count) => Some(count.iter().fold(1u64, |all, n| all.saturating_mul(u64::from(*n)))),
        WorkgroupCount::Indirect(_) => None,
    }
}

/// What a command is expected to cost. Counts that are read when it runs are taken for one workgroup.
fn estimate(commands: &Commands, command: &Command, threads: usize) -> Estimate {
    let bytes = |binding: u32| commands.bindings.get(binding as usize).map_or(0, |binding| binding.length);
    match command {
        Command::Dispatch(dispatch) => {
            let workgroups = direct_workgroups(dispatch).unwrap_or(1);
            let sequential =
                dispatch.executable.code().functions().get(dispatch.function).is_some_and(|f| f.sequential);
            let workgroup = dispatch.executable.cost(dispatch.function).and_then(Cost::get);
            Estimate::of_dispatch(workgroup, workgroups, sequential, threads)
        }
        Command::Fill { target, .. } | Command::Update { target, .. } | Command::Copy { target, .. } => {
            // The rest of a buffer of unknown length is taken for little.
            let bytes = Some(bytes(*target)).filter(|bytes| *bytes < 1 << 48).unwrap_or(0);
            Estimate::whole(bytes.saturating_mul(TRANSFERRED_BYTE), 1)
        }
        Command::Move { .. } | Command::Barrier | Command::BeginDebugGroup { .. } | Command::EndDebugGroup => {
            Estimate::default()
        }
    }
}

/// What all commands together are expected to cost, in picoseconds.
struct Sums {
    work: u64,
    /// By how much threads shorten it.
    gain: u64,
}

/// `None` where the cost of any command is unknown.
fn sums(commands: &Commands, threads: usize) -> Option<Sums> {
    let mut sums = Sums { work: 0, gain: 0 };
    for command in &commands.list {
        let Estimate { work, blocks, unknown, .. } = estimate(commands, command, threads);
        if unknown {
            return None;
        }
        sums.work = sums.work.saturating_add(work);
        sums.gain = sums.gain.saturating_add(work - work / blocks.min(threads as u64).max(1));
    }
    Some(sums)
}

/// What a choice depends on beside the commands. Times in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) threads: usize,
    /// What has to be gained so that threads are woken.
    pub(super) least_gain: u64,
    /// The longest that a thread which submits may be kept from going on.
    pub(super) longest_inline: u64,
    /// How many were executed before.
    pub(super) turn: u32,
}

/// As [`Plan::choose`] for commands that are executed once. Handing them to another thread costs more than a few
/// microseconds gain: the program goes on to record the next ones, whose memory goes to and fro between the threads.
fn choose_once(commands: &Commands, bounds: &Bounds) -> Choice {
    let &Bounds { threads, least_gain, longest_inline, turn } = bounds;
    let inline = |work: u64| {
        if threads > 1
            && work >= LEAST_HELPED
            && let Some(comparison) = comparison_of(commands)
        {
            return Choice::Inline(comparison.choose());
        }
        let measured = if turn.is_multiple_of(MEASURED_EVERY) { Measured::Yes(1) } else { Measured::No };
        Choice::Inline(Inline { measured, ..Inline::default() })
    };
    if let Some(work) = quick_work(commands).filter(|work| *work <= longest_inline) {
        return inline(work);
    }
    let Some(Sums { work, gain }) = sums(commands, threads) else {
        return Choice::Spread { hands: threads };
    };
    if work <= longest_inline {
        return inline(work);
    }
    Choice::Spread { hands: hands(gain, least_gain, threads) }
}

/// What is known of command buffers like this one, which is executed once: by the first dispatch that may gain by help.
pub(super) fn comparison_of(commands: &Commands) -> Option<&Comparison> {
    commands.list.iter().find_map(|command| {
        let Command::Dispatch(dispatch) = command else { return None };
        let workgroups = direct_workgroups(dispatch)?;
        let cost = dispatch.executable.cost(dispatch.function)?.get()?;
        if workgroups < 2 || cost.saturating_mul(workgroups) < LEAST_SHARED {
            return None;
        }
        dispatch.executable.comparison(dispatch.function)
    })
}

/// What the dispatches of a command buffer are expected to cost, which is found out in less time than [`sums`]; `None` where
/// there are other commands that take any time, or the cost is unknown.
fn quick_work(commands: &Commands) -> Option<u64> {
    let bytes = |binding: u32| commands.bindings.get(binding as usize).map(|binding| binding.length);
    commands.list.iter().try_fold(0u64, |sum, command| {
        let work = match command {
            Command::Dispatch(dispatch) => {
                let WorkgroupCount::Direct([x, y, z]) = dispatch.workgroup_count else { return None };
                let workgroup = dispatch.executable.cost(dispatch.function)?.get()?;
                workgroup.saturating_mul(u64::from(x) * u64::from(y)).saturating_mul(z.into())
            }
            Command::Fill { target, .. } | Command::Update { target, .. } | Command::Copy { target, .. } => {
                bytes(*target)?.saturating_mul(TRANSFERRED_BYTE)
            }
            Command::Move { .. } | Command::Barrier | Command::BeginDebugGroup { .. } | Command::EndDebugGroup => 0,
        };
        Some(sum.saturating_add(work))
    })
}

/// As many threads as gain by an execution.
fn hands(gain: u64, least_gain: u64, threads: usize) -> usize {
    let hands = gain.checked_div(least_gain).map_or(u64::MAX, |more| more.saturating_add(1)).max(2);
    hands.min(threads as u64) as usize
}

/// How an execution is run in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inline {
    pub(super) measured: Measured,
    /// Dispatches are divided where that pays.
    pub(super) helped: bool,
    /// It is the way that seems slower, to see whether it still is.
    pub(super) tried: bool,
    /// A thread is woken if none is there.
    pub(super) awaited: bool,
}

/// Whether an execution is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Measured {
    #[default]
    No,
    /// As a whole and each dispatch; with the number of measured executions before.
    Yes(u32),
}

/// How an execution is best run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// In order by the thread that submits it.
    Inline(Inline),
    /// By all threads.
    Spread {
        /// As many threads as gain by it, with the calling one.
        hands: usize,
    },
}

impl Plan {
    /// Makes the graph, for commands that will be executed often.
    pub(in crate::hal) fn prepare(&self, commands: &Commands) {
        self.minimal.get_or_init(|| Arc::new(Graph::minimal(commands)));
    }

    /// The graph that holds for what is bound.
    pub(super) fn graph(&self, commands: &Commands, table: &[BufferBinding<'_>]) -> &Arc<Graph> {
        let minimal = self.minimal.get_or_init(|| Arc::new(Graph::minimal(commands)));
        if !minimal.needs_disjoint_slots() || disjoint(commands, table) {
            return minimal;
        }
        self.in_waves.get_or_init(|| Arc::new(Graph::in_waves(commands)))
    }

    /// Decides how to run an execution: by several threads if that gains more than `least_gain` picoseconds, or was seen to
    /// be faster, or if it takes longer than `longest_inline`, or any time.
    pub(super) fn choose(&self, commands: &Commands, once: bool, bounds: &Bounds) -> Choice {
        let &Bounds { threads, least_gain, longest_inline, .. } = bounds;
        if cfg!(perturb) && threads > 1 {
            return self.forced(once, bounds);
        }
        if once {
            return choose_once(commands, bounds);
        }
        let execution = self.executions.load(Ordering::Relaxed);
        // A count that is lost to another thread does no harm.
        self.executions.store(execution.wrapping_add(1), Ordering::Relaxed);
        let known = self.work.get();
        let is_short = known.is_some_and(|work| work < SHORT) && execution >= SHORT_MEASURED_EVERY;
        let measured = execution.is_multiple_of(if is_short { SHORT_MEASURED_EVERY } else { MEASURED_EVERY });
        let work = match known {
            Some(work) if !measured => work,
            known => {
                let Some(Sums { work: sum, mut gain }) = sums(commands, threads) else {
                    // It may take any time. The first execution tells.
                    return Choice::Spread { hands: threads };
                };
                if self.minimal.get().is_some_and(|graph| graph.concurrent()) && threads > 1 {
                    gain = gain.max(sum / 2);
                }
                // Estimates are of single kernels; what the whole was measured to take is the better scale.
                let work = known.unwrap_or(sum);
                let gain = (u128::from(gain) * u128::from(work) / u128::from(sum.max(1))) as u64;
                self.gain.store(gain, Ordering::Relaxed);
                work
            }
        };
        let gain = self.gain.load(Ordering::Relaxed);
        // What is executed again and again shows whether it gains in spite of wake-ups.
        let worth = if execution == 0 { least_gain } else { least_gain.min(LEAST_COMPARED) };
        let inline = |measured: bool| {
            if threads > 1 && work >= LEAST_HELPED {
                let how = self.inline.choose();
                let measured = if measured && how.measured == Measured::No { Measured::Yes(1) } else { how.measured };
                return Choice::Inline(Inline { measured, ..how });
            }
            let measured = if measured { Measured::Yes(0) } else { Measured::No };
            Choice::Inline(Inline { measured, ..Inline::default() })
        };
        if gain <= worth && work <= longest_inline {
            return inline(measured);
        }
        if work <= LONGEST_COMPARED && execution >= FIRST_SPREAD {
            let inline_time = self.inline.time();
            let every = executions_in(PAUSE_OF_SPREADING, inline_time, SPREADING_TRIED_EVERY);
            let trial = execution % every >= every - TRIALS;
            // Shared out it should take notably less, as other threads' time is spent on it; without commands that can run
            // at the same time, help does as well.
            let concurrent = self.minimal.get().is_some_and(|graph| graph.concurrent());
            let margin = |inline: u64| if concurrent { inline / 16 } else { inline / 4 };
            let faster_inline = match (inline_time, self.spread_time.get()) {
                _ if execution < COMPARED_AFTER => true,
                (Some(inline), Some(spread)) => spread >= inline - margin(inline),
                (inline, spread) => inline.is_none() && spread.is_some(),
            };
            if faster_inline != trial {
                return inline(measured || trial || execution < COMPARED_AFTER);
            }
        }
        Choice::Spread { hands: hands(gain, least_gain, threads) }
    }

    /// As [`Plan::choose`] where every execution is shared between threads, in one way or the other.
    fn forced(&self, once: bool, bounds: &Bounds) -> Choice {
        let turn = if once { bounds.turn } else { self.executions.fetch_add(1, Ordering::Relaxed) };
        if turn.is_multiple_of(8) {
            return Choice::Spread { hands: bounds.threads };
        }
        Choice::Inline(Inline { measured: Measured::No, helped: true, tried: false, awaited: true })
    }

    /// Takes into account how long an execution took that one thread ran, by itself or with help.
    pub(super) fn learn_inline(&self, picoseconds: u64, helped: bool) {
        if !helped {
            self.work.learn(picoseconds);
        }
        self.inline.learn(picoseconds, helped);
    }

    /// Takes into account what all commands of an execution cost that several threads ran, and how long it took.
    pub(super) fn learn_spread(&self, work: u64, time: u64) {
        self.work.learn(work);
        self.spread_time.learn_typical(time, None);
    }
}

/// True where no memory is bound to two slots, or to a slot and a command, unless it is only read.
fn disjoint(commands: &Commands, table: &[BufferBinding<'_>]) -> bool {
    let mut ranges = smallvec::SmallVec::<[(usize, usize, bool); 16]>::new();
    let mut fits = true;
    let mut add = |start: usize, length: usize, writable: bool| {
        if ranges.len() >= MOST_COMPARED {
            return false;
        }
        let end = start.saturating_add(length);
        let free = ranges.iter().all(|(other, other_end, other_writable)| {
            end <= *other || *other_end <= start || !(writable || *other_writable)
        });
        ranges.push((start, end, writable));
        free
    };
    for bound in table {
        let Some(buffer) = &bound.buffer else { continue };
        // A range that leaves its buffer is an error that is found when a command uses it.
        let Ok((offset, length)) = buffer.range(bound.offset, bound.length) else { continue };
        // There is no memory for it, which is found when a command uses it; until then it may be anywhere.
        let Ok(address) = buffer.identity() else { return false };
        fits &= add(address + offset, length, buffer.access().contains(MemoryAccess::WRITE));
    }
    let slots: smallvec::SmallVec<[(usize, usize, bool); 16]> = ranges.clone();
    // Commands on the same buffers are compared when the graph is made; these here with slots alone.
    let directs = commands.bindings.iter().filter_map(|binding| match binding.source {
        BindingSource::Direct(index) => commands.buffers.get(index as usize).map(|buffer| (binding, buffer)),
        BindingSource::Slot(_) => None,
    });
    for (binding, buffer) in directs.filter(|_| !slots.is_empty()) {
        let Ok(address) = buffer.identity() else { return false };
        let start = address.saturating_add(binding.offset as usize);
        let end = start.saturating_add(binding.length as usize);
        let writable = buffer.access().contains(MemoryAccess::WRITE);
        fits &= slots.iter().all(|(other, other_end, other_writable)| {
            end <= *other || *other_end <= start || !(writable || *other_writable)
        });
    }
    fits
}
