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
use super::operand::load;
use super::vector::Vector;
pub(super) use ahead::Ahead;
use gaxpy::run_gaxpy;
use transposed::run_transposed;
pub(super) use windows::LEAST_ROWS;
use windows::{LINES, run_strip_of_windows};

/// The operands of tiles with the same columns, one after the other: to begin and to end each would take as long as some products.
/// Numbers of the right operand are loaded as vectors, those of the left one each for itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile<'l, N> {
    /// The first column of the first row.
    pub(super) output: *mut N,
    /// What the output is before.
    pub(super) initial: Initial,
    /// The left operand's number of the first row and product.
    pub(super) left: *const N,
    /// The right operand's number of the first column and product.
    pub(super) right: *const N,
    /// For each row of all tiles, how far its output and its operands are.
    pub(super) rows: &'l [Row],
    /// For each product, how far the operands are.
    pub(super) products: &'l [Product],
    /// The code that runs the tiles.
    pub(super) shape: Shape,
    /// The number of columns in the last vector.
    pub(super) tail: usize,
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

/// How the code of tiles finds columns in the right operand, and how many of them it has. It decides what the code accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape(usize);

impl Shape {
    /// Columns are adjacent, and the same for all rows.
    pub(super) const SHARED: usize = 0;
    /// Columns are adjacent, and others for each row. All rows have the same left operand.
    pub(super) const SEPARATE: usize = 1;
    /// The same with columns of which every second is used.
    pub(super) const SEPARATE_EVEN: usize = 2;
    /// Products are adjacent, and columns at a distance.
    pub(super) const TRANSPOSED: usize = 3;
    /// As `SEPARATE`, where each lane has a number of the left operand of its own.
    pub(super) const ACROSS: usize = 4;
    /// As `SHARED`, for any number of vectors.
    pub(super) const GAXPY: usize = 5;

    /// Of one of the kinds above, with vectors of so many lanes.
    pub(super) const fn of(kind: usize, lanes: usize) -> Shape {
        Shape(kind << 24 | lanes)
    }

    /// The same with so many vectors.
    #[inline(always)]
    pub(super) const fn with(self, vectors: usize) -> Shape {
        Shape(self.0 | vectors << 8)
    }

    /// The number of vectors.
    const fn vectors(self) -> usize {
        self.0 >> 8 & 0xFFFF
    }

    /// Panics if code of one shape is to run tiles of another one.
    #[inline(always)]
    fn check(self, of_code: Shape) {
        if self != of_code {
            wrong_shape();
        }
    }
}

/// Tiles whose elements are valid: what [`Tile::valid`] was promised. All code of tiles takes it, and accesses nothing else.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Valid<'t, N>(&'t Tile<'t, N>);

impl<'l, N> Tile<'l, N> {
    /// The tiles, for the code that runs them.
    ///
    /// # Safety
    /// - For each row, each product and each column of the shape's vectors, of the last one so many as the tail says, which is at least one
    ///   and at most all lanes: the elements at the sums of their offsets are valid in the output and in both operands, and nothing else
    ///   writes those of the operands. What `Shape` says of the kind of the shape holds.
    /// - With a `distance`, product `i` is at `i` in the left operand, and at `i` times the distance in the right one.
    /// - With `lines`, rows and products are those of [`Plan::lines_of_windows`](super::plan::Plan::lines_of_windows).
    #[inline(always)]
    pub(super) unsafe fn valid(&'l self) -> Valid<'l, N> {
        Valid(self)
    }
}

/// Runs tiles.
///
/// # Safety
/// The processor has the level's features: [`Tiles`] are found by the proof of it alone.
pub(super) type Run<N> = unsafe fn(Valid<'_, N>);

/// By the number of vectors less one: the numbers of rows, descending to 1, and the code.
pub(super) type Sizes<N> = &'static [&'static [(usize, Run<N>)]];

/// The tiles of an operation for a level of processors. A value proves that this processor is of the level: each table is returned by a
/// function of the proof (see `tiles!`).
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
struct Tail<V: Vector> {
    level: V::Level,
    mask: V::Mask,
    count: usize,
    /// All: processors may take long for masked accesses, for stores with AVX2 above all.
    is_whole: bool,
}

impl<V: Vector> Tail<V> {
    #[inline(always)]
    fn of(level: V::Level, count: usize) -> Tail<V> {
        Tail { level, mask: V::mask(level, count), count, is_whole: count == V::LANES }
    }

    /// # Safety
    /// See [`Vector::load`], for these lanes.
    #[inline(always)]
    unsafe fn load(self, address: *const V::Number) -> V {
        // SAFETY: the caller promises these lanes: all of them if the tail is whole (`Tail::of`), else those of the mask.
        unsafe {
            if self.is_whole { V::load(self.level, address) } else { V::load_some(self.level, address, self.mask) }
        }
    }

    /// # Safety
    /// See [`Vector::load`], for these lanes.
    #[inline(always)]
    unsafe fn store(self, vector: V, address: *mut V::Number) {
        // SAFETY: as for `load`.
        unsafe { if self.is_whole { vector.store(address) } else { vector.store_some(address, self.mask) } }
    }
}

/// A valid strip of columns, whose shape is this one: `KIND` and `VECTORS`, and the lanes of `V`.
struct Strip<'t, V: Vector, const KIND: usize, const VECTORS: usize> {
    tile: &'t Tile<'t, V::Number>,
    /// Rows that have not been run.
    rows: &'t [Row],
    tail: Tail<V>,
}

/// Some of the rows of a strip: a micro-tile.
struct MicroTile<'t, V: Vector, const ROWS: usize, const KIND: usize, const VECTORS: usize> {
    tile: &'t Tile<'t, V::Number>,
    rows: &'t [Row; ROWS],
    tail: Tail<V>,
}

/// For each row of a micro-tile, where the operands of its products begin.
type Addresses<N, const ROWS: usize> = ([*const N; ROWS], [*const N; ROWS]);

impl<'t, V: Vector, const KIND: usize, const VECTORS: usize> Strip<'t, V, KIND, VECTORS> {
    /// Checks that the code is that of the tiles.
    #[inline(always)]
    fn of(level: V::Level, Valid(tile): Valid<'t, V::Number>) -> Self {
        tile.shape.check(const { Shape::of(KIND, V::LANES).with(VECTORS) });
        Strip { tile, rows: tile.rows, tail: Tail::of(level, tile.tail) }
    }

    /// The same strip with a tail of which the compiler knows that it is whole.
    #[inline(always)]
    fn whole(&self) -> Self {
        debug_assert!(self.tail.is_whole);
        Strip { tail: Tail { count: V::LANES, is_whole: true, ..self.tail }, ..*self }
    }

    /// The same strip, with a mask for the tail.
    #[inline(always)]
    fn masked(&self) -> Self {
        Strip { tail: Tail { is_whole: false, ..self.tail }, ..*self }
    }

    /// The next micro-tile of so many rows, if there are as many.
    #[inline(always)]
    fn next<const ROWS: usize>(&mut self) -> Option<MicroTile<'t, V, ROWS, KIND, VECTORS>> {
        let rows;
        (rows, self.rows) = self.rows.split_first_chunk::<ROWS>()?;
        Some(MicroTile { tile: self.tile, rows, tail: self.tail })
    }
}

#[cold]
#[inline(never)]
fn wrong_shape() -> ! {
    unreachable!("tiles of another shape");
}

/// Runs tiles of so many rows and vectors, compiled as a part of the level's function: without closures and adapters of iterators,
/// because LLVM does not inline a function without the level's features if it calls one that passes vectors. `KIND` is
/// [`Shape::SHARED`], or the distance of the right operand's numbers of adjacent columns where rows have a right operand each.
#[inline(always)]
pub(super) fn run<V: Vector, const ROWS: usize, const VECTORS: usize, const KIND: usize>(
    level: V::Level,
    tile: Valid<'_, V::Number>,
) {
    const { assert!(KIND <= Shape::SEPARATE_EVEN) };
    let strip = Strip::<V, KIND, VECTORS>::of(level, tile);
    if const { KIND > 0 && ROWS >= LEAST_ROWS && V::LANES == NUMBERS_OF_A_LINE } {
        // Only the loop with masks, as such tiles take long to compile.
        if strip.tile.lines == LINES[0] {
            return run_strip_of_windows::<V, ROWS, VECTORS, KIND, { LINES[0] }>(strip.masked());
        } else if strip.tile.lines == LINES[1] {
            return run_strip_of_windows::<V, ROWS, VECTORS, KIND, { LINES[1] }>(strip.masked());
        }
    }
    // Two loops over products, one of them without masks.
    if strip.tail.is_whole {
        run_strip::<V, ROWS, VECTORS, KIND>(strip.whole());
    } else {
        run_strip::<V, ROWS, VECTORS, KIND>(strip.masked());
    }
}

#[inline(always)]
fn run_strip<V: Vector, const ROWS: usize, const VECTORS: usize, const KIND: usize>(
    mut strip: Strip<'_, V, KIND, VECTORS>,
) {
    let mut at = 0;
    while let Some(tile) = strip.next::<ROWS>() {
        run_tile(&tile, at);
        at += 1;
    }
}

/// Runs one of the tiles.
#[inline(always)]
fn run_tile<V: Vector, const ROWS: usize, const VECTORS: usize, const KIND: usize>(
    tile: &MicroTile<'_, V, ROWS, KIND, VECTORS>,
    at: usize,
) {
    let mut sums = tile.first_sums();
    let addresses = tile.addresses();
    let (products, mut done) = (tile.tile.products, 0);
    if V::ADDS_FOUR && KIND == Shape::SHARED && ROWS >= 4 {
        let ahead = tile.tile.ahead_of(tile.rows, at);
        done = match tile.tile.distance {
            Some(distance) => add_regular(&mut sums, tile, distance, ahead),
            // SAFETY: the addresses are those of the tile.
            None => unsafe { add_listed(&mut sums, tile, &addresses, ahead) },
        };
    }
    while done < products.len() {
        // SAFETY: `Tile::valid` was promised that the products of the list have elements in all rows and columns of the tile.
        unsafe { add_to_tile::<V, ROWS, VECTORS, KIND>(&mut sums, &addresses, products[done], tile.tail) };
        done += 1;
    }
    tile.store(&sums);
}

/// Adds products where the left operand's numbers are adjacent and the right operands at a distance, four at once, and returns how many
/// there were: the rest are fewer. That takes fewer instructions than products of a list, whose offsets are loaded.
#[inline(always)]
fn add_regular<V: Vector, const ROWS: usize, const VECTORS: usize, const KIND: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    tile: &MicroTile<'_, V, ROWS, KIND, VECTORS>,
    distance: isize,
    (mut next, fetched): (*const V::Number, usize),
) -> usize {
    let Tile { mut left, mut right, products, .. } = *tile.tile;
    let mut rest = products.len();
    while rest >= 4 {
        let mut lefts = [left; ROWS];
        let mut row = 0;
        while row < ROWS {
            lefts[row] = left.wrapping_offset(tile.rows[row].left);
            row += 1;
        }
        let addresses = (lefts, [right; ROWS]);
        let mut at = 0;
        while at < 4 {
            if at % 2 == 0 {
                V::fetch_ahead(next);
                next = next.wrapping_add(fetched);
            }
            let product = Product { left: at, right: at * distance };
            // SAFETY: `rest` is at least 4. These are the next four products of the list, of which `Tile::valid` was promised with a
            // distance where they are.
            unsafe { add_to_tile::<V, ROWS, VECTORS, KIND>(sums, &addresses, product, tile.tail) };
            at += 1;
        }
        left = V::hidden(left.wrapping_add(4));
        right = V::hidden(right.wrapping_offset(4 * distance));
        rest -= 4;
    }
    products.len() - rest
}

/// Adds products of the list, two at once, and returns how many there were: one may be left.
///
/// # Safety
/// The addresses are those of the tile.
#[inline(always)]
unsafe fn add_listed<V: Vector, const ROWS: usize, const VECTORS: usize, const KIND: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    tile: &MicroTile<'_, V, ROWS, KIND, VECTORS>,
    addresses: &Addresses<V::Number, ROWS>,
    (mut next, fetched): (*const V::Number, usize),
) -> usize {
    let products = tile.tile.products;
    let mut done = 0;
    while done + 2 <= products.len() {
        V::fetch_ahead(next);
        next = next.wrapping_add(fetched);
        // SAFETY: two products are left. `Tile::valid` was promised that those of the list have elements in all rows and columns of the tile.
        unsafe {
            let (first, second) = (*products.get_unchecked(done), *products.get_unchecked(done + 1));
            add_to_tile::<V, ROWS, VECTORS, KIND>(sums, addresses, first, tile.tail);
            add_to_tile::<V, ROWS, VECTORS, KIND>(sums, addresses, second, tile.tail);
        }
        done += 2;
    }
    done
}

/// Adds a product to each element of a tile.
///
/// # Safety
/// The product has a number of the left operand for each row, and numbers of the right operand for each row and column, at its offsets from
/// the addresses of the tile.
#[inline(always)]
unsafe fn add_to_tile<V: Vector, const ROWS: usize, const VECTORS: usize, const KIND: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    (lefts, rights): &Addresses<V::Number, ROWS>,
    product: Product,
    tail: Tail<V>,
) {
    // SAFETY: the caller promises the numbers at these offsets. With `KIND`, `load_separate` loads the numbers of that distance.
    unsafe {
        let (mut vectors, mut number) = ([V::zero(tail.level); VECTORS], V::zero(tail.level));
        if KIND > 0 {
            number = V::splat(tail.level, load(lefts[0].offset(product.left)));
        } else {
            vectors = load_strip::<V, VECTORS>(rights[0].offset(product.right), tail);
        }
        let mut row = 0;
        while row < ROWS {
            if KIND > 0 {
                vectors = load_separate::<V, VECTORS, KIND>(rights[row].offset(product.right), tail);
            } else {
                number = V::splat(tail.level, load(lefts[row].offset(product.left)));
            }
            add_to_row(&mut sums[row], number, &vectors);
            row += 1;
        }
    }
}

/// Adds a product to each vector of a row.
#[inline(always)]
fn add_to_row<V: Vector, const VECTORS: usize>(sums: &mut [V; VECTORS], number: V, vectors: &[V; VECTORS]) {
    let mut vector = 0;
    while vector < VECTORS {
        sums[vector] = sums[vector].apply(number, vectors[vector]);
        vector += 1;
    }
}

/// As [`run`], where vectors of both operands hold numbers of as many iterations of one loop, and rows have the same left operand.
#[inline(always)]
pub(super) fn run_lanes<V: Vector, const ROWS: usize>(level: V::Level, tile: Valid<'_, V::Number>) {
    // The memory of packed outputs has so many for each row.
    const { assert!(V::LANES <= LANES) };
    let strip = Strip::<V, { Shape::ACROSS }, 1>::of(level, tile);
    // Two loops over products, one of them without masks.
    if strip.tail.is_whole {
        run_some_lanes::<V, ROWS>(strip.whole());
    } else {
        run_some_lanes::<V, ROWS>(strip.masked());
    }
}

#[inline(always)]
fn run_some_lanes<V: Vector, const ROWS: usize>(mut strip: Strip<'_, V, { Shape::ACROSS }, 1>) {
    while let Some(tile) = strip.next::<ROWS>() {
        run_lanes_of_tile(&tile);
    }
}

#[inline(always)]
fn run_lanes_of_tile<V: Vector, const ROWS: usize>(tile: &MicroTile<'_, V, ROWS, { Shape::ACROSS }, 1>) {
    let (left, tail) = (tile.tile.left, tile.tail);
    let mut sums = tile.first_sums();
    let (_, rights) = tile.addresses();
    for product in tile.tile.products {
        // SAFETY: `Tile::valid` was promised that the products of the list have numbers for all lanes of the tail, in all rows.
        unsafe {
            let numbers = tail.load(left.offset(product.left));
            let mut row = 0;
            while row < ROWS {
                sums[row][0] = sums[row][0].apply(numbers, tail.load(rights[row].offset(product.right)));
                row += 1;
            }
        }
    }
    tile.store(&sums);
}

impl<V: Vector, const ROWS: usize, const KIND: usize, const VECTORS: usize> MicroTile<'_, V, ROWS, KIND, VECTORS> {
    /// For each row, where the operands of its products begin.
    #[inline(always)]
    fn addresses(&self) -> Addresses<V::Number, ROWS> {
        let Tile { left, right, .. } = *self.tile;
        let (mut lefts, mut rights) = ([left; ROWS], [right; ROWS]);
        let mut row = 0;
        while row < ROWS {
            // SAFETY: `Tile::valid` was promised that the row has elements of the operands, at the offsets of products from there on.
            unsafe {
                lefts[row] = left.offset(self.rows[row].left);
                rights[row] = right.offset(self.rows[row].right);
            }
            row += 1;
        }
        (lefts, rights)
    }

    /// What the sums begin with.
    #[inline(always)]
    fn first_sums(&self) -> [[V; VECTORS]; ROWS] {
        let mut sums = [[V::zero(self.tail.level); VECTORS]; ROWS];
        let mut row = 0;
        while row < ROWS {
            let output = self.tile.output.wrapping_offset(self.rows[row].output);
            match self.tile.initial {
                // SAFETY: `Tile::valid` was promised that the row has elements of the output in all columns, which `Strip::of` found to
                // be those of so many vectors.
                Initial::Stored => sums[row] = unsafe { load_strip::<V, VECTORS>(output, self.tail) },
                Initial::Zeros => {}
            }
            row += 1;
        }
        sums
    }

    /// Stores the sums.
    #[inline(always)]
    fn store(&self, sums: &[[V; VECTORS]; ROWS]) {
        let mut row = 0;
        while row < ROWS {
            // SAFETY: as for `first_sums`.
            unsafe {
                let output = self.tile.output.offset(self.rows[row].output);
                let mut vector = 0;
                while vector + 1 < VECTORS {
                    sums[row][vector].store(output.add(vector * V::LANES));
                    vector += 1;
                }
                self.tail.store(sums[row][vector], output.add(vector * V::LANES));
            }
            row += 1;
        }
    }
}

/// Loads adjacent numbers, of the last vector only the lanes of the tail.
///
/// # Safety
/// See [`Vector::load`], for these numbers.
#[inline(always)]
unsafe fn load_strip<V: Vector, const VECTORS: usize>(address: *const V::Number, tail: Tail<V>) -> [V; VECTORS] {
    // SAFETY: the caller promises all lanes of the vectors before the last, and of this one those of the tail.
    unsafe {
        let mut vectors = [V::zero(tail.level); VECTORS];
        let mut vector = 0;
        while vector + 1 < VECTORS {
            vectors[vector] = V::load(tail.level, address.add(vector * V::LANES));
            vector += 1;
        }
        vectors[vector] = tail.load(address.add(vector * V::LANES));
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
    tail: Tail<V>,
) -> [V; VECTORS] {
    // SAFETY: as in `load_strip`, for the first of every `STRIDE` numbers and those between them.
    unsafe {
        if STRIDE == Shape::SEPARATE {
            return load_strip::<V, VECTORS>(address, tail);
        }
        let mut vectors = [V::zero(tail.level); VECTORS];
        let mut vector = 0;
        while vector + 1 < VECTORS {
            vectors[vector] = V::load_even(tail.level, address.add(STRIDE * vector * V::LANES));
            vector += 1;
        }
        let address = address.add(STRIDE * vector * V::LANES);
        vectors[vector] = match tail.is_whole {
            true => V::load_even(tail.level, address),
            false => V::load_some_even(tail.level, address, tail.count),
        };
        vectors
    }
}
