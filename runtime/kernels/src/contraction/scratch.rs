//! Memory that a thread reuses from one contraction to the next.

use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use core::ptr::NonNull;

use super::blocking::{COLUMNS, COMPUTED_ROWS, LANES, PANEL, PARTIAL_SUMS, PRODUCTS, ROWS, TILE_ROWS};
use super::operand::Piece;
use super::tile::{Product, Row};

/// Packed operands, and lists. All zeros is a value. Vectors of the first four are in one line of the cache each.
#[repr(C, align(64))]
pub(super) struct Scratch<N> {
    /// Tiles of the output, or vectors of it, one for each row.
    pub(super) tiles: [N; ROWS * LANES],
    /// Partial sums of a block of elements.
    pub(super) sums: [N; PARTIAL_SUMS],
    /// A strip of the right operand, a line for each product.
    pub(super) panel: [N; PANEL],
    /// Rows of the left operand, or a panel of it.
    pub(super) left: [N; PANEL],
    /// The plan whose products are listed, all of them; zero if they are not.
    pub(super) plan_of_products: u64,
    /// The plan whose rows are listed, all of them; zero if they are not.
    pub(super) plan_of_rows: u64,
    /// The width of the panel that the list of products has the offsets of; zero if they are those of the right operand.
    pub(super) panel_width: usize,
    /// Rows of tiles.
    pub(super) tile_rows: [Row; ROWS],
    /// The same, with the operands before they are packed, if they are.
    pub(super) rows: [Row; ROWS],
    pub(super) products: [Product; PRODUCTS],
    /// The same, with the operands before they are packed, if rows or products are computed or across lanes.
    pub(super) sources: [Product; PRODUCTS],
    /// How far the lines of a panel are in the operand: those of the products, or adjacent ones.
    pub(super) offsets: [isize; PRODUCTS],
    pub(super) are_products_adjacent: bool,
    /// For each row, how far its output is before it is packed.
    pub(super) outputs: [isize; ROWS],
    /// The rows of a tile that is copied, with their output in `tiles`.
    pub(super) copied_rows: [Row; TILE_ROWS],
    pub(super) are_outputs_adjacent: bool,
    /// The pieces of a strip in the right operand.
    pub(super) pieces: [Piece; COLUMNS],
    pub(super) output_pieces: [Piece; COLUMNS],
}

/// The scratch memory for any operation: its numbers have 32 bits.
type Any = Scratch<u32>;

/// The memory of a thread: the system provides it when it is first used, and parts of it never are.
struct Keeper(NonNull<u8>);

impl Keeper {
    /// Of less alignment than the contents, for which allocators would write all the zeros at once.
    const LAYOUT: Layout = match Layout::from_size_align(size_of::<Any>() + align_of::<Any>(), align_of::<u64>()) {
        Ok(layout) => layout,
        Err(_) => panic!(),
    };

    fn new() -> Keeper {
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc_zeroed(Keeper::LAYOUT) };
        Keeper(NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(Keeper::LAYOUT)))
    }

    fn any(&mut self) -> &mut Any {
        let memory = self.0.as_ptr();
        let aligned = memory.wrapping_add(memory.addr().wrapping_neg() % align_of::<Any>()).cast::<Any>();
        // SAFETY: the memory has as many bytes more as the alignment, so that the contents end within it. All zeros is a value of them.
        unsafe { &mut *aligned }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout. The contents need no drop.
        unsafe { dealloc(self.0.as_ptr(), Keeper::LAYOUT) };
    }
}

#[cfg(feature = "std")]
std::thread_local! {
    static KEPT: core::cell::Cell<Option<Keeper>> = const { core::cell::Cell::new(None) };
}

/// Calls `work` with the thread's memory.
pub(super) fn with<N, R>(work: impl FnOnce(&mut Scratch<N>) -> R) -> R {
    const { assert!(COMPUTED_ROWS * PRODUCTS <= PANEL && TILE_ROWS * COLUMNS <= ROWS * LANES) };
    const { assert!(!core::mem::needs_drop::<Any>()) };
    const { assert!(size_of::<N>() == size_of::<u32>() && align_of::<N>() == align_of::<u32>()) };
    #[cfg(feature = "std")]
    let mut keeper = KEPT.try_with(core::cell::Cell::take).ok().flatten().unwrap_or_else(Keeper::new);
    #[cfg(not(feature = "std"))]
    let mut keeper = Keeper::new();
    let any: *mut Any = keeper.any();
    // SAFETY: the layouts are the same, as numbers are of the same size and alignment; every bit pattern is a number (`Operation`).
    let result = work(unsafe { &mut *any.cast::<Scratch<N>>() });
    // Where the thread is ending there is nothing to keep it for.
    #[cfg(feature = "std")]
    let _ = KEPT.try_with(|slot| slot.set(Some(keeper)));
    result
}
