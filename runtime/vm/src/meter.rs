//! The steps and the time that a call may take.

use alloc::sync::Arc;
#[cfg(feature = "std")]
use core::fmt;
use core::sync::atomic::Ordering;
#[cfg(feature = "std")]
use std::sync::OnceLock;
#[cfg(feature = "std")]
use std::time::Duration;

#[cfg(feature = "std")]
use crate::clock::Instant;

use crate::{AtomicU64, Result, failure};

/// Steps that a stack takes from its meter at once, and steps of a call between two readings of the clock: some tenths of a
/// millisecond of interpreted branches.
pub(crate) const SLICE: u64 = 1 << 16;

/// Steps that are taken beyond those of a charge, for the next charges.
const CHARGE_SLICE: u64 = 1 << 10;

/// The fuel that is left is shared by at least so many slices.
const SHARES: u64 = 64;

/// Ends running calls from outside, for example because the user asks for it. It is asked where the clock of a call is read: at
/// least once in 65,536 steps, before each workgroup of machine code, and ten times in a second while a call waits.
#[cfg(feature = "std")]
pub trait Interrupt: Send + Sync + fmt::Debug {
    /// Returns whether calls go on. Called on any thread that works for a call.
    ///
    /// # Errors
    /// What the call ends with.
    fn check(&self) -> Result<()>;
}

/// The longest wait of a call that can be interrupted, before it asks again.
#[cfg(feature = "std")]
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The fuel and the time of one call, with all that it has devices do. Stacks and executions take [`Fuel`] from it in slices, so
/// that the kernels of a call share what it has, on whatever thread they run.
#[derive(Debug)]
pub struct Meter {
    fuel: AtomicU64,
    #[cfg(feature = "std")]
    clock: Clock,
}

/// The end of a call whose time has not begun.
#[cfg(feature = "std")]
const NOT_BEGUN: u64 = u64::MAX;

/// When a call ends.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
struct Clock {
    /// The longest time of the call, which begins when the clock is first read.
    timeout: Option<Duration>,
    /// The deadline of the session.
    deadline: Option<Instant>,
    /// What else may end the call.
    interrupt: Option<Arc<dyn Interrupt>>,
    /// The nanoseconds from the process's first reading to the end of the call; [`NOT_BEGUN`] until the clock is read.
    end: AtomicU64,
    /// The clock is read where less fuel than this is left.
    next: AtomicU64,
}

#[cfg(feature = "std")]
impl Clock {
    /// Returns the end of the call, whose time begins now where it has not begun.
    fn end(&self, now: Instant) -> Option<Instant> {
        static FIRST_READING: OnceLock<Instant> = OnceLock::new();
        if self.timeout.is_none() {
            return self.deadline;
        }
        let first = *FIRST_READING.get_or_init(|| now);
        let mut end = self.end.load(Ordering::Relaxed);
        if end == NOT_BEGUN {
            end = self.start(now.saturating_duration_since(first));
        }
        first.checked_add(Duration::from_nanos(end)).into_iter().chain(self.deadline).min()
    }

    /// Sets the end of a call that begins at a time, unless another thread has just done so; returns it.
    #[cold]
    fn start(&self, now: Duration) -> u64 {
        let end = now.saturating_add(self.timeout.unwrap_or_default()).as_nanos();
        let end = u64::try_from(end).unwrap_or(u64::MAX).min(NOT_BEGUN - 1);
        let begun = self.end.compare_exchange(NOT_BEGUN, end, Ordering::Relaxed, Ordering::Relaxed);
        begun.map_or_else(|other| other, |_| end)
    }
}

impl Meter {
    /// A meter with `fuel` steps; none is unlimited.
    #[must_use]
    pub fn new(fuel: Option<u64>) -> Meter {
        let fuel = fuel.unwrap_or(u64::MAX);
        Meter {
            fuel: AtomicU64::new(fuel),
            #[cfg(feature = "std")]
            clock: Clock::default(),
        }
    }

    /// The same, for a call of at most a time, which ends at a deadline in any case. The time begins when it is first checked.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn with_end(self, timeout: Option<Duration>, deadline: Option<Instant>) -> Meter {
        let meter = Meter { clock: Clock { timeout, deadline, ..self.clock }, ..self };
        meter.restart_clock(meter.fuel.load(Ordering::Relaxed));
        meter
    }

    /// The same, for a call that an interrupt may end.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn with_interrupt(self, interrupt: Option<Arc<dyn Interrupt>>) -> Meter {
        Meter { clock: Clock { interrupt, ..self.clock }, ..self }
    }

    #[cfg(feature = "std")]
    fn restart_clock(&self, fuel: u64) {
        let next = if self.clock.deadline.is_some() { u64::MAX } else { fuel.saturating_sub(SLICE) };
        self.clock.end.store(NOT_BEGUN, Ordering::Relaxed);
        self.clock.next.store(next, Ordering::Relaxed);
    }

    /// Begins another call with `fuel` steps; returns those that its stack has before it takes a slice. The meter must not be in
    /// use by another call.
    ///
    /// A call reads the clock at its first step if there is a deadline, which may have passed before. With a timeout alone, its
    /// first slices are free of that, so that short calls do not read the clock.
    #[inline]
    pub(crate) fn restart(&self, fuel: u64) -> u64 {
        #[cfg(feature = "std")]
        let has_deadline = self.clock.deadline.is_some();
        #[cfg(not(feature = "std"))]
        let has_deadline = false;
        let first = if has_deadline { 0 } else { SLICE.min(fuel / SHARES) };
        self.fuel.store(fuel - first, Ordering::Relaxed);
        #[cfg(feature = "std")]
        self.restart_clock(fuel - first);
        first
    }

    /// Returns the time at which the call ends.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.clock.end(Instant::now())
    }

    /// Returns how long the call may wait before it checks the meter again: the time that is left, and a tenth of a second for a
    /// call that can be interrupted; `None` without a limit.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn longest_wait(&self) -> Option<Duration> {
        let now = Instant::now();
        let left = self.clock.end(now).map(|end| end.saturating_duration_since(now));
        left.into_iter().chain(self.clock.interrupt.is_some().then_some(LONGEST_WAIT)).min()
    }

    /// Checks the time and the interrupt: what works long without taking steps calls it now and then.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED once the deadline has passed; what an interrupt ends the call with.
    pub fn check(&self) -> Result<()> {
        #[cfg(feature = "std")]
        if let Some(interrupt) = &self.clock.interrupt {
            interrupt.check()?;
        }
        #[cfg(feature = "std")]
        if self.clock.timeout.is_some() || self.clock.deadline.is_some() {
            let now = Instant::now();
            if self.clock.end(now).is_some_and(|end| now >= end) {
                return Err(failure::deadline_exceeded());
            }
        }
        Ok(())
    }

    /// Takes fuel for work that is about to begin, all or none; and as much of a slice for what comes next as others can spare.
    /// Reads the clock if it was not read for [`SLICE`] steps.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the fuel does not last; DEADLINE_EXCEEDED.
    fn take(&self, steps: u64, slice: u64) -> Result<u64> {
        let mut left = 0;
        let take = |fuel: u64| {
            let rest = fuel.checked_sub(steps)?;
            left = rest - slice.min(rest / SHARES);
            Some(left)
        };
        let Ok(fuel) = self.fuel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
            return Err(failure::out_of_fuel());
        };
        #[cfg(feature = "std")]
        {
            if left < self.clock.next.load(Ordering::Relaxed) {
                self.check()?;
                self.clock.next.store(left.saturating_sub(SLICE), Ordering::Relaxed);
            }
        }
        Ok(fuel - left)
    }

    /// Returns fuel of a slice that was not used.
    fn give_back(&self, steps: u64) {
        let add = |fuel: u64| Some(fuel.saturating_add(steps));
        let _ = self.fuel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

/// The steps that one thread has taken from the [`Meter`] of a call, which it works for. What is left returns to the meter when it
/// is dropped. The default has no meter and no limits.
#[derive(Debug)]
pub struct Fuel {
    /// One more than the steps until the next slice.
    pub(crate) left: u64,
    pub(crate) meter: Option<Arc<Meter>>,
}

impl Default for Fuel {
    fn default() -> Fuel {
        Fuel { left: u64::MAX, meter: None }
    }
}

impl Fuel {
    /// The fuel of a thread that begins to work for a call; without a meter, there are no limits.
    #[inline]
    #[must_use]
    pub fn of(meter: Option<&Arc<Meter>>) -> Fuel {
        meter.map_or_else(Fuel::default, |meter| Fuel { left: 1, meter: Some(Arc::clone(meter)) })
    }

    /// True if there are limits.
    #[inline]
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.meter.is_some()
    }

    /// Takes fuel for work that is about to begin.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if it does not last: then the work must not begin. DEADLINE_EXCEEDED.
    #[inline]
    pub fn charge(&mut self, steps: u64) -> Result<()> {
        if steps < self.left {
            self.left -= steps;
            return Ok(());
        }
        self.charge_meter(steps)
    }

    /// Gives back what was charged for work that must be done again.
    #[inline]
    pub fn give_back(&self, steps: u64) {
        if let Some(meter) = self.meter.as_ref().filter(|_| steps != 0) {
            meter.give_back(steps);
        }
    }

    #[cold]
    #[inline(never)]
    fn charge_meter(&mut self, steps: u64) -> Result<()> {
        let missing = steps - self.left + 1;
        let taken = self.meter.as_ref().map_or(Ok(missing), |meter| meter.take(missing, CHARGE_SLICE))?;
        self.left = taken - missing + 1;
        Ok(())
    }

    /// Checks the time: what works long without taking steps calls it now and then.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.meter.as_ref().map_or(Ok(()), |meter| meter.check())
    }

    /// Takes the next slice, where the last step is to be paid for.
    #[cold]
    #[inline(never)]
    pub(crate) fn replenish(&mut self) -> Result<()> {
        let taken = self.meter.as_ref().map_or(Ok(u64::MAX), |meter| meter.take(1, SLICE - 1));
        self.left = *taken.as_ref().unwrap_or(&1);
        taken.map(drop)
    }
}

impl Drop for Fuel {
    #[inline]
    fn drop(&mut self) {
        if let Some(meter) = &self.meter
            && self.left > 1
        {
            meter.give_back(self.left - 1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn slices_and_charges_share_the_fuel() {
        let meter = Arc::new(Meter::new(Some(1 << 30)));
        assert_eq!(meter.take(1, SLICE - 1).unwrap(), SLICE);
        let mut fuel = Fuel::of(Some(&meter));
        fuel.charge((1 << 30) - SLICE - 640).unwrap();
        assert_eq!((fuel.left, meter.fuel.load(Ordering::Relaxed)), (11, 630));
        fuel.charge(10).unwrap();
        assert_eq!(fuel.charge(631).unwrap_err().code(), StatusCode::ResourceExhausted);
        fuel.replenish().unwrap();
        assert_eq!(fuel.left, 10);
        drop(fuel);
        assert_eq!(meter.fuel.load(Ordering::Relaxed), 629);
        assert_eq!(meter.take(629, SLICE).unwrap(), 629);
        assert_eq!(meter.take(1, SLICE).unwrap_err().code(), StatusCode::ResourceExhausted);
        let mut fuel = Fuel::of(Some(&meter));
        assert!(fuel.replenish().is_err());
        assert!(fuel.charge(1).is_err());
        fuel.charge(0).unwrap();
        assert!(Fuel::default().charge(1 << 60).is_ok());
    }

    #[test]
    #[cfg(feature = "std")]
    fn the_clock_is_read_after_a_slice() {
        let has_begun = |meter: &Meter| meter.clock.end.load(Ordering::Relaxed) != NOT_BEGUN;
        let hour = Some(Duration::from_secs(3600));
        let meter = Arc::new(Meter::new(Some(1 << 40)).with_end(hour, None));
        assert_eq!(meter.restart(1 << 40), SLICE);
        // What is given back does not count.
        for _ in 0..SLICE / 4 {
            Fuel::of(Some(&meter)).charge(3).unwrap();
        }
        assert!(!has_begun(&meter));
        Fuel::of(Some(&meter)).charge(SLICE / 2).unwrap();
        assert!(has_begun(&meter));
        // A deadline that has passed ends a call at its first step, and again.
        let meter = Arc::new(Meter::new(None).with_end(None, Some(Instant::now())));
        assert_eq!(meter.restart(u64::MAX), 0);
        let mut fuel = Fuel::of(Some(&meter));
        assert!(fuel.charge(1).is_err() && fuel.replenish().is_err());
    }

    #[test]
    #[cfg(feature = "std")]
    fn interrupts_end_calls() {
        #[derive(Debug)]
        struct Second(AtomicU64);
        impl Interrupt for Second {
            fn check(&self) -> Result<()> {
                if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
                    Ok(())
                } else {
                    Err(crate::Error::new(StatusCode::Cancelled, "asked to"))
                }
            }
        }
        let interrupt: Arc<dyn Interrupt> = Arc::new(Second(AtomicU64::new(0)));
        let meter = Arc::new(Meter::new(None).with_interrupt(Some(interrupt)).with_end(None, None));
        assert_eq!(meter.longest_wait(), Some(LONGEST_WAIT));
        meter.restart(u64::MAX);
        let mut fuel = Fuel::of(Some(&meter));
        // The first slice asks nothing; each of the next ones asks once.
        fuel.charge(SLICE / 2).unwrap();
        fuel.charge(2 * SLICE).unwrap();
        assert_eq!(fuel.charge(2 * SLICE).unwrap_err().code(), StatusCode::Cancelled);
    }

    #[test]
    #[cfg(feature = "std")]
    fn nothing_goes_on_after_the_deadline() {
        let meter = Meter::new(None).with_end(None, Some(Instant::now()));
        assert_eq!(meter.check().unwrap_err().code(), StatusCode::DeadlineExceeded);
        assert!(meter.take(1, 0).is_err() && meter.take(1, SLICE).is_err());
        assert_eq!(meter.longest_wait(), Some(Duration::ZERO));
        Meter::new(None).take(1 << 60, 0).unwrap();
        let meter = Meter::new(None).with_end(Some(Duration::ZERO), None);
        assert!(meter.check().is_err());
        let meter = Meter::new(None).with_end(Some(Duration::from_secs(1000)), Some(Instant::now()));
        assert!(meter.check().is_err());
        let meter = Meter::new(None).with_end(Some(Duration::MAX), None);
        meter.check().unwrap();
        let left = Meter::new(None).with_end(Some(Duration::from_secs(1000)), None).longest_wait().unwrap();
        assert!(left <= Duration::from_secs(1000) && left > Duration::from_secs(500));
    }
}
