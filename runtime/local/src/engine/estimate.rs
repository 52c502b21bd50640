//! The expected time of commands, and how they are cut into chunks. All times are in picoseconds.

use super::super::cost::kernel_cost;
use crate::FunctionInfo;
use crate::hal::Executable;
use crate::hal::backend::{Command, Commands, Dispatch, WorkgroupCount};

/// The least time of a chunk. With 1 us, sixty chained dispatches of 1.6 us took 1.2 times as long on two threads as on one;
/// with 2 us, 1.0 times (`benches/peer/run --drivers`, `chain`).
pub(super) const MINIMUM_CHUNK: u64 = 2_000_000;
/// The most chunks of a dispatch for each thread: the more, the more evenly the threads finish, and the less each keeps in
/// its core's cache (`benches/peer/run --drivers`).
const CHUNKS_PER_THREAD: u64 = 8;
/// The least time of an execution that does not keep the submitting thread.
pub(super) const ASYNCHRONOUS: u64 = 1_000_000_000;
/// The time of a workgroup that has never been measured: it may take any time, so the submitting thread is not kept.
const UNMEASURED_WORKGROUP: u64 = ASYNCHRONOUS;
/// The time of a transferred byte (`benches/peer/run --drivers`, the copies of lstm): 10 GB/s.
const BYTE: u64 = 100;

/// The time of a dispatch.
pub(super) fn of_workgroups(workgroup: Option<u64>, workgroups: u64) -> u64 {
    workgroup.unwrap_or(UNMEASURED_WORKGROUP).saturating_mul(workgroups)
}

/// The time of a transfer.
pub(super) fn of_bytes(bytes: u64) -> u64 {
    bytes.saturating_mul(BYTE)
}

/// The number of chunks of a command that consists of `units`, at least 1.
pub(super) fn chunks(time: u64, units: u64, threads: usize) -> u64 {
    if threads < 2 {
        return 1;
    }
    // A stress test has as many chunks as there can be.
    let wanted = if cfg!(perturb) { u64::MAX } else { time / MINIMUM_CHUNK };
    wanted.min(CHUNKS_PER_THREAD * threads as u64).min(units).max(1)
}

/// The time up to which the workgroups of a call of a kernel stay together in a chunk.
const LONGEST_UNIT: u64 = 8 * MINIMUM_CHUNK;
/// The parts for each thread of what is divided although parts share operands, which each packs for itself: at most so many of a loop of a
/// kernel, and so many where calls of several workgroups are cut.
const PARTS_PER_THREAD: u64 = 2;

/// The number of workgroups that stay together in the chunks of a dispatch that takes so long: those of a call, or whole rows where calls do
/// not end where rows do. Fewer, where that would keep threads from work: they are cut so that each thread has two parts or more.
fn unit(most: u32, [x, y, z]: [u32; 3], time: u64, threads: usize) -> u64 {
    let call = most.min(x).max(1);
    let unit = if x.is_multiple_of(call) || (y, z) == (1, 1) { call } else { x };
    let rows = u64::from(y).saturating_mul(z.into());
    let units = u64::from(x.div_ceil(unit)).saturating_mul(rows);
    if time / units.max(1) <= LONGEST_UNIT {
        return unit.into();
    }
    let part = u64::from(x).saturating_mul(rows) / (PARTS_PER_THREAD * threads.max(1) as u64);
    part.min(unit.into()).max(1)
}

/// The same of a dispatch of a function: all `workgroups`, if they run one after another.
pub(super) fn unit_of(
    function: Option<&FunctionInfo>,
    count: [u32; 3],
    workgroups: u64,
    (time, threads): (u64, usize),
) -> u64 {
    let divisible = function.filter(|function| !function.sequential);
    divisible.map_or(workgroups, |function| unit(function.coarsening.most, count, time, threads))
}

/// The number of parts of a loop of a kernel, at least 1.
pub(super) fn parts(time: u64, iterations: u64, threads: usize) -> u64 {
    let wanted = if cfg!(perturb) { u64::MAX } else { time / MINIMUM_CHUNK };
    wanted.min(PARTS_PER_THREAD * threads as u64).min(iterations).max(1)
}

/// The expected time of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Of all commands.
    pub(super) total: u64,
    /// Of the stages that can be divided among threads.
    pub(super) divisible: u64,
    /// A kernel has never been measured.
    pub(super) is_unmeasured: bool,
}

impl Estimate {
    /// The expected time of recorded commands. Workgroup counts that are read when a dispatch runs are taken for one workgroup, and
    /// transfers of all that is bound to a slot for nothing.
    pub(super) fn of(commands: &Commands, threads: usize) -> Estimate {
        let mut estimate = Estimate::default();
        let (mut stage, mut chunks) = (0u64, 0u64);
        for command in commands.list() {
            let (time, units) = match (command, command.transfer()) {
                (_, Some(transfer)) if transfer.is_divisible => {
                    let bytes = commands.recorded_length(transfer.target).unwrap_or(0);
                    (of_bytes(if bytes < 1 << 48 { bytes } else { 0 }), bytes)
                }
                (Command::Dispatch(dispatch), _) => {
                    let (time, units, is_measured) = of_dispatch(dispatch, threads);
                    estimate.is_unmeasured |= !is_measured;
                    (time, units)
                }
                (Command::Barrier, _) => {
                    estimate.add(stage, chunks);
                    (stage, chunks) = (0, 0);
                    continue;
                }
                _ => continue,
            };
            stage = stage.saturating_add(time);
            chunks += self::chunks(time, units, threads);
        }
        estimate.add(stage, chunks);
        estimate
    }

    fn add(&mut self, stage: u64, chunks: u64) {
        self.total = self.total.saturating_add(stage);
        if chunks >= 2 && stage >= 2 * MINIMUM_CHUNK {
            self.divisible = self.divisible.saturating_add(stage);
        }
    }
}

/// The bytes of a transfer that is not divided.
pub(super) const UNDIVIDED_BYTES: u64 = 2 * MINIMUM_CHUNK / BYTE - 1;

/// Whether a dispatch is expected to take so little time that it is not divided, whatever comes with it. The time of its kernel was
/// measured.
pub(super) fn is_undivided((executable, function): (&Executable, usize), [x, y, z]: [u32; 3]) -> bool {
    let workgroups = (u64::from(x) * u64::from(y)).saturating_mul(z.into());
    // A stress test divides all that it can.
    let cost = kernel_cost(executable, function).and_then(|cost| cost.get()).filter(|_| !cfg!(perturb));
    cost.is_some_and(|cost| of_workgroups(Some(cost), workgroups) < 2 * MINIMUM_CHUNK)
}

/// The expected time of a dispatch, into how many units it divides, and whether its kernel has been measured.
#[inline]
fn of_dispatch(dispatch: &Dispatch, threads: usize) -> (u64, u64, bool) {
    let count @ [x, y, z] = match dispatch.workgroup_count {
        WorkgroupCount::Direct(count) => count,
        WorkgroupCount::Indirect(_) => [1; 3],
    };
    let workgroups = (u64::from(x) * u64::from(y)).saturating_mul(z.into());
    let cost = kernel_cost(&dispatch.executable, dispatch.function).and_then(|cost| cost.get());
    let time = of_workgroups(cost, workgroups);
    // Only what takes long enough may be divided, so the table of functions is not read for most dispatches.
    let units = if time < 2 * MINIMUM_CHUNK || workgroups < 2 {
        workgroups
    } else {
        let function = dispatch.executable.functions().get(dispatch.function);
        workgroups.div_ceil(unit_of(function, count, workgroups, (time, threads)))
    };
    (time, units, cost.is_some() || workgroups == 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Coarsening;

    #[test]
    fn workgroups_of_a_call_stay_together_unless_they_take_long() {
        let unit = |coarsening, count, time| super::unit(coarsening, count, time, 2);
        assert_eq!(unit(8, [64, 1, 1], 0), 8);
        assert_eq!(unit(64, [8, 2, 1], MINIMUM_CHUNK), 8);
        // Calls begin anew in each row.
        assert_eq!((unit(8, [20, 1, 1], 0), unit(8, [20, 4, 1], 0)), (8, 20));
        assert_eq!((unit(0, [20, 4, 1], 0), unit(1, [20, 4, 1], u64::MAX)), (1, 1));
        let four = 4 * LONGEST_UNIT;
        assert_eq!((unit(32, [32, 1, 1], LONGEST_UNIT), unit(32, [32, 1, 1], four)), (32, 8));
        // Parts are no longer than calls, and two or more for each thread.
        assert_eq!((unit(4, [32, 1, 1], u64::MAX), unit(16, [11, 1, 1], u64::MAX)), (4, 2));
        assert_eq!((super::unit(64, [64, 1, 1], u64::MAX, 8), super::unit(64, [7, 1, 1], u64::MAX, 8)), (4, 1));
        assert_eq!(unit(64, [u32::MAX; 3], 0), u64::from(u32::MAX));
    }

    #[test]
    fn what_one_call_runs_is_one_unit() {
        let function = |most, sequential| {
            let coarsening = Coarsening { most, ..Coarsening::NONE };
            FunctionInfo { coarsening, sequential, ..FunctionInfo::default() }
        };
        let time = 4 * MINIMUM_CHUNK;
        let units = |function: Option<&FunctionInfo>, count: [u32; 3], time| {
            let workgroups = count.into_iter().map(u64::from).product::<u64>();
            workgroups.div_ceil(unit_of(function, count, workgroups, (time, 2)))
        };
        assert_eq!(units(Some(&function(64, false)), [48, 1, 1], time), 1);
        assert_eq!(units(Some(&function(16, false)), [40, 1, 1], time), 3);
        assert_eq!(units(Some(&function(0, false)), [4, 3, 2], time), 24);
        assert_eq!((units(Some(&function(1, true)), [40, 1, 1], time), units(None, [40, 1, 1], time)), (1, 1));
    }
}
