//! What tiles fetch into the cache for those that come later.

use super::{Row, Tile};
use crate::contraction::blocking::NUMBERS_OF_A_LINE;

/// What tiles fetch of an operand for those that come later, a line with every second product.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Ahead<N> {
    Nothing,
    /// The rows of the left operand that follow those of the tile in memory, which are those of the next tile or of the next contraction:
    /// all numbers of these rows are adjacent, and those of one are as many as the products.
    Rows,
    /// The lines from the first address to the second one, those of the next strip: each tile the next ones. Those of a vector for each product
    /// take two tiles.
    Strip(*const N, *const N),
}

impl<N> Tile<'_, N> {
    /// The numbers of the next strip that a tile fetches, if it does: products at a distance are added four at once.
    const fn fetched(&self) -> usize {
        self.products.len() / 4 * 2 * NUMBERS_OF_A_LINE
    }

    /// Goes on to another iteration of a loop that moves the output and the operands by a step.
    pub(in super::super) const fn repeat(&mut self, step: Row) {
        self.output = self.output.wrapping_offset(step.output);
        self.left = self.left.wrapping_offset(step.left);
        self.right = self.right.wrapping_offset(step.right);
        if let Ahead::Strip(next, end) = self.ahead {
            self.ahead = Ahead::Strip(next.wrapping_offset(step.right), end.wrapping_offset(step.right));
        }
    }

    /// What tiles fetch that come behind so many of these.
    pub(in super::super) const fn fetch_after(&mut self, tiles: usize) {
        if let Ahead::Strip(next, end) = self.ahead {
            self.ahead = Ahead::Strip(next.wrapping_add(tiles * self.fetched()), end);
        }
    }

    /// What the tile of a number, which has these rows, fetches first, and how many numbers there are to the next with every second product.
    /// Nothing is the same line again and again: with a branch, there would be two loops over products.
    #[inline(always)]
    pub(in super::super) fn ahead_of<const ROWS: usize>(&self, rows: &[Row; ROWS], at: usize) -> (*const N, usize) {
        match self.ahead {
            Ahead::Nothing => (self.left, 0),
            Ahead::Rows => {
                // As many numbers of the rows that follow, of eight rows a line.
                (self.left.wrapping_offset(rows[0].left).wrapping_add(ROWS * self.products.len()), 2 * ROWS)
            }
            Ahead::Strip(next, end) => {
                let next = next.wrapping_add(at * self.fetched());
                (next, if next < end { NUMBERS_OF_A_LINE } else { 0 })
            }
        }
    }
}
