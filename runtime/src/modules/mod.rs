//! Native modules that programs import.

pub mod hal;
