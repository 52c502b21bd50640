//! What work was measured to cost, for deciding how to spread it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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

/// Which of two ways to run the same again and again lets the next one come sooner: what happens between two of them counts
/// as well. Threads that share it may disturb it, which makes a choice worse and nothing wrong.
#[derive(Debug, Default)]
pub(in crate::hal) struct Comparison {
    turns: AtomicU32,
    /// When the last one began, in picoseconds, times two, and one more where it went the second way; zero before the first.
    last: AtomicU64,
    /// The time to the next one, by way.
    times: [Cost; 2],
}

/// So many times in a row a way is tried, ...
const TRIED: u32 = 12;
/// ... and so seldom while the other one is faster.
const TRIED_EVERY: u32 = 1024;

impl Comparison {
    /// How often there was a choice.
    #[inline]
    pub(in crate::hal) fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Chooses the way of the one that begins `now`, in picoseconds since any point of time; true for the second way, which
    /// has to be notably faster.
    pub(in crate::hal) fn choose(&self, now: u64) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        if last != 0
            && let Some(time) = self.times.get((last & 1) as usize)
        {
            time.learn_least(now.saturating_sub(last >> 1));
        }
        let turn = self.turns();
        self.turns.store(turn.wrapping_add(1), Ordering::Relaxed);
        let [first, second] = &self.times;
        let faster = match (first.get(), second.get()) {
            (Some(first), Some(second)) => second < first - first / 16,
            _ => false,
        };
        let chosen = match turn % TRIED_EVERY {
            _ if turn < TRIED => false,
            phase if phase < 2 * TRIED && phase >= TRIED => !faster,
            _ => faster,
        };
        self.last.store(now << 1 | u64::from(chosen), Ordering::Relaxed);
        chosen
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
    fn the_faster_way_is_chosen_and_the_other_tried() {
        for (times, expected) in [([100, 50], true), ([100, 99], false), ([50, 100], false)] {
            let comparison = Comparison::default();
            let (mut now, mut chosen) = (1, [0u32; 2]);
            for _ in 0..4000 {
                let way = usize::from(comparison.choose(now));
                chosen[way] += 1;
                now += times[way];
            }
            let [slower, faster] = if expected { chosen } else { [chosen[1], chosen[0]] };
            assert!(faster > 3900 && slower >= 3 * TRIED, "{times:?}: {chosen:?}");
        }
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
