//! Iterations of several loops that run at once, on local arrays.
//!
//! Elements of short rows are copied to arrays, several rows one behind the other. Loops over such arrays are vectorised as a whole,
//! and nothing else accesses what they do.

use super::super::lines::{Convert, Direction, Load, Store, lines};
use super::{Element, Grid, GridMut, no_such_iteration};

/// The most iterations of a tile: few enough that the arrays of some views stay in the first-level cache.
pub const TILE: usize = 256;
/// Tiles are computed in multiples of so many iterations.
const PADDING: usize = 16;

/// Some iterations of a nest of `E` loops: adjacent ones of the last loop, and of the others as many as there is space for.
#[derive(Clone, Copy, Debug)]
pub struct Tile<const E: usize> {
    counts: [usize; E],
    /// The first iteration.
    first: [usize; E],
    /// The number of iterations of the loops around the last one.
    rows: usize,
    /// The number of iterations of the last loop, in each of them. All rows together are at most [`TILE`].
    columns: usize,
}

impl<const E: usize> Tile<E> {
    /// Returns how many numbers are computed: a few more than there are iterations, so that vectors are whole.
    #[inline(always)]
    #[must_use]
    pub fn padded(&self) -> usize {
        (self.rows * self.columns).next_multiple_of(PADDING).min(TILE)
    }
}

/// The tiles of a nest, in the order of its iterations.
///
/// ```
/// use incarnate_vm::Tiles;
///
/// // Of 40 rows of 14 iterations, 18 fit in a tile.
/// let padded: Vec<usize> = Tiles::new([4, 10, 14]).map(|tile| tile.padded()).collect();
/// assert_eq!(padded, [256, 256, 64]);
/// ```
#[derive(Clone, Debug)]
pub struct Tiles<const E: usize> {
    /// The next tile, but for its size.
    next: Tile<E>,
    /// The rows that are left.
    rows: usize,
}

impl<const E: usize> Tiles<E> {
    /// Cuts the iterations of loops with these trip counts, the outermost first.
    #[must_use]
    pub fn new(counts: [usize; E]) -> Tiles<E> {
        const { assert!(E > 0) };
        let columns = counts[E - 1];
        let all: usize = counts[..E - 1].iter().fold(1, |rows, count| rows.saturating_mul(*count));
        // Long rows are cut as evenly as possible.
        let width = columns.div_ceil(columns.div_ceil(TILE).max(1)).next_multiple_of(PADDING).min(columns);
        let rows = if width == columns { TILE / columns.max(1) } else { 1 };
        let next = Tile { counts, first: [0; E], rows, columns: width };
        Tiles { next, rows: if columns == 0 { 0 } else { all } }
    }
}

impl<const E: usize> Iterator for Tiles<E> {
    type Item = Tile<E>;

    fn next(&mut self) -> Option<Tile<E>> {
        let mut tile = self.next;
        let (last, first) = (E - 1, &mut self.next.first);
        tile.rows = tile.rows.min(self.rows);
        tile.columns = tile.columns.min(tile.counts[last] - first[last]);
        if tile.rows == 0 {
            return None;
        }
        first[last] += tile.columns;
        if first[last] == tile.counts[last] {
            first[last] = 0;
            self.rows -= tile.rows;
            let mut rows = tile.rows;
            for (first, count) in first[..last].iter_mut().zip(tile.counts).rev() {
                (*first, rows) = ((*first + rows) % count, (*first + rows) / count);
            }
        }
        Some(tile)
    }
}

/// An element that is copied as it is.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Same<T>(T);

impl<T: Element> Convert for Same<T> {
    type Number = T;

    #[inline(always)]
    fn extended(self) -> T {
        self.0
    }

    #[inline(always)]
    fn truncated(number: T) -> Same<T> {
        Same(number)
    }
}

impl<T: Element, const D: usize> Grid<'_, T, D> {
    /// Copies the elements of a tile's iterations. `loops` tells for each loop of the grid which one of the tile's it is.
    ///
    /// # Panics
    /// Where a loop of the grid has fewer iterations than that of the tile.
    #[inline(always)]
    pub fn load_tile<const E: usize>(&self, tile: &Tile<E>, loops: [usize; D], numbers: &mut [T; TILE]) {
        let strides = self.strides(tile, loops);
        // SAFETY: `strides` checked that the grid has the tile's iterations, whose elements the constructor checked. The array has
        // space for all iterations of a tile.
        unsafe { copy::<Load, T, E>(self.origin.as_ptr(), strides, tile, numbers.as_mut_ptr()) }
    }

    /// The strides of the grid in the loops of a tile.
    #[inline(always)]
    fn strides<const E: usize>(&self, tile: &Tile<E>, loops: [usize; D]) -> [i64; E] {
        let mut strides = [0; E];
        let mut at = 0;
        while at < D {
            let (count, stride) = self.loops[at];
            if tile.counts[loops[at]] > count {
                no_such_iteration();
            }
            strides[loops[at]] = stride;
            at += 1;
        }
        strides
    }
}

impl<T: Element, const D: usize> GridMut<'_, T, D> {
    /// As [`Grid::load_tile`].
    ///
    /// # Panics
    /// As for it.
    #[inline(always)]
    pub fn load_tile<const E: usize>(&self, tile: &Tile<E>, loops: [usize; D], numbers: &mut [T; TILE]) {
        self.0.load_tile(tile, loops, numbers);
    }

    /// Copies numbers to the elements of a tile's iterations, in their order. `loops` is as for [`Grid::load_tile`].
    ///
    /// # Panics
    /// As for it.
    #[inline(always)]
    pub fn store_tile<const E: usize>(&self, tile: &Tile<E>, loops: [usize; D], numbers: &mut [T; TILE]) {
        let strides = self.0.strides(tile, loops);
        // SAFETY: as in `Grid::load_tile`; `Ref::grid_mut` checked that the buffer can be written to.
        unsafe { copy::<Store, T, E>(self.0.origin.as_ptr(), strides, tile, numbers.as_mut_ptr()) }
    }
}

/// Copies the elements of a tile's iterations to adjacent numbers, or back.
///
/// # Safety
/// The elements at these strides are valid, aligned, and so are the numbers.
#[inline(never)]
unsafe fn copy<D: Direction, T: Element, const E: usize>(
    origin: *mut T,
    strides: [i64; E],
    tile: &Tile<E>,
    mut numbers: *mut T,
) {
    let (last, counts, mut first) = (E - 1, tile.counts, tile.first);
    // Loops that go on where the one within them ends are one line.
    let (mut merged, mut block, mut next) = (last, 1, strides[last].wrapping_mul(counts[last] as i64));
    while tile.columns == counts[last] && merged > 0 && (counts[merged - 1] == 1 || strides[merged - 1] == next) {
        merged -= 1;
        block *= counts[merged];
        next = next.wrapping_mul(counts[merged] as i64);
    }
    let mut within = (merged..last).fold(0, |within, at| within * counts[at] + first[at]);
    let mut rows = tile.rows;
    while rows > 0 {
        let offset = first
            .iter()
            .zip(strides)
            .fold(0i64, |offset, (index, stride)| offset.wrapping_add(stride.wrapping_mul(*index as i64)));
        let address = origin.wrapping_offset(offset as isize).cast::<Same<T>>();
        // A part of a block, or whole ones along the loop around them.
        let length = rows.min(block - within);
        let (of_block, step) = match merged.checked_sub(1) {
            Some(around) if length == block => ((counts[around] - first[around]).min(rows / block), strides[around]),
            _ => (1, 0),
        };
        let count = length * tile.columns;
        // SAFETY: promised by the caller: the elements are those of the tile's iterations.
        unsafe { lines::<D, Same<T>>((address, step), strides[last], numbers, (of_block, count)) };
        numbers = numbers.wrapping_add(of_block * count);
        rows -= length * of_block;
        // The next block.
        within = 0;
        first[merged..last].fill(0);
        let mut passed = of_block;
        for at in (0..merged).rev() {
            first[at] += passed;
            if first[at] < counts[at] {
                break;
            }
            (first[at], passed) = (0, 1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Buffer, Ref};
    use alloc::vec;
    use alloc::vec::Vec;

    /// Copies the elements of all tiles from one buffer to the same positions of another one. Both have 4096 elements.
    fn copied<T: Element + Default, const E: usize>(from: &Ref, to: &Ref, loops: [(usize, i64); E]) {
        // SAFETY: each test has one thread that accesses the buffers.
        let (from, to) =
            unsafe { (from.grid::<T, E>(1000, loops).unwrap(), to.grid_mut::<T, E>(1000, loops).unwrap()) };
        let mut numbers = [T::default(); TILE];
        let mut at = [0; E];
        at.iter_mut().enumerate().for_each(|(at, index)| *index = at);
        let mut iterations = 0;
        for tile in Tiles::new(loops.map(|(count, _)| count)) {
            assert!(tile.rows * tile.columns <= tile.padded() && tile.padded() <= TILE);
            iterations += tile.rows * tile.columns;
            from.load_tile(&tile, at, &mut numbers);
            to.store_tile(&tile, at, &mut numbers);
        }
        assert_eq!(iterations, loops.iter().map(|(count, _)| count).product::<usize>());
    }

    fn of_i32(numbers: &[i32]) -> Ref {
        Ref::Buffer(
            Buffer::copy_of(&numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>()).unwrap(),
        )
    }

    #[test]
    fn tiles_have_the_elements_of_all_iterations() {
        let numbers: Vec<i32> = (0..4096).map(|at| at * 7 + 1).collect();
        for loops in [
            [(1, 0), (1, 0), (1, 0)],
            [(3, 200), (8, 10), (8, 1)],
            [(5, 64), (8, 8), (8, 1)],
            [(2, 900), (1, 77), (601, 1)],
            [(7, 100), (7, 10), (4, 2)],
            [(30, 1), (4, 100), (5, 3)],
            [(2, 5), (3, 0), (300, 1)],
            [(9, -100), (3, 1), (17, 4)],
            [(3, 30), (1, 5), (30, 1)],
            [(0, 1), (3, 3), (4, 1)],
            [(4, 1), (3, 3), (0, 1)],
        ] {
            let (from, to) = (of_i32(&numbers), of_i32(&vec![0; 4096]));
            copied::<i32, 3>(&from, &to, loops);
            let mut expected = vec![0; 4096];
            for (i, j, k) in (0..loops[0].0)
                .flat_map(|i| (0..loops[1].0).map(move |j| (i, j)))
                .flat_map(|(i, j)| (0..loops[2].0).map(move |k| (i, j, k)))
            {
                let at = 1000 + i as i64 * loops[0].1 + j as i64 * loops[1].1 + k as i64 * loops[2].1;
                expected[at as usize] = numbers[at as usize];
            }
            // SAFETY: as above.
            let all = unsafe { to.grid::<i32, 1>(0, [(4096, 1)]).unwrap() };
            let written: Vec<i32> = (0..4096).map(|at| all.get([at])).collect();
            assert_eq!(written, expected, "{loops:?}");
        }
    }

    #[test]
    fn elements_that_do_not_move_are_repeated() {
        let row = of_i32(&(0..300).collect::<Vec<_>>());
        // SAFETY: as above.
        let grid = unsafe { row.grid::<i32, 1>(100, [(5, 1)]).unwrap() };
        let mut numbers = [0; TILE];
        let tile = Tiles::new([5, 2, 3]).next().unwrap();
        grid.load_tile(&tile, [0], &mut numbers);
        assert_eq!(numbers[..30], (0..30).map(|at| 100 + at / 6).collect::<Vec<_>>());
        let larger = Tiles::new([6, 2]).next().unwrap();
        let load = core::panic::AssertUnwindSafe(|| grid.load_tile(&larger, [0], &mut [0; TILE]));
        assert!(std::panic::catch_unwind(load).is_err());
    }

    #[test]
    fn grids_are_the_same_where_all_elements_are() {
        let reference = of_i32(&[0; 100]);
        // SAFETY: as above.
        unsafe {
            let (one, other) =
                (reference.grid_mut::<i32, 1>(1, [(5, 2)]).unwrap(), reference.grid::<i32, 1>(1, [(5, 2)]));
            assert!(one.is_same(&other.unwrap()) && !one.is_same(&reference.grid(2, [(5, 2)]).unwrap()));
            assert!(!one.is_same(&reference.grid(1, [(5, 3)]).unwrap()));
        }
    }
}
