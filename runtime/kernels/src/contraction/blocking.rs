//! How much of a contraction is worked on at once.

/// The partial sums of an element: as many as the longest vectors have elements, on every processor.
pub(super) const PARTIAL: usize = 16;

/// Products whose operands are packed at once: a panel of them fits into the second cache.
pub(super) const PRODUCTS: usize = 768;
/// Rows that are listed at once.
pub(super) const ROWS: usize = 512;
/// Rows of a left operand that is computed, which are packed at once.
pub(super) const COMPUTED_ROWS: usize = 64;
/// Numbers of 32 bits in a line of the cache.
pub(super) const NUMBERS_OF_A_LINE: usize = 16;
/// The most lanes of a vector.
pub(super) const LANES: usize = 16;
/// The most columns of a strip.
pub(super) const COLUMNS: usize = 64;
/// The most columns that several products are added to at once: the sums are in half of the first cache.
pub(super) const GAXPY_COLUMNS: usize = 4096;
/// Elements of a panel.
pub(super) const PANEL: usize = PRODUCTS * COLUMNS;
/// The most rows of a tile that may be copied.
pub(super) const TILE_ROWS: usize = 8;
/// Partial sums of a block: of as many elements as `TILE_ROWS` rows of a strip have.
pub(super) const PARTIAL_SUMS: usize = TILE_ROWS * COLUMNS * PARTIAL;
