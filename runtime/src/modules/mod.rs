//! Native modules that programs import.
