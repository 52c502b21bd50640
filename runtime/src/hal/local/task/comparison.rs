//! Whether executions in order are run with help or without.

use core::sync::atomic::{AtomicU32, Ordering};

use super::super::cost::Ways;
use super::plan::{Inline, Measured};

/// Whether executions in order gain by help, as found by running them both ways.
///
/// What single dispatches gain is not all, for what a helper leaves in its core's cache is missed by the next command.
#[derive(Debug, Default)]
pub(in crate::hal) struct Comparison {
    executions: AtomicU32,
    /// The execution with which the next trial of the other way begins.
    trial: AtomicU32,
    /// Trials of help in a row after which help was still not the faster way.
    vain: AtomicU32,
    ways: Ways,
}

impl Comparison {
    /// How the next execution is run. Counts that are lost to another thread do no harm.
    #[inline]
    pub(super) fn choose(&self) -> Inline {
        let execution = self.executions.load(Ordering::Relaxed);
        self.executions.store(execution.wrapping_add(1), Ordering::Relaxed);
        let time = self.time();
        let every = if time.is_some_and(|time| time > LONG) { LONG_MEASURED_EVERY } else { MEASURED_EVERY };
        let faster_helped = self.ways.help_pays(|alone| alone / 32);
        // The other way some times in a row, of which the first find caches as they were.
        let step = execution.wrapping_sub(self.trial.load(Ordering::Relaxed));
        // A trial that is to come is far from here, as the difference wraps around.
        let tried = step < u32::MAX / 2 && self.tries(execution, step, faster_helped, time);
        let measured = match tried {
            true => !faster_helped || step >= TRIED / 2,
            false => execution.is_multiple_of(every),
        };
        // Single dispatches are not tried the other way while the whole is.
        let turn = if tried { 1 } else { execution / every };
        Inline {
            measured: if measured { Measured::Yes(turn) } else { Measured::No },
            helped: faster_helped != tried,
            tried,
            awaited: step == 0 && !faster_helped,
        }
    }

    /// True as long as a trial goes on, of which there were so many executions; else, and with its last one, the next is
    /// planned.
    #[cold]
    fn tries(&self, execution: u32, step: u32, faster_helped: bool, time: Option<u64>) -> bool {
        let length = if faster_helped { TRIED } else { executions_in(TRIAL_OF_HELP, time, TRIALS_OF_HELP) };
        // The length may have changed meanwhile.
        if step >= length - 1 {
            self.trial.store(execution.wrapping_add(self.pause(faster_helped, time)), Ordering::Relaxed);
        }
        step < length
    }

    /// Executions until the next trial, of which one has just ended.
    fn pause(&self, faster_helped: bool, time: Option<u64>) -> u32 {
        let vain = if faster_helped { 0 } else { self.vain.load(Ordering::Relaxed).saturating_add(1) };
        self.vain.store(vain, Ordering::Relaxed);
        let pause = match faster_helped {
            true => PAUSE_OF_HELP,
            false => FIRST_PAUSE << (vain - 1).min(DOUBLED),
        };
        executions_in(pause, time, PAUSES)
    }

    /// Takes into account how long an execution took.
    pub(super) fn learn(&self, picoseconds: u64, helped: bool) {
        self.ways.learn(picoseconds, helped);
    }

    /// The time that is to be expected of the faster way.
    pub(super) fn time(&self) -> Option<u64> {
        self.ways.time()
    }
}

/// How many executions of a time make another one, within bounds.
pub(super) fn executions_in(picoseconds: u64, time: Option<u64>, bounds: (u32, u32)) -> u32 {
    u32::try_from(picoseconds / time.unwrap_or(LONG).max(1)).unwrap_or(u32::MAX).clamp(bounds.0, bounds.1)
}

/// How often in a row executions without help are tried, and for how many picoseconds those with help, within bounds: the
/// threads have to be woken first.
const TRIED: u32 = 4;
const TRIAL_OF_HELP: u64 = 3_000_000_000;
const TRIALS_OF_HELP: (u32, u32) = (4, 512);
/// Picoseconds of executions from one trial to the next where help is the faster way; where it is not, after the first
/// trial, and how often they are doubled as long as it stays so. What other programs do to the cores changes from second to
/// second.
const PAUSE_OF_HELP: u64 = 100_000_000_000;
const FIRST_PAUSE: u64 = 20_000_000_000;
const DOUBLED: u32 = 4;
/// Bounds of the same in executions.
const PAUSES: (u32, u32) = (16, 1 << 20);
/// Every so many executions that are no trial are measured.
pub(super) const MEASURED_EVERY: u32 = 16;
/// The same of those that take longer than so many picoseconds.
const LONG_MEASURED_EVERY: u32 = 4;
const LONG: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs executions that take so long, in microseconds; gives how many had help.
    fn run(comparison: &Comparison, executions: u32, alone: u64, helped: u64) -> u32 {
        let mut count = 0;
        for _ in 0..executions {
            let how = comparison.choose();
            count += u32::from(how.helped);
            if how.measured != Measured::No {
                comparison.learn(1_000_000 * if how.helped { helped } else { alone }, how.helped);
            }
        }
        count
    }

    #[test]
    fn the_faster_way_is_found_and_found_again() {
        let comparison = Comparison::default();
        assert!(run(&comparison, 1000, 90, 70) > 980);
        // Something keeps the other cores busy for long.
        run(&comparison, 2000, 90, 150);
        let helped = run(&comparison, 10_000, 90, 150);
        assert!((1..400).contains(&helped), "{helped}");
        // It goes away. The longest time between trials is a third of a second.
        run(&comparison, 10_000, 90, 70);
        let helped = run(&comparison, 10_000, 90, 70);
        assert!(helped > 9900, "{helped}");
    }

    #[test]
    fn single_disturbances_change_nothing() {
        let comparison = Comparison::default();
        run(&comparison, 1000, 90, 70);
        for _ in 0..20 {
            comparison.learn(4_000_000_000, true);
            assert!(run(&comparison, 200, 90, 70) >= 200 - TRIED);
        }
    }

    #[test]
    fn who_is_no_help_is_called_seldom() {
        let comparison = Comparison::default();
        run(&comparison, 100_000, 2, 3);
        let calls = (0..1_000_000).filter(|_| {
            let how = comparison.choose();
            if how.measured != Measured::No {
                comparison.learn(if how.helped { 3_000_000 } else { 2_000_000 }, how.helped);
            }
            how.awaited
        });
        // Two seconds.
        let calls = calls.count();
        assert!((1..10).contains(&calls), "{calls}");
    }
}
