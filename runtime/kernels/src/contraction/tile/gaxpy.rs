//! Products of a vector and a matrix by rows: some rows of the matrix, each times its number, are added to all columns at once. BLAS
//! calls this `axpy` with one row; Golub and Van Loan call it gaxpy with several.
//!
//! A strip of columns in registers would read a bit of each row of the matrix, for which processors do not fetch ahead. So the matrix
//! is read as it is stored. Its sums are in the first cache meanwhile: each is loaded and stored once for eight products.

use super::{Product, Row, Tail, Tile};
use crate::contraction::Initial;
use crate::contraction::vector::Vector;

/// Runs tiles of one row, whose columns are any number of vectors: the last one has so many lanes as the tail says.
///
/// # Safety
/// See [`Run`](super::Run).
#[inline(always)]
pub(super) unsafe fn run_gaxpy<V: Vector>(tile: &Tile<V::Number>) {
    for at in 0..tile.tiles {
        // SAFETY: promised by the caller, here and below.
        unsafe {
            let columns = Columns { tile, row: *tile.rows.add(at), tail: Tail::of::<V>(tile.tail) };
            let mut done = 0;
            while done < tile.count {
                done += match tile.count - done {
                    8.. => add::<V, 8>(&columns, done),
                    4.. => add::<V, 4>(&columns, done),
                    2.. => add::<V, 2>(&columns, done),
                    _ => add::<V, 1>(&columns, done),
                };
            }
        }
    }
}

/// What products are added to.
struct Columns<'a, N, M> {
    tile: &'a Tile<N>,
    row: Row,
    tail: Tail<M>,
}

/// Adds some products to all columns, from one on, and returns their number.
///
/// # Safety
/// See [`Run`](super::Run), for these products.
#[inline(always)]
unsafe fn add<V: Vector, const PRODUCTS: usize>(columns: &Columns<'_, V::Number, V::Mask>, first: usize) -> usize {
    let Columns { tile, row, tail } = *columns;
    let is_zero = first == 0 && tile.initial == Initial::Zeros;
    // SAFETY: promised by the caller, here and below.
    unsafe {
        let output = tile.output.offset(row.output);
        let (mut numbers, mut rights) = ([V::zero(); PRODUCTS], [tile.right; PRODUCTS]);
        let mut at = 0;
        while at < PRODUCTS {
            let Product { left, right } = *tile.products.add(first + at);
            numbers[at] = V::splat(tile.left.offset(row.left).offset(left));
            rights[at] = tile.right.offset(row.right).offset(right);
            at += 1;
        }
        let last = (tile.vectors - 1) * V::LANES;
        let mut column = 0;
        while column < last {
            add_to_vector::<V, PRODUCTS>(output, (&numbers, &rights), column, is_zero, Tail { is_whole: true, ..tail });
            column += V::LANES;
        }
        add_to_vector::<V, PRODUCTS>(output, (&numbers, &rights), last, is_zero, tail);
    }
    PRODUCTS
}

/// Adds products to a vector of columns.
///
/// # Safety
/// See [`Run`](super::Run), for these columns and products.
#[inline(always)]
unsafe fn add_to_vector<V: Vector, const PRODUCTS: usize>(
    output: *mut V::Number,
    (numbers, rights): (&[V; PRODUCTS], &[*const V::Number; PRODUCTS]),
    column: usize,
    is_zero: bool,
    lanes: Tail<V::Mask>,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut sum = if is_zero { V::zero() } else { lanes.load::<V>(output.add(column)) };
        let mut at = 0;
        while at < PRODUCTS {
            sum = sum.apply(numbers[at], lanes.load::<V>(rights[at].add(column)));
            at += 1;
        }
        lanes.store(sum, output.add(column));
    }
}
