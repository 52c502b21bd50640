//! What events are told to where none are recorded.

use crate::clock::Instant;

use super::{Facts, Recording, Work};

/// Does nothing: the feature `profiling` is off.
pub const fn start() {}

/// Returns a recording without events: the feature `profiling` is off.
#[must_use]
pub fn stop() -> Recording {
    Recording::default()
}

/// Returns false: nothing is recorded.
#[inline]
#[must_use]
pub const fn is_on() -> bool {
    false
}

/// Returns None: nothing is recorded.
#[inline]
#[doc(hidden)]
pub const fn now() -> Option<Instant> {
    None
}

/// Does nothing.
#[doc(hidden)]
pub const fn add_work(_: Work) {}

/// Does nothing.
#[doc(hidden)]
pub fn record_device<'a>(_: &str, _: impl Iterator<Item = (Instant, core::time::Duration, Facts<'a>)>) {}

/// Does nothing.
#[doc(hidden)]
pub const fn record(_: Instant, _: &Facts<'_>) {}
