//! Tiles of partial sums, for all levels: each element of a tile has [`PARTIAL`] of them in registers.

use super::super::blocking::{COLUMNS, PARTIAL, PARTIAL_SUMS, TILE_ROWS};
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::aarch64::{DotI8x16, FmaF32x4, MulAddF32x4, MulAddI32x4};
use super::portable::Array;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::wasm32::{FmaF32x4, MulAddF32x4, MulAddI32x4};
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
use super::wasm32_relaxed::RelaxedFmaF32x4;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
use super::x86_64::{DotI16x16, FmaF32x8, FmaF32x16, MulAddF32x8, MulAddF32x16, MulAddI32x8, MulAddI32x16};
use crate::contraction::arithmetic::{Arithmetic, FmaF32, MulAddF32, MulAddI32};
use crate::contraction::copy;
use crate::contraction::level::Level;
use crate::contraction::operand::load;
use crate::contraction::vector::Vector;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use crate::proof::DotProduct;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
use crate::proof::V3;

/// The operands of a tile, whose numbers of each row and column are adjacent: it is within a block of rows and columns.
#[derive(Debug)]
pub(in super::super) struct Tile<'l, N> {
    left: *const N,
    right: *const N,
    rows: &'l [isize; TILE_ROWS],
    columns: &'l [isize; COLUMNS],
    count: usize,
    /// The partial sums of the block.
    sums: &'l mut [N; PARTIAL_SUMS],
    /// The first row and column of the tile in the block.
    at: (usize, usize),
}

/// Numbers between the partial sums of a row of a block and of the next one.
pub(in super::super) const ROW_STRIDE: usize = COLUMNS * PARTIAL;

impl<'l, N> Tile<'l, N> {
    /// Names so many products of the rows and columns of a block: for each row, how far its numbers are in the left operand, for each
    /// column, how far they are in the right operand; and the sums of the block.
    ///
    /// # Safety
    /// As many adjacent numbers are valid for the rows and columns that exist: the first ones, which are all that tiles are
    /// [moved](Tile::move_to) to.
    pub(in super::super) unsafe fn new(
        (left, rows): (*const N, &'l [isize; TILE_ROWS]),
        (right, columns): (*const N, &'l [isize; COLUMNS]),
        count: usize,
        sums: &'l mut [N; PARTIAL_SUMS],
    ) -> Tile<'l, N> {
        Tile { left, right, rows, columns, count, sums, at: (0, 0) }
    }

    /// Goes on to the tile that begins at a row and a column.
    ///
    /// # Safety
    /// The rows and columns of the tile that runs next exist.
    pub(in super::super) const unsafe fn move_to(&mut self, row: usize, column: usize) {
        self.at = (row, column);
    }
}

/// The partial sums of elements, and the elements.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Finish<'a, N> {
    sums: &'a [N],
    output: *mut N,
    /// For each element, how far it is in the output.
    columns: &'a [isize],
}

impl<'a, N> Finish<'a, N> {
    /// Names elements of the output, and their partial sums.
    ///
    /// # Panics
    /// If there are fewer sums than those of all elements.
    ///
    /// # Safety
    /// The elements are valid in the output.
    pub(in super::super) unsafe fn new(sums: &'a [N], output: *mut N, columns: &'a [isize]) -> Finish<'a, N> {
        Finish { sums: &sums[..columns.len() * PARTIAL], output, columns }
    }
}

/// Runs a tile.
///
/// # Safety
/// The processor has the level's features: [`Tiles`] are found by the proof of it alone.
pub(in super::super) type Run<N> = unsafe fn(&mut Tile<'_, N>);

/// By the number of columns, descending to 1: the code.
type Widths<N> = &'static [(usize, Run<N>)];

/// The tiles of an operation for a level of processors. A value proves that this processor is of the level, as the other
/// [tables](super::Tiles) do.
pub(in super::super) struct Tiles<N: 'static> {
    /// The numbers of rows, descending to 1; for each the numbers of columns, descending to 1, and the code.
    pub(in super::super) sizes: &'static [(usize, Widths<N>)],
    /// Adds the partial sums of elements to them.
    ///
    /// # Safety
    /// As for [`Run`].
    pub(in super::super) finish: unsafe fn(&Finish<'_, N>),
}

/// Runs a tile of so many rows and columns, with vectors of which `VECTORS` hold the partial sums of an element. It is compiled as a part
/// of the level's function, without closures: see [`run`](super::run).
#[inline(always)]
fn run<V: Vector, const ROWS: usize, const WIDTH: usize, const VECTORS: usize>(
    level: V::Level,
    tile: &mut Tile<'_, V::Number>,
) {
    const { assert!(VECTORS * V::LANES == PARTIAL && ROWS <= TILE_ROWS && WIDTH <= COLUMNS) };
    const { assert!(PARTIAL_SUMS == TILE_ROWS * ROW_STRIDE) };
    let Tile { left, right, rows, columns, count, at: (first_row, first_column), .. } = *tile;
    assert!(first_row <= TILE_ROWS - ROWS && first_column <= COLUMNS - WIDTH);
    // SAFETY: the check above: the sums are those of the block.
    let first = unsafe { tile.sums.as_mut_ptr().add(first_row * ROW_STRIDE + first_column * PARTIAL) };
    // SAFETY: `Tile::new` and `Tile::move_to` were promised the numbers of these rows and columns. Their sums are within the block: the
    // check above.
    unsafe {
        let (mut lefts, mut rights) = ([left; ROWS], [right; WIDTH]);
        let mut sums = [[[V::zero(level); VECTORS]; WIDTH]; ROWS];
        let (mut row, mut column) = (0, 0);
        while column < WIDTH {
            rights[column] = right.offset(columns[first_column + column]);
            column += 1;
        }
        while row < ROWS {
            lefts[row] = left.offset(rows[first_row + row]);
            let mut column = 0;
            while column < WIDTH {
                sums[row][column] = load_partial(level, first.add(row * ROW_STRIDE + column * PARTIAL), PARTIAL);
                column += 1;
            }
            row += 1;
        }
        let whole = count / PARTIAL * PARTIAL;
        let mut at = 0;
        while at < whole {
            add(level, &mut sums, &lefts, &rights, at, PARTIAL);
            at += PARTIAL;
        }
        if whole < count {
            add(level, &mut sums, &lefts, &rights, whole, count - whole);
        }
        let mut row = 0;
        while row < ROWS {
            let mut column = 0;
            while column < WIDTH {
                let address = first.add(row * ROW_STRIDE + column * PARTIAL);
                let mut vector = 0;
                while vector < VECTORS {
                    sums[row][column][vector].store(address.add(vector * V::LANES));
                    vector += 1;
                }
                column += 1;
            }
            row += 1;
        }
    }
}

/// Loads a number for each partial sum: the first `count`, and zeros in the others.
///
/// # Safety
/// See [`Vector::load`], for these numbers.
#[inline(always)]
unsafe fn load_partial<V: Vector, const VECTORS: usize>(
    level: V::Level,
    address: *const V::Number,
    count: usize,
) -> [V; VECTORS] {
    let mut vectors = [V::zero(level); VECTORS];
    let mut vector = 0;
    while vector < VECTORS {
        let first = vector * V::LANES;
        // SAFETY: the caller promises `count` numbers: all if there are as many partial sums, else those of the mask.
        vectors[vector] = unsafe {
            if count == PARTIAL {
                V::load(level, address.add(first))
            } else {
                let mask = V::mask(level, count.saturating_sub(first).min(V::LANES));
                V::load_some(level, address.wrapping_add(first), mask)
            }
        };
        vector += 1;
    }
    vectors
}

/// Adds the products from `at` on, one to each of the first `count` partial sums of each element of a tile.
///
/// # Safety
/// See [`Vector::load`], for the numbers of the products.
#[inline(always)]
unsafe fn add<V: Vector, const ROWS: usize, const WIDTH: usize, const VECTORS: usize>(
    level: V::Level,
    sums: &mut [[[V; VECTORS]; WIDTH]; ROWS],
    lefts: &[*const V::Number; ROWS],
    rights: &[*const V::Number; WIDTH],
    at: usize,
    count: usize,
) {
    // SAFETY: the caller promises `count` numbers from `at` on for each row and column.
    unsafe {
        let mut right = [[V::zero(level); VECTORS]; WIDTH];
        let mut column = 0;
        while column < WIDTH {
            right[column] = load_partial(level, rights[column].add(at), count);
            column += 1;
        }
        let mut row = 0;
        while row < ROWS {
            let left: [V; VECTORS] = load_partial(level, lefts[row].add(at), count);
            let mut column = 0;
            while column < WIDTH {
                let mut vector = 0;
                while vector < VECTORS {
                    sums[row][column][vector] = sums[row][column][vector].apply(left[vector], right[column][vector]);
                    vector += 1;
                }
                column += 1;
            }
            row += 1;
        }
    }
}

/// Adds partial sums to their elements, as many elements at a time as vectors have lanes, as [`combine`] does.
#[inline(always)]
fn finish<O: Arithmetic, V: Vector<Number = O::Number>, const LANES: usize>(
    level: V::Level,
    finish: &Finish<'_, O::Number>,
) {
    const { assert!(LANES == V::LANES && PARTIAL == 16) };
    let Finish { sums, output, columns } = *finish;
    let sums = sums.as_ptr();
    let mut at = 0;
    while columns.len() - at >= LANES {
        let (sums, offsets) = (sums.wrapping_add(at * PARTIAL), &columns[at..at + LANES]);
        // SAFETY: `Finish::new` was promised that the elements are valid in the output, and checked that all have their sums.
        unsafe {
            // Each vector has the partial sums of all elements at the same position.
            let mut vectors = [V::zero(level); PARTIAL];
            let mut first = 0;
            while first < PARTIAL {
                let four = V::transpose(level, sums.wrapping_add(first), PARTIAL as isize);
                let mut position = 0;
                while position < 4 {
                    vectors[first + position] = four[position];
                    position += 1;
                }
                first += 4;
            }
            add_halves::<V, 8>(&mut vectors);
            add_halves::<V, 4>(&mut vectors);
            add_halves::<V, 2>(&mut vectors);
            add_halves::<V, 1>(&mut vectors);
            if copy::is_adjacent(offsets) {
                let elements = output.wrapping_offset(offsets[0]);
                V::load(level, elements).add(vectors[0]).store(elements);
            } else {
                let mut totals = [O::ZERO; LANES];
                vectors[0].store(totals.as_mut_ptr());
                let mut lane = 0;
                while lane < LANES {
                    let element = output.wrapping_offset(offsets[lane]);
                    element.write(O::add(load(element), totals[lane]));
                    lane += 1;
                }
            }
        }
        at += LANES;
    }
    while at < columns.len() {
        // SAFETY: as above; an array is aligned as its elements.
        unsafe {
            let partial = load(sums.wrapping_add(at * PARTIAL).cast::<[O::Number; PARTIAL]>());
            let element = output.wrapping_offset(columns[at]);
            element.write(O::add(load(element), combine(partial, O::add)));
        }
        at += 1;
    }
}

/// Adds each of the second `HALF` vectors to that of the first ones.
#[inline(always)]
fn add_halves<V: Vector, const HALF: usize>(vectors: &mut [V; PARTIAL]) {
    let mut at = 0;
    while at < HALF {
        vectors[at] = vectors[at].add(vectors[at + HALF]);
        at += 1;
    }
}

/// The functions of a level, which are compiled for its features. In a function that is compiled for the features, `$proof::here` is safe
/// to call.
macro_rules! level {
    ($level:ident, $proof:ident, $vectors:literal of $lanes:literal $(, $features:literal)?) => {
        mod $level {
            use super::{Arithmetic, Finish, Tile, Vector};
            use crate::proof::$proof;

            $(#[target_feature(enable = $features)])?
            pub(super) fn tile<V: Vector<Level = $proof>, const ROWS: usize, const WIDTH: usize>(
                tile: &mut Tile<'_, V::Number>,
            ) {
                super::run::<V, ROWS, WIDTH, $vectors>($proof::here(), tile);
            }

            $(#[target_feature(enable = $features)])?
            pub(super) fn finish<O: Arithmetic, V: Vector<Number = O::Number, Level = $proof>>(
                finish: &Finish<'_, O::Number>,
            ) {
                super::finish::<O, V, $lanes>($proof::here(), finish);
            }
        }
    };
}
level!(portable_of_4, Portable, 4 of 4);
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
level!(of_4, Neon, 4 of 4);
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
level!(dot_of_4, DotProduct, 4 of 4, "dotprod");
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
level!(of_4, Simd128, 4 of 4);
#[cfg(all(feature = "std", target_arch = "x86_64"))]
level!(of_8, V3, 2 of 8, "avx2,fma");
#[cfg(all(feature = "std", target_arch = "x86_64"))]
level!(of_16, V4, 1 of 16, "avx512f,avx2,fma");

/// The table of an operation for a level: the numbers of rows, and the numbers of columns of each. The proof of the level leads to it.
macro_rules! tiles {
    ($proof:ident: $level:ident, $operation:ty, $number:ty, $vector:ty: $($rows:literal [$($columns:literal)*])*) => {{
        static TILES: Tiles<$number> = Tiles {
            sizes: &[$(($rows, &[$(($columns, $level::tile::<$vector, $rows, $columns>)),*])),*],
            finish: $level::finish::<$operation, $vector>,
        };
        of_proof::<$vector, $number>($proof, &TILES)
    }};
}

/// Returns a table to who has the proof of the level of its vectors.
const fn of_proof<V: Vector, N>(_: V::Level, tiles: &'static Tiles<N>) -> &'static Tiles<N> {
    tiles
}

macro_rules! operations {
    ($($name:ident: $operation:ty, $number:ty, $wide:ty, $narrow:ty, $four:ty, $relaxed:ty;)*) => { $(
        /// The tiles for a level of processors.
        pub(in super::super) fn $name(level: Level) -> &'static Tiles<$number> {
            match level {
                // Eight vectors hold partial sums, which hides the latency of additions.
                Level::Portable(proof) => {
                    tiles!(proof: portable_of_4, $operation, $number, Array<$operation>: 1 [2 1])
                }
                #[cfg(all(feature = "std", target_arch = "x86_64"))]
                Level::X86_64V3(proof) => tiles!(proof: of_8, $operation, $number, $narrow: 2 [2 1] 1 [4 1]),
                #[cfg(all(feature = "std", target_arch = "x86_64"))]
                Level::X86_64V4(proof) => tiles!(proof: of_16, $operation, $number, $wide: 4 [4 1] 1 [8 4 1]),
                #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
                Level::Neon(proof) => tiles!(proof: of_4, $operation, $number, $four: 2 [2 1] 1 [2 1]),
                #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
                Level::DotProduct(proof) => $name(Level::Neon(proof.into())),
                #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                Level::Simd128(proof) => tiles!(proof: of_4, $operation, $number, $four: 1 [2 1]),
                #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
                Level::RelaxedSimd(proof) => tiles!(proof: of_4, $operation, $number, $relaxed: 1 [2 1]),
            }
        }
    )* };
}
operations! {
    fma_f32: FmaF32, f32, FmaF32x16, FmaF32x8, FmaF32x4, RelaxedFmaF32x4;
    mul_add_f32: MulAddF32, f32, MulAddF32x16, MulAddF32x8, MulAddF32x4, MulAddF32x4;
    mul_add_i32: MulAddI32, i32, MulAddI32x16, MulAddI32x8, MulAddI32x4, MulAddI32x4;
}

/// The tiles of [`Dot`](crate::contraction::groups::Dot).
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub(in super::super) fn dot(proof: DotProduct) -> &'static Tiles<i32> {
    tiles!(proof: dot_of_4, crate::contraction::groups::Dot, i32, DotI8x16: 2 [2 1] 1 [2 1])
}

/// The tiles of [`Dot`](crate::contraction::groups::Dot).
#[cfg(all(feature = "std", target_arch = "x86_64"))]
pub(in super::super) fn dot(proof: V3) -> &'static Tiles<i32> {
    tiles!(proof: of_8, crate::contraction::groups::Dot, i32, DotI16x16: 2 [2 1] 1 [4 1])
}

/// Adds partial sums: each of the lower half is combined with that of the upper half, until one is left.
#[inline(always)]
pub(in super::super) fn combine<N: Copy>(partial: [N; PARTIAL], combine: impl Fn(N, N) -> N) -> N {
    let eight: [N; 8] = core::array::from_fn(|at| combine(partial[at], partial[at + 8]));
    let four: [N; 4] = core::array::from_fn(|at| combine(eight[at], eight[at + 4]));
    let two: [N; 2] = core::array::from_fn(|at| combine(four[at], four[at + 2]));
    combine(two[0], two[1])
}
