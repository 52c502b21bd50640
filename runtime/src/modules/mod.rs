//! Native modules that programs import.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "modules choose lengths; see `vm::array`"))]

mod bytes;
#[cfg(feature = "std")]
pub mod check;
#[cfg(feature = "std")]
pub mod hal;
pub mod hal_inline;
#[cfg(feature = "std")]
pub mod hal_loader;
#[cfg(feature = "std")]
pub mod io_parameters;
mod trace;
mod views;

#[cfg(feature = "std")]
pub use incarnate_local::vmvx;
pub use trace::TraceSink;

pub use crate::bytecode::imports;

#[cfg(test)]
mod tests;
