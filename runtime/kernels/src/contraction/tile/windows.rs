//! Rows whose windows overlap, as those of a convolution of each channel by itself: the lines that a row multiplies are those of the rows around
//! it as well. Vectors of a line are loaded once for all rows that have it in their windows, instead of once for each: most are not
//! aligned, so that to load them takes longer than to multiply.
//!
//! The products of a row are added in their order, which is that of the lines. Tiles of four rows and more do so whose vectors are as
//! long as a line of the cache: shorter ones are in two lines of it too rarely to pay for a broadcast for each row.

use super::{Row, Tail, Tile, add_to_row, first_sums, load_strip, store_rows};
use crate::contraction::blocking::PRODUCTS;
use crate::contraction::plan::{Packing, Plan};
use crate::contraction::vector::Vector;

impl Plan {
    /// How many lines of the right operand each row has, all with as many adjacent elements, where those of a row begin one line below those of
    /// the row before. The numbers of the left operand are adjacent. Zero where the products of rows are others.
    pub(in super::super) fn lines_of_windows(&self) -> usize {
        match (self.packing, self.rows.as_slice(), self.sums.as_slice()) {
            (Packing::Separate, [rows], [lines, columns]) => {
                let is_window = lines.right == rows.right && columns.right == 1 && self.columns.innermost().right == 1;
                // In one pass.
                let is_whole = self.sums.count() <= PRODUCTS && self.has_adjacent_numbers();
                if is_window && is_whole { lines.count } else { 0 }
            }
            _ => 0,
        }
    }
}

/// Runs a block for each of some lines. It is unrolled here: sums are in registers only where the compiler knows which they are.
macro_rules! each_line {
    ($at:ident < $count:expr => $block:block) => {
        each_line!(@ $at, $count, $block, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)
    };
    (@ $at:ident, $count:expr, $block:block, $($line:literal)*) => {
        const { assert!($count <= 18) };
        $(if const { $line < $count } {
            let $at: usize = $line;
            $block
        })*
    };
}

/// Runs a tile whose rows have windows of so many lines, each one line below that of the row before.
///
/// # Safety
/// See [`Run`](super::Run); rows and products are those of a plan with windows of so many lines: [`Plan::lines_of_windows`].
#[inline(always)]
pub(super) unsafe fn run_windows<V: Vector, const ROWS: usize, const VECTORS: usize, const LINES: usize>(
    tile: &Tile<V::Number>,
    at: usize,
    tail: Tail<V::Mask>,
) {
    let Tile { output, left, right, products, count, .. } = *tile;
    let width = count / LINES;
    // SAFETY: promised by the caller. The last line is that of the last row.
    unsafe {
        let rows: &[Row; ROWS] = &*tile.rows.add(at * ROWS).cast();
        let mut sums = first_sums::<V, ROWS, VECTORS>(tile, rows, tail);
        let (left, down) = (left.offset(rows[0].left), (*products.add(width)).right);
        let first = right.offset(rows[0].right);
        each_line!(at < ROWS + LINES - 1 => {
            let line = first.offset(at as isize * down);
            for column in 0..width {
                let vectors = load_strip::<V, VECTORS>(line.add(column), tail);
                let mut row = 0;
                while row < ROWS {
                    if row <= at && at - row < LINES {
                        let number = V::splat(left.add((at - row) * width + column));
                        add_to_row(&mut sums[row], number, &vectors);
                    }
                    row += 1;
                }
            }
        });
        store_rows::<V, ROWS, VECTORS>(output, rows, &sums, tail);
    }
}
