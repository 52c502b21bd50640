//! Random VM programs, run interpreted and translated, and compared by results, failures with their places, effects, what
//! they leave behind, and references that stay alive.
//!
//! `generator` makes the programs, `harness` runs and compares them, `batch` translates and compiles many of them at once.
#![forbid(unsafe_code)]

pub mod batch;
pub mod coverage;
pub mod deep;
pub mod generator;
pub mod harness;
pub mod random;
pub mod translate;
