//! What work was measured to cost, for deciding how to spread it.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// A running mean of a cost, in picoseconds; updates of several threads may get lost, which does no harm.
#[derive(Debug, Default)]
pub(in crate::hal) struct Cost {
    /// Zero is unknown.
    picoseconds: AtomicU64,
}

/// A measurement counts at most as this many times of what is known, so that one during which the thread was interrupted
/// changes little.
const GREATEST_RISE: u64 = 8;
/// Part of the difference by which a measurement changes what is known.
const WEIGHT: u64 = 4;
/// Part of what is known by which a measurement changes it at most, where the median is followed.
const STEPS: u64 = 16;
/// The greatest cost that is told apart: a thousand seconds.
const GREATEST: u64 = 1_000_000_000_000_000;

impl Cost {
    /// The cost in picoseconds; `None` before the first measurement.
    #[inline]
    pub(in crate::hal) fn get(&self) -> Option<u64> {
        Some(self.picoseconds.load(Ordering::Relaxed)).filter(|known| *known != 0)
    }

    /// Takes a measurement into account.
    #[inline]
    pub(in crate::hal) fn learn(&self, picoseconds: u64) {
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

    /// As [`Cost::learn`] for what is to be compared with another way to do the same, where any measurement may have been
    /// disturbed by whatever else the host does: follows the median, in small steps. Before the first, it is taken for
    /// `expected`.
    pub(super) fn learn_typical(&self, picoseconds: u64, expected: Option<u64>) {
        let measured = picoseconds.clamp(1, GREATEST);
        let known = self.get().or(expected).unwrap_or(measured).max(1);
        let step = known / STEPS + 1;
        let next = match measured {
            more if more > known => known + step.min(more - known),
            // The first may have found nothing in caches.
            less if less < known / 2 => known.midpoint(less),
            less => known - step.min(known - less),
        };
        self.picoseconds.store(next, Ordering::Relaxed);
    }
}

/// What the same takes by one thread, and where others help it. Each is followed by its median.
#[derive(Debug, Default)]
pub(in crate::hal) struct Ways {
    alone: Cost,
    helped: Cost,
}

impl Ways {
    /// Takes a measurement of one of the ways into account. Before the first, help is taken to gain enough that it takes
    /// several bad ones to decide against it: the first find nothing in caches.
    pub(in crate::hal) fn learn(&self, picoseconds: u64, helped: bool) {
        if helped {
            self.helped.learn_typical(picoseconds, self.alone.get().map(|alone| alone / 8 * 5));
        } else {
            self.alone.learn_typical(picoseconds, None);
        }
    }

    /// True where help saves more than a part of the time that one thread takes, of which `margin` gives the part, and as
    /// long as that is not known.
    #[inline]
    pub(in crate::hal) fn help_pays(&self, margin: impl FnOnce(u64) -> u64) -> bool {
        match (self.alone.get(), self.helped.get()) {
            (Some(alone), Some(helped)) => helped < alone - margin(alone),
            _ => true,
        }
    }

    /// Takes help for a little better than it was, so that what did not pay at one time is seen to pay at another.
    pub(in crate::hal) fn reconsider_help(&self) {
        if let Some(known) = self.helped.get() {
            self.helped.learn_typical(known - known / 32, None);
        }
    }

    /// The time that is to be expected of the faster way.
    #[inline]
    pub(in crate::hal) fn time(&self) -> Option<u64> {
        match (self.helped.get(), self.alone.get()) {
            (Some(helped), Some(alone)) => Some(helped.min(alone)),
            (helped, alone) => helped.or(alone),
        }
    }
}

/// A duration in picoseconds.
#[inline]
pub(in crate::hal) fn picoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typical_is_the_median() {
        let cost = Cost::default();
        cost.learn_typical(1_000_000, Some(8000));
        assert_eq!(cost.get(), Some(8501), "one that was disturbed says little");
        for turn in 0..300u64 {
            // Two of three take 5000.
            cost.learn_typical(if turn % 3 == 0 { 1_000_000 } else { 5000 }, None);
        }
        let settled = cost.get().unwrap_or(0);
        assert!((5000..=5400).contains(&settled), "{settled}");
        let first = Cost::default();
        first.learn_typical(400, None);
        assert_eq!(first.get(), Some(400));
        first.learn_typical(100, None);
        assert_eq!(first.get(), Some(250), "the first found nothing in caches");
        first.learn_typical(0, None);
        assert!(first.get().is_some());
    }

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
