//! Memory that a thread reuses from one contraction to the next.

use alloc::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use alloc::boxed::Box;

use super::copy::Piece;
use super::drive::Listed;
use super::partial::BLOCK;
use super::tile::{Product, Row};

/// Products whose operands are packed at once: a panel of them fits into the second cache.
pub(super) const PRODUCTS: usize = 512;
/// Rows that are listed at once.
pub(super) const ROWS: usize = 512;
/// Rows of a left operand that is computed, which are packed at once.
pub(super) const COMPUTED_ROWS: usize = 64;
/// The most columns of a strip.
pub(super) const COLUMNS: usize = 64;
/// The most rows of a tile.
pub(super) const TILE_ROWS: usize = 8;

/// Lists, and packed operands. All zeros is a value.
#[repr(C)]
pub(super) struct Scratch<N> {
    pub(super) listed: Listed,
    pub(super) rows: [Row; ROWS],
    /// The same, with the left operand where it is packed.
    pub(super) tile_rows: [Row; ROWS],
    pub(super) products: [Product; PRODUCTS],
    /// For each product, how far the operands are before they are packed.
    pub(super) sources: [Product; PRODUCTS],
    pub(super) offsets: [isize; PRODUCTS],
    /// The pieces of a strip in the right operand.
    pub(super) pieces: [Piece; COLUMNS],
    pub(super) output_pieces: [Piece; COLUMNS],
    /// A tile of the output.
    pub(super) tile: [N; TILE_ROWS * COLUMNS],
    /// Partial sums of a block of elements.
    pub(super) sums: [N; BLOCK],
    /// A strip of the right operand, a line for each product.
    pub(super) panel: [N; PRODUCTS * COLUMNS],
    /// Rows of the left operand.
    pub(super) left: [N; COMPUTED_ROWS * PRODUCTS],
}

/// The scratch of any operation: its numbers have 32 bits.
type Any = Scratch<u32>;

#[cfg(feature = "std")]
std::thread_local! {
    static KEPT: core::cell::Cell<Option<Box<Any>>> = const { core::cell::Cell::new(None) };
}

/// Calls `work` with scratch memory.
pub(super) fn with<N, R>(work: impl FnOnce(&mut Scratch<N>) -> R) -> R {
    const { assert!(size_of::<N>() == size_of::<u32>() && align_of::<N>() == align_of::<u32>()) };
    #[cfg(feature = "std")]
    let mut scratch = KEPT.try_with(core::cell::Cell::take).ok().flatten().unwrap_or_else(zeroed);
    #[cfg(not(feature = "std"))]
    let mut scratch = zeroed();
    let any: *mut Any = &mut *scratch;
    // SAFETY: the layouts are the same, as numbers are of the same size and alignment; every bit pattern is a number (`Operation`).
    let result = work(unsafe { &mut *any.cast::<Scratch<N>>() });
    // Where the thread is ending there is nothing to keep it for.
    #[cfg(feature = "std")]
    let _ = KEPT.try_with(|kept| kept.set(Some(scratch)));
    result
}

/// Memory that the system provides when it is first used: parts of it never are.
fn zeroed() -> Box<Any> {
    let layout = Layout::new::<Any>();
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<Any>();
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: allocated with the layout of the type, for which all zeros is a value.
    unsafe { Box::from_raw(memory) }
}
