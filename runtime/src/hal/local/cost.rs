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
}

impl Cost {
    /// As [`Cost::learn`] for what takes as long each time but where it is disturbed: follows downwards fast and upwards
    /// slowly.
    pub(in crate::hal) fn learn_least(&self, picoseconds: u64) {
        let measured = picoseconds.clamp(1, GREATEST);
        let known = self.picoseconds.load(Ordering::Relaxed);
        let next = match known {
            0 => measured,
            known if measured < known => known - (known - measured).div_ceil(2),
            // A measurement counts at most double.
            known => known + (measured - known).min(known) / RISE,
        };
        if next != known {
            self.picoseconds.store(next, Ordering::Relaxed);
        }
    }
}

impl Cost {
    /// As [`Cost::learn`] for what varies: a measurement counts at most as twice of what is known. Before the first, it is
    /// taken for a part of what the other way takes, so that it takes several bad ones to decide against it: the first
    /// find nothing in caches.
    pub(in crate::hal) fn learn_varying(&self, picoseconds: u64, other_way: Option<u64>) {
        let known = self.get().unwrap_or_else(|| other_way.map_or(picoseconds, |other| other / 8 * 5)).max(1);
        let measured = picoseconds.clamp(1, GREATEST).min(known.saturating_mul(2));
        self.picoseconds.store((known - known / WEIGHT + measured / WEIGHT).max(1), Ordering::Relaxed);
    }
}

/// Part of the difference by which a greater measurement changes what is known of the least.
const RISE: u64 = 8;

/// A duration in picoseconds.
#[inline]
pub(in crate::hal) fn picoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_followed_downwards() {
        let cost = Cost::default();
        cost.learn_least(1000);
        cost.learn_least(1_000_000);
        assert_eq!(cost.get(), Some(1125));
        cost.learn_least(125);
        assert_eq!(cost.get(), Some(625));
        for _ in 0..100 {
            cost.learn_least(800);
        }
        let settled = cost.get().unwrap_or(0);
        assert!((780..=800).contains(&settled), "{settled}");
        cost.learn_least(0);
        assert!(cost.get().is_some());
    }

    #[test]
    fn what_varies_is_given_a_chance() {
        let cost = Cost::default();
        cost.learn_varying(1_000_000, Some(8000));
        assert_eq!(cost.get(), Some(6250));
        for _ in 0..100 {
            cost.learn_varying(9000, Some(8000));
        }
        let settled = cost.get().unwrap_or(0);
        assert!((8900..=9000).contains(&settled), "{settled}");
        let first = Cost::default();
        first.learn_varying(400, None);
        assert_eq!(first.get(), Some(400));
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
