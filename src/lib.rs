//! Incarnate.

#[cfg(feature = "cli")]
mod tooling;
