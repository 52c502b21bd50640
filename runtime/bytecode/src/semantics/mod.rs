//! The meaning of the arithmetic instructions: pure functions, called by the interpreter and by translated code alike.
//!
//! They are named by the instruction's mnemonic with `_` for `.`, and take and return what its registers hold. Results of
//! comparisons are 0 or 1. Those that can fail (division) return a `Result`.

mod float;
mod integer;
#[cfg(feature = "ir")]
mod table;
mod transcendental;

pub use float::*;
pub use integer::*;
#[cfg(feature = "ir")]
pub use table::{evaluate, fold};
