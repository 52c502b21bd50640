//! Tiles: blocks of the output in registers, to which all products of a sum are added.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub(super) mod aarch64;
mod ahead;
mod gaxpy;
pub(super) mod partial;
pub(super) mod portable;
mod table;
mod transposed;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(super) mod wasm32;
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
pub(super) mod wasm32_relaxed;
mod windows;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
pub(super) mod x86_64;

use super::Initial;
use super::blocking::{LANES, NUMBERS_OF_A_LINE};
use super::copy::Copies;
use super::machine::Machine;
use super::vector::Vector;
pub(super) use ahead::Ahead;
use gaxpy::run_gaxpy;
use transposed::run_transposed;
pub(super) use windows::LEAST_ROWS;
use windows::{LINES, run_strip_of_windows};

/// The operands of tiles with the same columns, one after the other: to begin and to end each would take as long as some products.
/// Numbers of the right operand are loaded as vectors, those of the left one each for itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile<N> {
    /// The first column of the first row.
    pub(super) output: *mut N,
    /// What the output is before.
    pub(super) initial: Initial,
    /// The left operand's number of the first row and product.
    pub(super) left: *const N,
    /// The right operand's number of the first column and product.
    pub(super) right: *const N,
    /// For each row of all tiles, how far its output and its operands are.
    pub(super) rows: *const Row,
    /// The number of tiles.
    pub(super) tiles: usize,
    /// For each product, how far the operands are.
    pub(super) products: *const Product,
    /// The number of products.
    pub(super) count: usize,
    /// The number of columns in the last vector.
    pub(super) tail: usize,
    /// The number of vectors, where the code does not decide it.
    pub(super) vectors: usize,
    /// The distance of the right operand's numbers of adjacent columns, where they are transposed.
    pub(super) stride: i32,
    /// How far the right operand of a product is from that of the product before, if that is the same for all products and the left
    /// operand's numbers of a row are adjacent.
    pub(super) distance: Option<isize>,
    /// The lines of the windows of rows, if these overlap: see [`Plan::lines_of_windows`](super::plan::Plan::lines_of_windows).
    pub(super) lines: usize,
    /// What tiles of four rows and more fetch into the cache.
    pub(super) ahead: Ahead<N>,
}

/// A row of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) output: isize,
    pub(super) left: isize,
    /// Zero where all rows have the same right operand.
    pub(super) right: isize,
}

/// A product of each element's sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Product {
    pub(super) left: isize,
    pub(super) right: isize,
}

/// Runs tiles.
///
/// Safety: the addresses of all rows, columns and products of the tiles are valid, and the processor has the level's features. With a
/// `distance`, product `i` of the list is at `i` in the left operand, and at `i` times the distance in the right one. With `lines`, rows
/// and products are those of [`Plan::lines_of_windows`](super::plan::Plan::lines_of_windows).
pub(super) type Run<N> = unsafe fn(&Tile<N>);

/// By the number of vectors less one: the numbers of rows, descending to 1, and the code.
pub(super) type Sizes<N> = &'static [&'static [(usize, Run<N>)]];

/// The tiles of an operation for a level of processors.
pub(super) struct Tiles<N: 'static> {
    pub(super) machine: Machine,
    /// For rows with the same right operand, by the number of vectors less one: the numbers of rows, descending to 1, and the code.
    pub(super) by_width: Sizes<N>,
    /// The same for rows with a right operand each.
    pub(super) separate: Sizes<N>,
    /// The same for rows with a right operand each, every second number of which is used.
    pub(super) separate_even: Sizes<N>,
    /// For rows with the same right operand, whose numbers are adjacent along the products instead of along the columns.
    pub(super) transposed: Sizes<N>,
    /// For vectors that hold a number of each of some iterations of a loop that moves all operands.
    pub(super) across: Sizes<N>,
    /// For one row, whose columns are any number of vectors.
    pub(super) gaxpy: &'static [(usize, Run<N>)],
    pub(super) copies: Copies<N>,
}

/// The lanes of the last vector of a strip.
#[derive(Clone, Copy)]
struct Tail<M> {
    mask: M,
    count: usize,
    /// All: processors may take long for masked accesses, for stores with AVX2 above all.
    is_whole: bool,
}

impl<M: Copy> Tail<M> {
    /// Safety: see [`Vector::mask`].
    #[inline(always)]
    unsafe fn of<V: Vector<Mask = M>>(count: usize) -> Tail<M> {
        // SAFETY: promised by the caller.
        Tail { mask: unsafe { V::mask(count) }, count, is_whole: count == V::LANES }
    }

    /// Safety: see [`Vector::load_some`].
    #[inline(always)]
    unsafe fn load<V: Vector<Mask = M>>(self, address: *const V::Number) -> V {
        // SAFETY: promised by the caller.
        unsafe { if self.is_whole { V::load(address) } else { V::load_some(address, self.mask) } }
    }

    /// Safety: see [`Vector::store_some`].
    #[inline(always)]
    unsafe fn store<V: Vector<Mask = M>>(self, vector: V, address: *mut V::Number) {
        // SAFETY: promised by the caller.
        unsafe { if self.is_whole { vector.store(address) } else { vector.store_some(address, self.mask) } }
    }
}

/// Runs tiles of so many rows and vectors, compiled as a part of the level's function: without closures and adapters of iterators,
/// because LLVM does not inline a function without the level's features if it calls one that passes vectors. With a `STRIDE`, rows
/// have a right operand each, whose numbers of adjacent columns are so far apart, and the same left one.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
pub(super) unsafe fn run<V: Vector, const ROWS: usize, const VECTORS: usize, const STRIDE: usize>(
    tile: &Tile<V::Number>,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let tail = Tail::of::<V>(tile.tail);
        if const { STRIDE > 0 && ROWS >= LEAST_ROWS && V::LANES == NUMBERS_OF_A_LINE } {
            // Only the loop with masks, as such tiles take long to compile.
            let tail = Tail { is_whole: false, ..tail };
            if tile.lines == LINES[0] {
                return run_strip_of_windows::<V, ROWS, VECTORS, STRIDE, { LINES[0] }>(tile, tail);
            } else if tile.lines == LINES[1] {
                return run_strip_of_windows::<V, ROWS, VECTORS, STRIDE, { LINES[1] }>(tile, tail);
            }
        }
        // Two loops over products, one of them without masks.
        if tail.is_whole {
            run_strip::<V, ROWS, VECTORS, STRIDE>(tile, Tail { count: V::LANES, is_whole: true, ..tail });
        } else {
            run_strip::<V, ROWS, VECTORS, STRIDE>(tile, Tail { is_whole: false, ..tail });
        }
    }
}

/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn run_strip<V: Vector, const ROWS: usize, const VECTORS: usize, const STRIDE: usize>(
    tile: &Tile<V::Number>,
    tail: Tail<V::Mask>,
) {
    for at in 0..tile.tiles {
        // SAFETY: promised by the caller.
        unsafe { run_tile::<V, ROWS, VECTORS, STRIDE>(tile, at, tail) };
    }
}

/// Runs one of the tiles.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn run_tile<V: Vector, const ROWS: usize, const VECTORS: usize, const STRIDE: usize>(
    tile: &Tile<V::Number>,
    at: usize,
    tail: Tail<V::Mask>,
) {
    let Tile { output, left, right, products, count, .. } = *tile;
    // SAFETY: promised by the caller.
    unsafe {
        let rows: &[Row; ROWS] = &*tile.rows.add(at * ROWS).cast();
        let mut sums = first_sums::<V, ROWS, VECTORS>(tile, rows, tail);
        let (mut lefts, mut rights) = ([left; ROWS], [right; ROWS]);
        let mut row = 0;
        while row < ROWS {
            lefts[row] = left.offset(rows[row].left);
            rights[row] = right.offset(rows[row].right);
            row += 1;
        }
        let mut done = 0;
        if V::ADDS_FOUR && STRIDE == 0 && ROWS >= 4 {
            let ahead = tile.ahead_of::<ROWS>(at);
            done = match tile.distance {
                Some(distance) => add_regular::<V, ROWS, VECTORS>(&mut sums, (tile, rows), distance, ahead, tail),
                None => add_listed::<V, ROWS, VECTORS>(&mut sums, tile, (&lefts, &rights), ahead, tail),
            };
        }
        for at in done..count {
            add_to_tile::<V, ROWS, VECTORS, STRIDE>(&mut sums, (&lefts, &rights), *products.add(at), tail);
        }
        store_rows::<V, ROWS, VECTORS>(output, rows, &sums, tail);
    }
}

/// Adds products where the left operand's numbers are adjacent and the right operands at a distance, four at once, and returns how many
/// there were: the rest are fewer. That takes fewer instructions than products of a list, whose offsets are loaded.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn add_regular<V: Vector, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    (tile, rows): (&Tile<V::Number>, &[Row; ROWS]),
    distance: isize,
    (mut next, fetched): (*const V::Number, usize),
    tail: Tail<V::Mask>,
) -> usize {
    let Tile { mut left, mut right, count, .. } = *tile;
    let mut rest = count;
    while rest >= 4 {
        let mut lefts = [left; ROWS];
        let mut row = 0;
        while row < ROWS {
            lefts[row] = left.wrapping_offset(rows[row].left);
            row += 1;
        }
        let mut at = 0;
        while at < 4 {
            if at % 2 == 0 {
                V::fetch_ahead(next);
                next = next.wrapping_add(fetched);
            }
            let product = Product { left: at, right: at * distance };
            // SAFETY: promised by the caller: these are the numbers of the next four products, as `Run` says of a distance.
            unsafe { add_to_tile::<V, ROWS, VECTORS, 0>(sums, (&lefts, &[right; ROWS]), product, tail) };
            at += 1;
        }
        left = V::hidden(left.wrapping_add(4));
        right = V::hidden(right.wrapping_offset(4 * distance));
        rest -= 4;
    }
    count - rest
}

/// Adds products of the list, two at once, and returns how many there were: one may be left.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn add_listed<V: Vector, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    tile: &Tile<V::Number>,
    addresses: (&[*const V::Number; ROWS], &[*const V::Number; ROWS]),
    (mut next, fetched): (*const V::Number, usize),
    tail: Tail<V::Mask>,
) -> usize {
    let mut done = 0;
    while done + 2 <= tile.count {
        V::fetch_ahead(next);
        next = next.wrapping_add(fetched);
        // SAFETY: promised by the caller.
        unsafe {
            add_to_tile::<V, ROWS, VECTORS, 0>(sums, addresses, *tile.products.add(done), tail);
            add_to_tile::<V, ROWS, VECTORS, 0>(sums, addresses, *tile.products.add(done + 1), tail);
        }
        done += 2;
    }
    done
}

/// Adds a product to each element of a tile.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn add_to_tile<V: Vector, const ROWS: usize, const VECTORS: usize, const STRIDE: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    (lefts, rights): (&[*const V::Number; ROWS], &[*const V::Number; ROWS]),
    product: Product,
    tail: Tail<V::Mask>,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let (mut vectors, mut number) = ([V::zero(); VECTORS], V::zero());
        if STRIDE > 0 {
            number = V::splat(lefts[0].offset(product.left));
        } else {
            vectors = load_strip::<V, VECTORS>(rights[0].offset(product.right), tail);
        }
        let mut row = 0;
        while row < ROWS {
            if STRIDE > 0 {
                vectors = load_separate::<V, VECTORS, STRIDE>(rights[row].offset(product.right), tail);
            } else {
                number = V::splat(lefts[row].offset(product.left));
            }
            add_to_row(&mut sums[row], number, &vectors);
            row += 1;
        }
    }
}

/// Adds a product to each vector of a row.
///
/// # Safety
/// The processor has the features of the vectors.
#[inline(always)]
unsafe fn add_to_row<V: Vector, const VECTORS: usize>(sums: &mut [V; VECTORS], number: V, vectors: &[V; VECTORS]) {
    let mut vector = 0;
    while vector < VECTORS {
        // SAFETY: promised by the caller.
        sums[vector] = unsafe { sums[vector].apply(number, vectors[vector]) };
        vector += 1;
    }
}

/// As [`run`], where vectors of both operands hold numbers of as many iterations of one loop, and rows have the same left operand.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
pub(super) unsafe fn run_lanes<V: Vector, const ROWS: usize>(tile: &Tile<V::Number>) {
    // The memory of packed outputs has so many for each row.
    const { assert!(V::LANES <= LANES) };
    // SAFETY: promised by the caller.
    unsafe {
        let tail = Tail::of::<V>(tile.tail);
        // Two loops over products, one of them without masks.
        if tail.is_whole {
            run_some_lanes::<V, ROWS>(tile, Tail { is_whole: true, ..tail });
        } else {
            run_some_lanes::<V, ROWS>(tile, Tail { is_whole: false, ..tail });
        }
    }
}

/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn run_some_lanes<V: Vector, const ROWS: usize>(tile: &Tile<V::Number>, tail: Tail<V::Mask>) {
    for at in 0..tile.tiles {
        // SAFETY: promised by the caller.
        unsafe { run_lanes_of_tile::<V, ROWS>(tile, &*tile.rows.add(at * ROWS).cast(), tail) };
    }
}

/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn run_lanes_of_tile<V: Vector, const ROWS: usize>(
    tile: &Tile<V::Number>,
    rows: &[Row; ROWS],
    tail: Tail<V::Mask>,
) {
    let Tile { output, left, right, products, count, .. } = *tile;
    // SAFETY: promised by the caller.
    unsafe {
        let mut sums = first_sums::<V, ROWS, 1>(tile, rows, tail);
        let mut rights = [right; ROWS];
        let mut row = 0;
        while row < ROWS {
            rights[row] = right.offset(rows[row].right);
            row += 1;
        }
        for at in 0..count {
            let product = *products.add(at);
            let numbers = tail.load::<V>(left.offset(product.left));
            let mut row = 0;
            while row < ROWS {
                sums[row][0] = sums[row][0].apply(numbers, tail.load::<V>(rights[row].offset(product.right)));
                row += 1;
            }
        }
        store_rows::<V, ROWS, 1>(output, rows, &sums, tail);
    }
}

/// What the sums of a tile begin with.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn first_sums<V: Vector, const ROWS: usize, const VECTORS: usize>(
    tile: &Tile<V::Number>,
    rows: &[Row; ROWS],
    tail: Tail<V::Mask>,
) -> [[V; VECTORS]; ROWS] {
    // SAFETY: promised by the caller.
    unsafe {
        let mut sums = [[V::zero(); VECTORS]; ROWS];
        let mut row = 0;
        while row < ROWS {
            let output = tile.output.wrapping_offset(rows[row].output);
            match tile.initial {
                Initial::Stored => sums[row] = load_strip::<V, VECTORS>(output, tail),
                Initial::Zeros => {}
            }
            row += 1;
        }
        sums
    }
}

/// Loads adjacent numbers, of the last vector only the lanes of the tail.
///
/// # Safety
/// See [`Vector::load`], for these numbers.
#[inline(always)]
unsafe fn load_strip<V: Vector, const VECTORS: usize>(address: *const V::Number, tail: Tail<V::Mask>) -> [V; VECTORS] {
    // SAFETY: promised by the caller.
    unsafe {
        let mut vectors = [V::zero(); VECTORS];
        let mut vector = 0;
        while vector + 1 < VECTORS {
            vectors[vector] = V::load(address.add(vector * V::LANES));
            vector += 1;
        }
        vectors[vector] = tail.load::<V>(address.add(vector * V::LANES));
        vectors
    }
}

/// Loads numbers that are `STRIDE` apart, one or two, of the last vector only the lanes of the tail.
///
/// # Safety
/// See [`Vector::load`], for these numbers.
#[inline(always)]
unsafe fn load_separate<V: Vector, const VECTORS: usize, const STRIDE: usize>(
    address: *const V::Number,
    tail: Tail<V::Mask>,
) -> [V; VECTORS] {
    // SAFETY: promised by the caller.
    unsafe {
        if STRIDE == 1 {
            return load_strip::<V, VECTORS>(address, tail);
        }
        let mut vectors = [V::zero(); VECTORS];
        let mut vector = 0;
        while vector + 1 < VECTORS {
            vectors[vector] = V::load_even(address.add(STRIDE * vector * V::LANES));
            vector += 1;
        }
        let address = address.add(STRIDE * vector * V::LANES);
        vectors[vector] = if tail.is_whole { V::load_even(address) } else { V::load_some_even(address, tail.count) };
        vectors
    }
}

/// Stores the sums of a tile.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn store_rows<V: Vector, const ROWS: usize, const VECTORS: usize>(
    output: *mut V::Number,
    rows: &[Row; ROWS],
    sums: &[[V; VECTORS]; ROWS],
    tail: Tail<V::Mask>,
) {
    let mut row = 0;
    while row < ROWS {
        // SAFETY: promised by the caller.
        unsafe { store_strip::<V, VECTORS>(output.offset(rows[row].output), sums[row], tail) };
        row += 1;
    }
}

/// Stores adjacent numbers, of the last vector only the lanes of the tail.
///
/// # Safety
/// See [`Vector::store`], for these numbers.
#[inline(always)]
unsafe fn store_strip<V: Vector, const VECTORS: usize>(
    address: *mut V::Number,
    vectors: [V; VECTORS],
    tail: Tail<V::Mask>,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut vector = 0;
        while vector + 1 < VECTORS {
            vectors[vector].store(address.add(vector * V::LANES));
            vector += 1;
        }
        tail.store(vectors[vector], address.add(vector * V::LANES));
    }
}
