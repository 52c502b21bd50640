//! Tiles: blocks of the output in registers, to which all products of a sum are added.

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
    /// For each row, how far its output and its left operand are.
    pub(super) rows: *const Row,
    /// For each product, how far the operands are.
    pub(super) products: *const Product,
    /// The number of products.
    pub(super) count: usize,
}

/// A row of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) output: isize,
    pub(super) left: isize,
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

/// The tiles of an operation for a level of processors.
pub(super) struct Tiles<N: 'static> {
    pub(super) machine: Machine,
    /// By the number of vectors less one: the numbers of rows, descending to 1, and the code.
    pub(super) by_width: &'static [&'static [(usize, Run<N>)]],
    pub(super) copies: Copies<N>,
}

/// Some numbers that are computed at once.
pub(super) trait Vector: Copy {
    type Number: Copy;
    const LANES: usize;

    /// Safety: so many numbers are valid at the address, and the processor has the features. So for the others.
    unsafe fn load(address: *const Self::Number) -> Self;
    /// Safety: see [`Vector::load`].
    unsafe fn store(self, address: *mut Self::Number);
    /// Safety: see [`Vector::load`], for one number.
    unsafe fn splat(address: *const Self::Number) -> Self;
    /// Returns the sums after a product. Safety: see [`Vector::load`].
    unsafe fn apply(self, left: Self, right: Self) -> Self;
}

/// Runs a tile of so many rows and vectors.
///
/// # Safety
/// See [`Run`].
#[inline(always)]
pub(super) unsafe fn run<V: Vector, const ROWS: usize, const VECTORS: usize>(tile: &Tile<V::Number>) {
    let Tile { output, left, right, rows, products, count } = *tile;
    // SAFETY: promised by the caller.
    unsafe {
        let rows: [Row; ROWS] = core::array::from_fn(|row| *rows.add(row));
        let mut sums: [[V; VECTORS]; ROWS] = core::array::from_fn(|row| {
            core::array::from_fn(|vector| V::load(output.offset(rows[row].output).add(vector * V::LANES)))
        });
        let lefts: [*const V::Number; ROWS] = core::array::from_fn(|row| left.offset(rows[row].left));
        for at in 0..count {
            let product = *products.add(at);
            let right = right.offset(product.right);
            let rights: [V; VECTORS] = core::array::from_fn(|vector| V::load(right.add(vector * V::LANES)));
            let mut row = 0;
            while row < ROWS {
                let number = V::splat(lefts[row].offset(product.left));
                let mut vector = 0;
                while vector < VECTORS {
                    sums[row][vector] = sums[row][vector].apply(number, rights[vector]);
                    vector += 1;
                }
                row += 1;
            }
        }
        for (row, sums) in rows.iter().zip(sums) {
            for (vector, sum) in sums.into_iter().enumerate() {
                sum.store(output.offset(row.output).add(vector * V::LANES));
            }
        }
    }
}

/// Makes the table of a level's tiles: for each number of vectors, the numbers of rows.
macro_rules! tiles {
    ($name:ident: $vector:ty as $number:ty, $machine:expr, $function:ident $gather:ident $scatter:ident
        [$($vectors:literal: $($rows:literal)*;)*]) => {
        pub(in super::super) static $name: Tiles<$number> = Tiles {
            machine: $machine,
            by_width: &[$(&[$(($rows, $function::<$vector, $rows, $vectors>)),*]),*],
            copies: Copies { gather: $gather, scatter: $scatter },
        };
    };
}
pub(super) use tiles;
