//! Memory that a thread reuses from one contraction to the next.

use alloc::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use alloc::boxed::Box;

use super::blocking::{COLUMNS, COMPUTED_ROWS, PANEL, PARTIAL_SUMS, PRODUCTS, ROWS, TILE_ROWS};
use super::kept::Kept;
use super::operand::Piece;
use super::tile::{Product, Row};

/// What the list of products holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Listed {
    /// Offsets in the right operand.
    Operand = 0,
    /// Offsets in a panel of this width.
    Panel(usize) = 1,
}

/// Lists, and packed operands. All zeros is a value.
#[repr(C)]
pub(super) struct Scratch<N> {
    /// The plan whose products are listed, all of them; zero if they are not.
    pub(super) listed_plan: u64,
    pub(super) listed: Listed,
    pub(super) rows: [Row; ROWS],
    /// The same, with the left operand where it is packed.
    pub(super) tile_rows: [Row; ROWS],
    pub(super) products: [Product; PRODUCTS],
    /// For each product, how far the operands are before they are packed.
    pub(super) sources: [Product; PRODUCTS],
    /// How far the lines of a panel are in the operand: those of the products, or adjacent ones.
    pub(super) offsets: [isize; PRODUCTS],
    pub(super) are_products_adjacent: bool,
    /// The pieces of a strip in the right operand.
    pub(super) pieces: [Piece; COLUMNS],
    pub(super) output_pieces: [Piece; COLUMNS],
    /// A tile of the output.
    pub(super) tile: [N; TILE_ROWS * COLUMNS],
    /// Partial sums of a block of elements.
    pub(super) sums: [N; PARTIAL_SUMS],
    /// A strip of the right operand, a line for each product.
    pub(super) panel: [N; PANEL],
    /// Rows of the left operand, or a panel of it.
    pub(super) left: [N; PANEL],
}

/// What a thread keeps, for any operation: its numbers have 32 bits.
#[repr(C)]
struct Any {
    kept: Kept,
    scratch: Scratch<u32>,
}

#[cfg(feature = "std")]
std::thread_local! {
    static KEPT: core::cell::Cell<Option<Box<Any>>> = const { core::cell::Cell::new(None) };
}

/// Calls `work` with what the thread keeps.
pub(super) fn with<N, R>(work: impl FnOnce(&mut Kept, &mut Scratch<N>) -> R) -> R {
    const { assert!(COMPUTED_ROWS * PRODUCTS <= PANEL) };
    const { assert!(size_of::<N>() == size_of::<u32>() && align_of::<N>() == align_of::<u32>()) };
    #[cfg(feature = "std")]
    let mut kept = KEPT.try_with(core::cell::Cell::take).ok().flatten().unwrap_or_else(zeroed);
    #[cfg(not(feature = "std"))]
    let mut kept = zeroed();
    let Any { kept: found, scratch: any } = &mut *kept;
    let any: *mut Scratch<u32> = any;
    // SAFETY: the layouts are the same, as numbers are of the same size and alignment; every bit pattern is a number (`Operation`).
    let result = work(found, unsafe { &mut *any.cast::<Scratch<N>>() });
    // Where the thread is ending there is nothing to keep it for.
    #[cfg(feature = "std")]
    let _ = KEPT.try_with(|slot| slot.set(Some(kept)));
    result
}

/// Calls `work` with what a thread keeps that has run no contraction.
#[cfg(test)]
pub(super) fn with_nothing_kept<R>(work: impl FnOnce(&mut Kept) -> R) -> R {
    work(&mut zeroed().kept)
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
