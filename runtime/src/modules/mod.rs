//! Native modules that programs import.

#[cfg(feature = "std")]
pub mod hal;
pub mod imports;
