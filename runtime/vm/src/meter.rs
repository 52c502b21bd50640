//! The steps and the time that a call may take.

use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "std")]
use std::sync::OnceLock;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use crate::{Result, failure};

/// Units of fuel that a stack takes from its meter at once. Between two slices the time is checked: that is some tenths of
/// a millisecond of interpreted branches.
pub(crate) const SLICE: u64 = 1 << 16;

/// The same for the iterations of a counted loop that the interpreter runs at once: some milliseconds.
pub(crate) const LOOP_SLICE: u64 = 1 << 22;

/// The fuel that is left is shared by at least so many slices.
const SHARES: u64 = 64;

/// Units of fuel that a call begins with. The clock is first read after them, so that short calls do not read it.
pub(crate) const FIRST_SLICE: u64 = 1 << 10;

/// The fuel and the time of one call, with all that it has devices do. Stacks take fuel in slices, so that the kernels of a
/// call share what it has, on whatever thread they run.
#[derive(Debug)]
pub struct Meter {
    fuel: AtomicU64,
    #[cfg(feature = "std")]
    clock: Clock,
}

/// When a call ends.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
struct Clock {
    /// The longest time of the call, which begins when the clock is first read.
    timeout: Option<Duration>,
    /// The deadline of the session.
    deadline: Option<Instant>,
    /// The nanoseconds from the process's first reading to the end of the call; 0 until the clock is read.
    end: AtomicU64,
}

#[cfg(feature = "std")]
impl Clock {
    fn end(&self) -> Option<Instant> {
        static FIRST_READING: OnceLock<Instant> = OnceLock::new();
        if self.timeout.is_none() {
            return self.deadline;
        }
        let first = *FIRST_READING.get_or_init(Instant::now);
        let mut end = self.end.load(Ordering::Relaxed);
        if end == 0 {
            end = self.start(first);
        }
        first.checked_add(Duration::from_nanos(end)).into_iter().chain(self.deadline).min()
    }

    /// Sets the end of a call that begins now, unless another thread has just done so; returns it.
    #[cold]
    fn start(&self, first: Instant) -> u64 {
        let end = first.elapsed().saturating_add(self.timeout.unwrap_or_default()).as_nanos();
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        self.end.compare_exchange(0, end, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|other| other, |_| end)
    }
}

impl Meter {
    /// A meter with `fuel` units; none is unlimited.
    #[must_use]
    pub fn new(fuel: Option<u64>) -> Meter {
        Meter {
            fuel: AtomicU64::new(fuel.unwrap_or(u64::MAX)),
            #[cfg(feature = "std")]
            clock: Clock::default(),
        }
    }

    /// The same, for a call of at most a time, which ends at a deadline in any case. The time begins when it is first checked.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn with_end(self, timeout: Option<Duration>, deadline: Option<Instant>) -> Meter {
        Meter { clock: Clock { timeout, deadline, end: AtomicU64::new(0) }, ..self }
    }

    /// Begins another call with `fuel` units. The meter must not be in use by another one.
    #[inline]
    pub(crate) fn restart(&self, fuel: u64) {
        self.fuel.store(fuel, Ordering::Relaxed);
        #[cfg(feature = "std")]
        self.clock.end.store(0, Ordering::Relaxed);
    }

    /// Returns the time at which the call ends.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.clock.end()
    }

    /// Returns the time that is left; `None` without a deadline.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Checks the time: what works long calls it now and then.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED once the deadline has passed.
    #[inline]
    pub fn check(&self) -> Result<()> {
        #[cfg(feature = "std")]
        if let Some(deadline) = self.deadline()
            && Instant::now() >= deadline
        {
            return Err(failure::deadline_exceeded());
        }
        Ok(())
    }

    /// Takes fuel for work that is about to begin, all or none, and checks the time.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the fuel does not last; DEADLINE_EXCEEDED.
    pub fn charge(&self, units: u64) -> Result<()> {
        self.check()?;
        let take = |fuel: u64| fuel.checked_sub(units);
        match self.fuel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(failure::out_of_fuel()),
        }
    }

    /// Takes fuel for work that was done, as far as it lasts.
    pub(crate) fn drain(&self, units: u64) {
        let take = |fuel: u64| Some(fuel.saturating_sub(units));
        let _ = self.fuel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    }

    /// Takes the fuel of a stack's next steps: at most a slice, and at most one part in [`SHARES`] of what is left, so that a
    /// thread does not keep what others need.
    pub(crate) fn take_slice(&self, slice: u64) -> Result<u64> {
        self.check()?;
        let share = |fuel: u64| slice.min((fuel / SHARES).max(1));
        let take = |fuel: u64| (fuel > 0).then(|| fuel - share(fuel));
        match self.fuel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(fuel) => Ok(share(fuel)),
            Err(_) => Err(failure::out_of_fuel()),
        }
    }

    /// Returns fuel of a slice that was not used.
    pub(crate) fn give_back(&self, units: u64) {
        let add = |fuel: u64| Some(fuel.saturating_add(units));
        let _ = self.fuel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn slices_and_charges_share_the_fuel() {
        let meter = Meter::new(Some(1 << 30));
        assert_eq!(meter.take_slice(SLICE).unwrap(), SLICE);
        meter.charge((1 << 30) - SLICE - 640).unwrap();
        assert_eq!(meter.charge(641).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(meter.take_slice(SLICE).unwrap(), 10);
        meter.charge(629).unwrap();
        assert_eq!(meter.take_slice(SLICE).unwrap(), 1);
        assert_eq!(meter.take_slice(SLICE).unwrap_err().code(), StatusCode::ResourceExhausted);
        meter.give_back(5);
        meter.drain(u64::MAX);
        assert!(meter.charge(1).is_err());
        meter.charge(0).unwrap();
    }

    #[test]
    #[cfg(feature = "std")]
    fn nothing_goes_on_after_the_deadline() {
        let meter = Meter::new(None).with_end(None, Some(Instant::now()));
        assert_eq!(meter.check().unwrap_err().code(), StatusCode::DeadlineExceeded);
        assert!(meter.charge(0).is_err() && meter.take_slice(SLICE).is_err());
        assert_eq!(meter.time_left(), Some(Duration::ZERO));
        Meter::new(None).charge(1 << 60).unwrap();
        let meter = Meter::new(None).with_end(Some(Duration::ZERO), None);
        assert!(meter.check().is_err());
        let meter = Meter::new(None).with_end(Some(Duration::from_secs(1000)), Some(Instant::now()));
        assert!(meter.check().is_err());
        let meter = Meter::new(None).with_end(Some(Duration::MAX), None);
        meter.check().unwrap();
        let left = Meter::new(None).with_end(Some(Duration::from_secs(1000)), None).time_left().unwrap();
        assert!(left <= Duration::from_secs(1000) && left > Duration::from_secs(500));
    }
}
