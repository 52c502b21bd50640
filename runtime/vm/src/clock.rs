//! The monotonic clock: that of the standard library, or on `wasm32-unknown-unknown`, which has none, one that the program sets.

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use std::time::Instant;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use absent::{Instant, set};

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod absent {
    use core::ops::{Add, Sub};
    use std::sync::OnceLock;
    use std::time::Duration;

    static CLOCK: OnceLock<fn() -> Duration> = OnceLock::new();

    /// A time of the clock that the program has set, with the interface of [`std::time::Instant`]. It is zero without one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Instant(Duration);

    /// Sets the clock: a function that returns the time since any fixed moment, such as JavaScript's `performance.now()`. The first
    /// call decides; returns false for others.
    pub fn set(clock: fn() -> Duration) -> bool {
        CLOCK.set(clock).is_ok()
    }

    impl Instant {
        /// Returns the time.
        #[must_use]
        pub fn now() -> Instant {
            Instant(CLOCK.get().map_or(Duration::ZERO, |clock| clock()))
        }

        /// Returns the time that has passed since this one.
        #[must_use]
        pub fn elapsed(&self) -> Duration {
            Instant::now().saturating_duration_since(*self)
        }

        /// Returns the time between an earlier moment and this one; zero if the other is later.
        #[must_use]
        pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        /// As [`Instant::saturating_duration_since`].
        #[must_use]
        pub fn duration_since(&self, earlier: Instant) -> Duration {
            self.saturating_duration_since(earlier)
        }

        /// Returns the time so much later, if it can be expressed.
        #[must_use]
        pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
            self.0.checked_add(duration).map(Instant)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;

        fn add(self, duration: Duration) -> Instant {
            Instant(self.0.saturating_add(duration))
        }
    }

    impl Sub for Instant {
        type Output = Duration;

        fn sub(self, earlier: Instant) -> Duration {
            self.saturating_duration_since(earlier)
        }
    }
}
