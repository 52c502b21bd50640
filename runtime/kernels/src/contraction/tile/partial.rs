//! Tiles of partial sums, for all levels: each element of a tile has [`PARTIAL`] of them in registers.

use super::super::blocking::PARTIAL;
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

/// The operands of a tile: numbers of each row and column are adjacent.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Tile<N> {
    pub(in super::super) left: *const N,
    pub(in super::super) right: *const N,
    /// For each row, how far its numbers are in the left operand.
    pub(in super::super) rows: *const isize,
    /// For each column, how far its numbers are in the right operand.
    pub(in super::super) columns: *const isize,
    /// The number of products.
    pub(in super::super) count: usize,
    /// The partial sums of the first row and column; those of the next columns follow.
    pub(in super::super) sums: *mut N,
    /// The distance of the partial sums of rows.
    pub(in super::super) stride: usize,
}

/// The partial sums of elements, and the elements.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Finish<'a, N> {
    pub(in super::super) sums: *const N,
    pub(in super::super) output: *mut N,
    /// For each element, how far it is in the output.
    pub(in super::super) columns: &'a [isize],
}

/// Runs a tile.
///
/// Safety: the addresses of all products of the tile and of its partial sums are valid, and the processor has the level's features.
pub(in super::super) type Run<N> = unsafe fn(&Tile<N>);

/// By the number of columns, descending to 1: the code.
type Widths<N> = &'static [(usize, Run<N>)];

/// The tiles of an operation for a level of processors.
pub(in super::super) struct Tiles<N: 'static> {
    /// The numbers of rows, descending to 1; for each the numbers of columns, descending to 1, and the code.
    pub(in super::super) sizes: &'static [(usize, Widths<N>)],
    /// Adds the partial sums of elements to them.
    ///
    /// Safety: all sums and elements are valid, and the processor has the level's features.
    pub(in super::super) finish: unsafe fn(&Finish<'_, N>),
}

/// Runs a tile of so many rows and columns, with vectors of which `VECTORS` hold the partial sums of an element. It is compiled as a part
/// of the level's function, without closures: see [`run`](super::run).
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn run<V: Vector, const ROWS: usize, const COLUMNS: usize, const VECTORS: usize>(tile: &Tile<V::Number>) {
    const { assert!(VECTORS * V::LANES == PARTIAL) };
    let Tile { left, right, rows, columns, count, sums: first, stride } = *tile;
    // SAFETY: promised by the caller.
    unsafe {
        let (mut lefts, mut rights) = ([left; ROWS], [right; COLUMNS]);
        let mut sums = [[[V::zero(); VECTORS]; COLUMNS]; ROWS];
        let (mut row, mut column) = (0, 0);
        while column < COLUMNS {
            rights[column] = right.offset(*columns.add(column));
            column += 1;
        }
        while row < ROWS {
            lefts[row] = left.offset(*rows.add(row));
            let mut column = 0;
            while column < COLUMNS {
                sums[row][column] = load_partial(first.add(row * stride + column * PARTIAL), PARTIAL);
                column += 1;
            }
            row += 1;
        }
        let whole = count / PARTIAL * PARTIAL;
        let mut at = 0;
        while at < whole {
            add(&mut sums, &lefts, &rights, at, PARTIAL);
            at += PARTIAL;
        }
        if whole < count {
            add(&mut sums, &lefts, &rights, whole, count - whole);
        }
        let mut row = 0;
        while row < ROWS {
            let mut column = 0;
            while column < COLUMNS {
                let address = first.add(row * stride + column * PARTIAL);
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
unsafe fn load_partial<V: Vector, const VECTORS: usize>(address: *const V::Number, count: usize) -> [V; VECTORS] {
    // SAFETY: promised by the caller.
    unsafe {
        let mut vectors = [V::zero(); VECTORS];
        let mut vector = 0;
        while vector < VECTORS {
            let first = vector * V::LANES;
            vectors[vector] = if count == PARTIAL {
                V::load(address.add(first))
            } else {
                V::load_some(address.wrapping_add(first), V::mask(count.saturating_sub(first).min(V::LANES)))
            };
            vector += 1;
        }
        vectors
    }
}

/// Adds the products from `at` on, one to each of the first `count` partial sums of each element of a tile.
///
/// # Safety
/// See [`Vector::load`], for the numbers of the products.
#[inline(always)]
unsafe fn add<V: Vector, const ROWS: usize, const COLUMNS: usize, const VECTORS: usize>(
    sums: &mut [[[V; VECTORS]; COLUMNS]; ROWS],
    lefts: &[*const V::Number; ROWS],
    rights: &[*const V::Number; COLUMNS],
    at: usize,
    count: usize,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut right = [[V::zero(); VECTORS]; COLUMNS];
        let mut column = 0;
        while column < COLUMNS {
            right[column] = load_partial(rights[column].add(at), count);
            column += 1;
        }
        let mut row = 0;
        while row < ROWS {
            let left: [V; VECTORS] = load_partial(lefts[row].add(at), count);
            let mut column = 0;
            while column < COLUMNS {
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
///
/// # Safety
/// See [`Tiles::finish`].
#[inline(always)]
unsafe fn finish<O: Arithmetic, V: Vector<Number = O::Number>, const LANES: usize>(finish: &Finish<'_, O::Number>) {
    const { assert!(LANES == V::LANES && PARTIAL == 16) };
    let Finish { sums, output, columns } = *finish;
    let mut at = 0;
    while columns.len() - at >= LANES {
        let (sums, offsets) = (sums.wrapping_add(at * PARTIAL), &columns[at..at + LANES]);
        // SAFETY: promised by the caller.
        unsafe {
            // Each vector has the partial sums of all elements at the same position.
            let mut vectors = [V::zero(); PARTIAL];
            let mut first = 0;
            while first < PARTIAL {
                let four = V::transpose(sums.wrapping_add(first), PARTIAL as isize);
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
                V::load(elements).add(vectors[0]).store(elements);
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
        // SAFETY: promised by the caller; an array is aligned as its elements.
        unsafe {
            let partial = load(sums.wrapping_add(at * PARTIAL).cast::<[O::Number; PARTIAL]>());
            let element = output.wrapping_offset(columns[at]);
            element.write(O::add(load(element), combine(partial, O::add)));
        }
        at += 1;
    }
}

/// Adds each of the second `HALF` vectors to that of the first ones.
///
/// # Safety
/// The processor has the features of the vectors.
#[inline(always)]
unsafe fn add_halves<V: Vector, const HALF: usize>(vectors: &mut [V; PARTIAL]) {
    let mut at = 0;
    while at < HALF {
        // SAFETY: promised by the caller.
        vectors[at] = unsafe { vectors[at].add(vectors[at + HALF]) };
        at += 1;
    }
}

/// The functions of a level, which are compiled for its features.
macro_rules! level {
    ($level:ident, $vectors:literal of $lanes:literal $(, $features:literal)?) => {
        mod $level {
            use super::{Arithmetic, Finish, Tile, Vector};

            /// Safety: see [`super::Run`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn tile<V: Vector, const ROWS: usize, const COLUMNS: usize>(tile: &Tile<V::Number>) {
                // SAFETY: promised by the caller.
                unsafe { super::run::<V, ROWS, COLUMNS, $vectors>(tile) }
            }

            /// Safety: see [`super::Tiles::finish`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn finish<O: Arithmetic, V: Vector<Number = O::Number>>(finish: &Finish<'_, O::Number>) {
                // SAFETY: promised by the caller.
                unsafe { super::finish::<O, V, $lanes>(finish) }
            }
        }
    };
}
level!(of_4, 4 of 4);
#[cfg(all(feature = "std", target_arch = "x86_64"))]
level!(of_8, 2 of 8, "avx2,fma");
#[cfg(all(feature = "std", target_arch = "x86_64"))]
level!(of_16, 1 of 16, "avx512f,avx2,fma");

/// The table of an operation for a level: the numbers of rows, and the numbers of columns of each.
macro_rules! tiles {
    ($level:ident, $operation:ty, $number:ty, $vector:ty: $($rows:literal [$($columns:literal)*])*) => {{
        static TILES: Tiles<$number> = Tiles {
            sizes: &[$(($rows, &[$(($columns, $level::tile::<$vector, $rows, $columns>)),*])),*],
            finish: $level::finish::<$operation, $vector>,
        };
        &TILES
    }};
}

macro_rules! operations {
    ($($name:ident: $operation:ty, $number:ty, $wide:ty, $narrow:ty, $four:ty, $relaxed:ty;)*) => { $(
        /// The tiles for a level of processors.
        pub(in super::super) fn $name(level: Level) -> &'static Tiles<$number> {
            match level {
                // Eight vectors hold partial sums, which hides the latency of additions.
                Level::Portable => tiles!(of_4, $operation, $number, Array<$operation>: 1 [2 1]),
                #[cfg(all(feature = "std", target_arch = "x86_64"))]
                Level::X86_64V3 => tiles!(of_8, $operation, $number, $narrow: 2 [2 1] 1 [4 1]),
                #[cfg(all(feature = "std", target_arch = "x86_64"))]
                Level::X86_64V4 => tiles!(of_16, $operation, $number, $wide: 4 [4 1] 1 [8 4 1]),
                #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
                Level::Neon => tiles!(of_4, $operation, $number, $four: 2 [2 1] 1 [2 1]),
                #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                Level::Simd128 => tiles!(of_4, $operation, $number, $four: 1 [2 1]),
                #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
                Level::RelaxedSimd => tiles!(of_4, $operation, $number, $relaxed: 1 [2 1]),
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
pub(in super::super) fn dot() -> &'static Tiles<i32> {
    tiles!(of_4, crate::contraction::groups::Dot, i32, DotI8x16: 2 [2 1] 1 [2 1])
}

/// The tiles of [`Dot`](crate::contraction::groups::Dot).
#[cfg(all(feature = "std", target_arch = "x86_64"))]
pub(in super::super) fn dot() -> &'static Tiles<i32> {
    tiles!(of_8, crate::contraction::groups::Dot, i32, DotI16x16: 2 [2 1] 1 [4 1])
}

/// Adds partial sums: each of the lower half is combined with that of the upper half, until one is left.
#[inline(always)]
pub(in super::super) fn combine<N: Copy>(partial: [N; PARTIAL], combine: impl Fn(N, N) -> N) -> N {
    let eight: [N; 8] = core::array::from_fn(|at| combine(partial[at], partial[at + 8]));
    let four: [N; 4] = core::array::from_fn(|at| combine(eight[at], eight[at + 4]));
    let two: [N; 2] = core::array::from_fn(|at| combine(four[at], four[at + 2]));
    combine(two[0], two[1])
}
