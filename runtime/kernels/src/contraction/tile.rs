//! Tiles: blocks of the output in registers, to which all products of a sum are added.

pub(super) mod partial;
pub(super) mod portable;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
pub(super) mod x86_64;

use super::copy::Copies;
use super::plan::Machine;

/// The operands of a tile. Numbers of the right operand are loaded as vectors, those of the left one each for itself.
#[derive(Debug)]
pub(super) struct Tile<N> {
    /// The first column of the first row.
    pub(super) output: *mut N,
    /// The left operand's number of the first row and product.
    pub(super) left: *const N,
    /// The right operand's number of the first column and product.
    pub(super) right: *const N,
    /// For each row, how far its output and its operands are.
    pub(super) rows: *const Row,
    /// For each product, how far the operands are.
    pub(super) products: *const Product,
    /// The number of products.
    pub(super) count: usize,
    /// The number of columns in the last vector.
    pub(super) tail: usize,
    /// The distance of the right operand's numbers of adjacent columns, for tiles that gather them.
    pub(super) stride: i32,
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

/// Runs a tile.
///
/// Safety: the addresses of all rows, columns and products of the tile are valid, and the processor has the level's features.
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
    /// The same for rows with a right operand each, whose numbers are at a distance from each other.
    pub(super) gathered: Sizes<N>,
    pub(super) copies: Copies<N>,
}

/// Some numbers that are computed at once.
pub(super) trait Vector: Copy {
    type Number: Copy;
    /// Some of the first lanes.
    type Mask: Copy;
    const LANES: usize;

    /// Safety: so many numbers are valid at the address, and the processor has the features. So for the others.
    unsafe fn load(address: *const Self::Number) -> Self;
    /// Safety: see [`Vector::load`].
    unsafe fn store(self, address: *mut Self::Number);
    /// Returns the first `count` lanes. Safety: the processor has the features.
    unsafe fn mask(count: usize) -> Self::Mask;
    /// Loads these lanes, any numbers in the others. Safety: see [`Vector::load`], for these lanes.
    unsafe fn load_some(address: *const Self::Number, mask: Self::Mask) -> Self;
    /// Loads the first `lanes` lanes, at most all, and zeros in the others. Safety: see [`Vector::load`], for these lanes.
    unsafe fn load_padded(address: *const Self::Number, lanes: usize) -> Self;
    /// Loads these lanes from numbers at a distance from each other, any numbers in the others. Safety: see [`Vector::load`], for
    /// these lanes.
    unsafe fn gather(address: *const Self::Number, stride: i32, mask: Self::Mask) -> Self;
    /// Stores these lanes. Safety: see [`Vector::load`], for these lanes.
    unsafe fn store_some(self, address: *mut Self::Number, mask: Self::Mask);
    /// Safety: see [`Vector::load`], for one number.
    unsafe fn splat(address: *const Self::Number) -> Self;
    /// Returns the sums after a product. Safety: see [`Vector::load`].
    unsafe fn apply(self, left: Self, right: Self) -> Self;
}

/// Runs a tile of so many rows and vectors; with `SEPARATE`, rows have a right operand each, and with `GATHERED` its numbers are at a
/// distance from each other.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
pub(super) unsafe fn run<
    V: Vector,
    const ROWS: usize,
    const VECTORS: usize,
    const SEPARATE: bool,
    const GATHERED: bool,
>(
    tile: &Tile<V::Number>,
) {
    let Tile { output, left, right, rows, products, count, tail, stride } = *tile;
    // SAFETY: promised by the caller.
    unsafe {
        let mask = V::mask(tail);
        let load = |address: *const V::Number| -> [V; VECTORS] {
            core::array::from_fn(|vector| match vector + 1 == VECTORS {
                true => V::load_some(address.add(vector * V::LANES), mask),
                false => V::load(address.add(vector * V::LANES)),
            })
        };
        let rows: [Row; ROWS] = core::array::from_fn(|row| *rows.add(row));
        let mut sums: [[V; VECTORS]; ROWS] = core::array::from_fn(|row| load(output.offset(rows[row].output)));
        let lefts: [*const V::Number; ROWS] = core::array::from_fn(|row| left.offset(rows[row].left));
        let rights: [*const V::Number; ROWS] = core::array::from_fn(|row| right.offset(rows[row].right));
        for at in 0..count {
            let product = *products.add(at);
            let shared = if SEPARATE { None } else { Some(load(right.offset(product.right))) };
            let mut row = 0;
            while row < ROWS {
                let vectors = match shared {
                    Some(vectors) => vectors,
                    None if GATHERED => {
                        let right = rights[row].offset(product.right);
                        core::array::from_fn(|vector| {
                            let all = if vector + 1 == VECTORS { mask } else { V::mask(V::LANES) };
                            V::gather(right.offset(vector as isize * V::LANES as isize * stride as isize), stride, all)
                        })
                    }
                    None => load(rights[row].offset(product.right)),
                };
                let number = V::splat(lefts[row].offset(product.left));
                let mut vector = 0;
                while vector < VECTORS {
                    sums[row][vector] = sums[row][vector].apply(number, vectors[vector]);
                    vector += 1;
                }
                row += 1;
            }
        }
        for (row, sums) in rows.iter().zip(sums) {
            for (vector, sum) in sums.into_iter().enumerate() {
                let address = output.offset(row.output).add(vector * V::LANES);
                if vector + 1 == VECTORS { sum.store_some(address, mask) } else { sum.store(address) }
            }
        }
    }
}

/// Makes the table of a level's tiles: for each number of vectors, the numbers of rows.
macro_rules! tiles {
    ($name:ident: $vector:ty as $number:ty, $machine:expr, $function:ident, $copies:expr,
        [$($vectors:literal: $($rows:literal)*;)*], separate [$($separate:literal: $($single:literal)*;)*],
        gathered [$($gathered:literal: $($far:literal)*;)*]) => {
        pub(in super::super) static $name: Tiles<$number> = Tiles {
            machine: $machine,
            by_width: &[$(&[$(($rows, $function::<$vector, $rows, $vectors, false, false>)),*]),*],
            separate: &[$(&[$(($single, $function::<$vector, $single, $separate, true, false>)),*]),*],
            gathered: &[$(&[$(($far, $function::<$vector, $far, $gathered, true, true>)),*]),*],
            copies: $copies,
        };
    };
}
pub(super) use tiles;
