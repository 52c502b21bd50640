//! Rows whose windows overlap, as those of a convolution of each channel by itself: the lines that a row multiplies are those of the rows around
//! it as well. Vectors of a line are loaded once for all rows that have it in their windows, instead of once for each: most are not
//! aligned, so that to load them takes longer than to multiply.
//!
//! The products of a row are added in their order, which is that of the lines. Tiles of four rows and more do so whose vectors are as
//! long as a line of the cache: shorter ones are in two lines of it too rarely to pay for a broadcast for each row.
//!
//! With a stride of 2, rows begin two lines below each other, and vectors have every second number of a line. Two products next to each other
//! multiply the first and the second numbers of the same pairs.

use super::{MicroTile, Strip, Tail, add_to_row, load_separate};
use crate::contraction::ablation::Form;
use crate::contraction::blocking::{NUMBERS_OF_A_LINE, PRODUCTS};
use crate::contraction::loops::Loop;
use crate::contraction::operand::load;
use crate::contraction::plan::Plan;
use crate::contraction::vector::Vector;

/// The numbers of lines for which there are tiles.
pub(super) const LINES: [usize; 2] = [3, 5];
/// The fewest rows of a tile with windows.
pub(in super::super) const LEAST_ROWS: usize = 4;

impl Plan {
    /// How many lines of the right operand each of these rows has, all with as many adjacent elements, where those of a row begin as many
    /// lines below those of the row before as elements of adjacent columns are apart, one or two. The numbers of the left operand are
    /// adjacent. Zero where the products of rows are others, or tiles of them no faster.
    pub(in super::super) fn lines_of_windows(&self, rows: &[Loop], column: &Loop) -> usize {
        match (rows, self.sums.as_slice()) {
            ([rows], [lines, columns]) => {
                let is_below = column.right.checked_mul(lines.right) == Some(rows.right);
                let is_window = is_below && matches!(column.right, 1 | 2) && columns.right == 1;
                // In one pass.
                let is_whole = self.sums.count() <= PRODUCTS && self.has_adjacent_numbers();
                let is_run = Form::Windows.is_used() && self.lanes == NUMBERS_OF_A_LINE && LINES.contains(&lines.count);
                if is_window && is_whole && is_run { lines.count } else { 0 }
            }
            _ => 0,
        }
    }
}

/// Runs a block for each of some lines. It is unrolled here: sums are in registers only where the compiler knows which they are.
macro_rules! each_line {
    ($at:ident < $count:expr => $block:block) => {
        each_line!(@ $at, $count, $block,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)
    };
    (@ $at:ident, $count:expr, $block:block, $($line:literal)*) => {
        const { assert!($count <= 31) };
        $(if const { $line < $count } {
            let $at: usize = $line;
            $block
        })*
    };
}

/// Runs the tiles of a strip whose rows have windows of so many lines: the `lines` of the tiles.
#[inline(always)]
pub(super) fn run_strip_of_windows<
    V: Vector,
    const ROWS: usize,
    const VECTORS: usize,
    const STRIDE: usize,
    const LINES: usize,
>(
    mut strip: Strip<'_, V, STRIDE, VECTORS>,
) {
    while let Some(tile) = strip.next() {
        run_windows::<V, ROWS, VECTORS, STRIDE, LINES>(&tile);
    }
}

/// Runs a tile whose rows have windows of so many lines, each `STRIDE` lines below that of the row before.
#[inline(always)]
fn run_windows<V: Vector, const ROWS: usize, const VECTORS: usize, const STRIDE: usize, const LINES: usize>(
    tile: &MicroTile<'_, V, ROWS, STRIDE, VECTORS>,
) {
    let (products, tail) = (tile.tile.products, tile.tail);
    let width = products.len() / LINES;
    let down = products[width].right;
    let mut sums = tile.first_sums();
    let (lefts, rights) = tile.addresses();
    let (left, first) = (lefts[0], rights[0]);
    // SAFETY: `run` found that the tile has windows of so many lines, of which `Tile::valid` was promised that rows and products are those
    // of `Plan::lines_of_windows`: row `n` has the lines from `STRIDE * n` on, the last row the last line. All lines have the numbers
    // that products take, and the left operand's numbers of a window are adjacent, line after line.
    unsafe {
        each_line!(at < STRIDE * (ROWS - 1) + LINES => {
            let (mut line, mut left) = (first.offset(at as isize * down), left);
            let end = line.wrapping_add(width);
            while STRIDE == 2 && line.wrapping_add(1) < end {
                let [even, odd] = load_pairs::<V, VECTORS>(line, tail);
                add_line::<V, ROWS, VECTORS, STRIDE, LINES>(&mut sums, at, (left, width), &even, tail);
                add_line::<V, ROWS, VECTORS, STRIDE, LINES>(&mut sums, at, (left.add(1), width), &odd, tail);
                (line, left) = (V::hidden(line.wrapping_add(2)), left.wrapping_add(2));
            }
            while line < end {
                let vectors = load_separate::<V, VECTORS, STRIDE>(line, tail);
                add_line::<V, ROWS, VECTORS, STRIDE, LINES>(&mut sums, at, (left, width), &vectors, tail);
                (line, left) = (V::hidden(line.wrapping_add(1)), left.wrapping_add(1));
            }
        });
    }
    tile.store(&sums);
}

/// Adds the products of a line, those of one column of windows, to the rows that have the line. `left` is the number of the first line of a
/// window, those of other lines are at a distance.
///
/// # Safety
/// There are so many lines of a window at the address.
#[inline(always)]
unsafe fn add_line<V: Vector, const ROWS: usize, const VECTORS: usize, const STRIDE: usize, const LINES: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    line: usize,
    (left, distance): (*const V::Number, usize),
    vectors: &[V; VECTORS],
    tail: Tail<V>,
) {
    // The rows whose windows have the line.
    let mut row = (line + STRIDE).saturating_sub(LINES) / STRIDE;
    while row < ROWS && STRIDE * row <= line {
        // SAFETY: `line - STRIDE * row` is less than `LINES`, which the caller promises.
        let number = unsafe { load(left.add((line - STRIDE * row) * distance)) };
        add_to_row(&mut sums[row], V::splat(tail.level, number), vectors);
        row += 1;
    }
}

/// Loads pairs of adjacent numbers, of the last vectors only the lanes of the tail: the first number of each, and the second one.
///
/// # Safety
/// See [`Vector::load_pairs`], for these numbers.
#[inline(always)]
unsafe fn load_pairs<V: Vector, const VECTORS: usize>(address: *const V::Number, tail: Tail<V>) -> [[V; VECTORS]; 2] {
    let mut pairs = [[V::zero(tail.level); VECTORS]; 2];
    let mut vector = 0;
    while vector < VECTORS {
        let count = if vector + 1 < VECTORS { V::LANES } else { tail.count };
        // SAFETY: the caller promises pairs for all lanes of the vectors before the last, and for those of the tail.
        let [first, second] = unsafe { V::load_pairs(tail.level, address.add(2 * vector * V::LANES), count) };
        (pairs[0][vector], pairs[1][vector]) = (first, second);
        vector += 1;
    }
    pairs
}
