//! The cost model: cycles that the pieces of a contraction take on one core. Plans, the order of sums, and the division among threads
//! read these numbers, and nothing else estimates time here.
//!
//! They are of x86-64 processors with AVX2 and AVX-512 (Zen 3 and Zen 4), and all levels use them: other machines were not measured.
//! `cargo bench -p incarnate-benches --bench kernels` prints the rates that a change of a number changes.

/// Picoseconds of a cycle, at 3.3 GHz.
pub(super) const CYCLE: u64 = 300;

/// Cycles to begin and to end a strip of columns.
pub(super) const STRIP: usize = 120;
/// Cycles to begin and to end a micro-tile.
pub(super) const TILE: usize = 60;

/// Multiplications and additions of vectors that begin in a cycle.
pub(super) const PRODUCTS_A_CYCLE: usize = 2;
/// Loads of vectors that begin in a cycle.
pub(super) const LOADS_A_CYCLE: usize = 2;
/// Cycles from an addition to the next one of the same sum.
pub(super) const LATENCY: usize = 4;
/// Numbers of A that are broadcast in three cycles.
pub(super) const BROADCASTS_IN_THREE_CYCLES: usize = 4;

/// Cycles to transpose a vector in registers.
pub(super) const TRANSPOSITION: usize = 3;
/// Cycles to transpose a vector to a panel, from which it is loaded again.
pub(super) const PACKED_TRANSPOSITION: usize = 8;
/// Cycles to transpose a vector of the output to a micro-tile and back: each element is in another line of the cache.
pub(super) const TRANSPOSED_THERE_AND_BACK: usize = 24;

/// Lines that a set of the first cache holds.
pub(super) const WAYS: usize = 8;
/// Elements of 32 bits in 4 KiB: lines at such a distance compete for one set of the first cache.
pub(super) const LINES_OF_A_SET: i64 = 1024;
/// Cycles to load from such a line, above those of others.
pub(super) const COMPETING_LOAD: usize = 8;
/// Cycles where lines compete for two sets.
pub(super) const COMPETING_LOAD_OF_TWO: usize = 1;

/// Cycles of an iteration that runs as the loops stand.
pub(super) const SCALAR_ITERATION: usize = 4;

/// The order of sums is decided with these alone, in 1/64 of a cycle for each element of the output: it must not depend on the
/// processor. A product with sums in order; vectors have 16 elements.
pub(super) const IN_ORDER: usize = 2;
/// A product with partial sums: their micro-tiles have fewer elements, and more loads.
pub(super) const IN_PARTIAL_SUMS: usize = 3;
/// A number that is packed, for all products that use it.
pub(super) const PACKED_NUMBER: usize = 32;
/// The addition of the partial sums.
pub(super) const PARTIAL_SUMS: usize = 512;
