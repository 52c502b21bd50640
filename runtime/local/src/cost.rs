//! The measured cost of kernels, from which the engine estimates the time of a dispatch.

use crate::vm::clock::Instant;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::hal::Executable;

/// A running mean of a cost, in picoseconds; updates of several threads may get lost, which does no harm.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    /// Zero is unknown.
    picoseconds: AtomicU64,
}

/// A measurement counts at most as this many times of what is known, so that one during which the thread was interrupted
/// changes little.
const GREATEST_RISE: u64 = 8;
/// Part of the difference by which a measurement changes what is known.
const WEIGHT: u64 = 4;
/// The greatest cost that is distinguished: a thousand seconds.
const GREATEST: u64 = 1_000_000_000_000_000;

impl Cost {
    /// The cost in picoseconds; `None` before the first measurement.
    #[inline]
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.picoseconds.load(Ordering::Relaxed)).filter(|known| *known != 0)
    }

    /// Takes a measurement into account.
    #[inline]
    pub(crate) fn learn(&self, picoseconds: u64) {
        let measured = picoseconds.clamp(1, GREATEST);
        let known = self.picoseconds.load(Ordering::Relaxed);
        let mean = match known {
            0 => measured,
            known => {
                let measured = measured.min(known.saturating_mul(GREATEST_RISE));
                (known - known / WEIGHT + measured / WEIGHT).max(1)
            }
        };
        if mean != known {
            self.picoseconds.store(mean, Ordering::Relaxed);
        }
    }
}

/// The costs of a workgroup of each function of an executable.
#[derive(Debug)]
struct KernelCosts(Box<[Cost]>);

/// The cost of a workgroup of a function.
#[inline]
pub(crate) fn kernel_cost(executable: &Executable, function: usize) -> Option<&Cost> {
    let costs =
        executable.backend_data(|| KernelCosts(executable.functions().iter().map(|_| Cost::default()).collect()))?;
    costs.0.get(function)
}

/// Takes into account that `workgroups` of a function's dispatch ran from `start` until now.
pub(crate) fn measure(start: Instant, (executable, function): (&Executable, usize), workgroups: u64) {
    if let Some(cost) = kernel_cost(executable, function)
        && let Some(time) = picoseconds(start.elapsed()).checked_div(workgroups)
    {
        cost.learn(time);
    }
}

/// A duration in picoseconds.
fn picoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_and_outliers_are_bounded() {
        let cost = Cost::default();
        assert_eq!(cost.get(), None);
        cost.learn(1000);
        assert_eq!(cost.get(), Some(1000));
        cost.learn(4_000_000_000);
        assert_eq!(cost.get(), Some(1000 - 250 + 2000));
        for _ in 0..100 {
            cost.learn(500);
        }
        let settled = cost.get().unwrap_or(0);
        assert!((495..=505).contains(&settled), "{settled}");
        cost.learn(0);
        assert!(cost.get() < Some(settled));
        cost.learn(u64::MAX);
        assert!(cost.get().unwrap_or(0) <= GREATEST);
    }
}
