//! Incarnate.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
mod tooling;
