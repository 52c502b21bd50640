//! Tiles of partial sums, for all levels: each element of a tile has [`PARTIAL_SUMS`] of them in registers.

use super::Vector;
use super::portable::Array;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
use super::x86_64::{FmaF32x8, FmaF32x16, MulAddF32x8, MulAddF32x16, MulAddI32x8, MulAddI32x16};
use crate::contraction::copy::BLOCK;
use crate::contraction::partial::PARTIAL_SUMS;
use crate::contraction::{FmaF32, Level, MulAddF32, MulAddI32, Operation, load};
use crate::reduction::combine;

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

/// Runs a tile of so many rows and columns, with vectors of which `VECTORS` hold the partial sums of an element.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
unsafe fn run<V: Vector, const ROWS: usize, const COLUMNS: usize, const VECTORS: usize>(tile: &Tile<V::Number>) {
    const { assert!(VECTORS * V::LANES == PARTIAL_SUMS) };
    let Tile { left, right, rows, columns, count, sums, stride } = *tile;
    // SAFETY: promised by the caller.
    unsafe {
        let lefts: [*const V::Number; ROWS] = core::array::from_fn(|row| left.offset(*rows.add(row)));
        let rights: [*const V::Number; COLUMNS] = core::array::from_fn(|column| right.offset(*columns.add(column)));
        let address = |row: usize, column: usize| sums.add(row * stride + column * PARTIAL_SUMS);
        let all = |address: *const V::Number| -> [V; VECTORS] {
            core::array::from_fn(|vector| V::load(address.add(vector * V::LANES)))
        };
        let mut tile: [[[V; VECTORS]; COLUMNS]; ROWS] =
            core::array::from_fn(|row| core::array::from_fn(|column| all(address(row, column))));
        let whole = count / PARTIAL_SUMS * PARTIAL_SUMS;
        let mut at = 0;
        while at < whole {
            add(&mut tile, |row| all(lefts[row].add(at)), |column| all(rights[column].add(at)));
            at += PARTIAL_SUMS;
        }
        if whole < count {
            let some = |address: *const V::Number| -> [V; VECTORS] {
                core::array::from_fn(|vector| {
                    let first = vector * V::LANES;
                    let lanes = (count - whole).saturating_sub(first).min(V::LANES);
                    V::load_padded(address.wrapping_add(first), lanes)
                })
            };
            add(&mut tile, |row| some(lefts[row].add(whole)), |column| some(rights[column].add(whole)));
        }
        for (row, sums) in tile.into_iter().enumerate() {
            for (column, sums) in sums.into_iter().enumerate() {
                for (vector, sum) in sums.into_iter().enumerate() {
                    sum.store(address(row, column).add(vector * V::LANES));
                }
            }
        }
    }
}

/// Adds a product to each partial sum of a tile.
///
/// # Safety
/// The processor has the features of the vectors.
#[inline(always)]
unsafe fn add<V: Vector, const ROWS: usize, const COLUMNS: usize, const VECTORS: usize>(
    tile: &mut [[[V; VECTORS]; COLUMNS]; ROWS],
    left: impl Fn(usize) -> [V; VECTORS],
    right: impl Fn(usize) -> [V; VECTORS],
) {
    let rights: [[V; VECTORS]; COLUMNS] = core::array::from_fn(&right);
    let mut row = 0;
    while row < ROWS {
        let left = left(row);
        let mut column = 0;
        while column < COLUMNS {
            let mut vector = 0;
            while vector < VECTORS {
                // SAFETY: promised by the caller.
                tile[row][column][vector] =
                    unsafe { tile[row][column][vector].apply(left[vector], rights[column][vector]) };
                vector += 1;
            }
            column += 1;
        }
        row += 1;
    }
}

/// Adds partial sums to their elements, [`BLOCK`] elements at a time: `transpose` is [`copy::transpose`] for the level.
///
/// # Safety
/// See [`Tiles::finish`].
#[inline(always)]
unsafe fn finish<O: Operation>(
    finish: &Finish<'_, O::Number>,
    transpose: impl Fn(*const O::Number, isize, *mut O::Number, usize),
) {
    let Finish { sums, output, columns } = *finish;
    let (blocks, rest) = columns.as_chunks::<BLOCK>();
    for (at, offsets) in blocks.iter().enumerate() {
        // The partial sums of all elements at the same position are a line.
        let mut lines = [[O::ZERO; BLOCK]; PARTIAL_SUMS];
        for first in (0..PARTIAL_SUMS).step_by(BLOCK) {
            let from = sums.wrapping_add(at * BLOCK * PARTIAL_SUMS + first);
            transpose(from, PARTIAL_SUMS as isize, lines[first..].as_mut_ptr().cast(), BLOCK);
        }
        let all = |lower: [O::Number; BLOCK], upper: [O::Number; BLOCK]| {
            core::array::from_fn::<O::Number, BLOCK, _>(|at| O::add(lower[at], upper[at]))
        };
        let totals = combine(lines, all);
        let first = output.wrapping_offset(offsets[0]);
        // SAFETY: promised by the caller; an array is aligned as its elements.
        unsafe {
            if offsets.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == 1) {
                let elements = first.cast::<[O::Number; BLOCK]>();
                elements.write(all(load(elements), totals));
            } else {
                for (offset, total) in offsets.iter().zip(totals) {
                    let element = output.offset(*offset);
                    element.write(O::add(load(element), total));
                }
            }
        }
    }
    for (at, offset) in (columns.len() - rest.len()..).zip(rest) {
        // SAFETY: as above.
        unsafe {
            let partial = load(sums.add(at * PARTIAL_SUMS).cast::<[O::Number; PARTIAL_SUMS]>());
            let element = output.offset(*offset);
            element.write(O::add(load(element), combine(partial, O::add)));
        }
    }
}

/// The functions of a level, which are compiled for its features.
macro_rules! level {
    ($level:ident, $vectors:literal, $transpose:path $(, $features:literal)?) => {
        mod $level {
            use super::{Finish, Operation, Tile, Vector};

            /// Safety: see [`super::Run`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn tile<V: Vector, const ROWS: usize, const COLUMNS: usize>(tile: &Tile<V::Number>) {
                // SAFETY: promised by the caller.
                unsafe { super::run::<V, ROWS, COLUMNS, $vectors>(tile) }
            }

            /// Safety: see [`super::Tiles::finish`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn finish<O: Operation>(finish: &Finish<'_, O::Number>) {
                // SAFETY: promised by the caller: the blocks that are transposed are there.
                unsafe { super::finish::<O>(finish, |from, stride, to, width| $transpose(from, stride, to, width)) }
            }
        }
    };
}
level!(of_4, 4, crate::contraction::copy::transpose);
#[cfg(all(feature = "std", target_arch = "x86_64"))]
level!(of_8, 2, super::super::x86_64::transpose, "avx2,fma");
#[cfg(all(feature = "std", target_arch = "x86_64"))]
level!(of_16, 1, super::super::x86_64::transpose, "avx512f,avx2,fma");

/// The table of an operation for a level: the numbers of rows, and the numbers of columns of each.
macro_rules! tiles {
    ($level:ident, $operation:ty, $number:ty, $vector:ty: $($rows:literal [$($columns:literal)*])*) => {{
        static TILES: Tiles<$number> = Tiles {
            sizes: &[$(($rows, &[$(($columns, $level::tile::<$vector, $rows, $columns>)),*])),*],
            finish: $level::finish::<$operation>,
        };
        &TILES
    }};
}

macro_rules! operations {
    ($($name:ident: $operation:ty, $number:ty, $wide:ty, $narrow:ty;)*) => { $(
        /// The tiles for a level of processors.
        pub(in super::super) fn $name(level: Level) -> &'static Tiles<$number> {
            match level {
                // Eight vectors hold partial sums, which hides the latency of additions.
                Level::Portable => tiles!(of_4, $operation, $number, Array<$operation>: 1 [2 1]),
                #[cfg(all(feature = "std", target_arch = "x86_64"))]
                Level::X86_64V3 => tiles!(of_8, $operation, $number, $narrow: 2 [2 1] 1 [4 1]),
                #[cfg(all(feature = "std", target_arch = "x86_64"))]
                Level::X86_64V4 => tiles!(of_16, $operation, $number, $wide: 4 [4 1] 1 [8 4 1]),
            }
        }
    )* };
}
operations! {
    fma_f32: FmaF32, f32, FmaF32x16, FmaF32x8;
    mul_add_f32: MulAddF32, f32, MulAddF32x16, MulAddF32x8;
    mul_add_i32: MulAddI32, i32, MulAddI32x16, MulAddI32x8;
}
