//! Random VM programs, run interpreted and translated, and compared by results, failures with their locations, effects,
//! final state, and references that stay alive.
//!
//! `generator` generates the programs, `harness` runs and compares them, `batch` translates and compiles many at once.
#![forbid(unsafe_code)]

pub mod batch;
pub mod coverage;
pub mod deep;
pub mod generator;
pub mod harness;
pub mod random;
pub mod translate;
pub mod verified;
