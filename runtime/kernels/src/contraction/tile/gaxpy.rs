//! Products of a vector and a matrix by rows: some rows of the matrix, each times its number, are added to all columns at once. BLAS
//! calls this `axpy` with one row; Golub and Van Loan call it gaxpy with several.
//!
//! A strip of columns in registers would read a bit of each row of the matrix, for which processors do not fetch ahead. So the matrix
//! is read as it is stored. Its sums are in the first cache meanwhile: each is loaded and stored once for eight products.

use super::{Product, Row, Shape, Tail, Tile, Valid};
use crate::contraction::Initial;
use crate::contraction::operand::load;
use crate::contraction::vector::Vector;

/// Runs tiles of one row, whose columns are any number of vectors: the last one has so many lanes as the tail says.
#[inline(always)]
pub(super) fn run_gaxpy<V: Vector>(level: V::Level, Valid(tile): Valid<'_, V::Number>) {
    let vectors = tile.shape.vectors();
    tile.shape.check(Shape::of(Shape::GAXPY, V::LANES).with(vectors));
    let tail = Tail::<V>::of(level, tile.tail);
    for row in tile.rows {
        let columns = Columns { tile, row: *row, vectors, tail };
        let (mut rest, mut is_zero) = (tile.products, tile.initial == Initial::Zeros);
        while let Some(one) = rest.first_chunk::<1>() {
            // SAFETY: these are products of the list, and a row of it.
            let done = unsafe {
                if let Some(eight) = rest.first_chunk::<8>() {
                    add(&columns, eight, is_zero)
                } else if let Some(four) = rest.first_chunk::<4>() {
                    add(&columns, four, is_zero)
                } else if let Some(two) = rest.first_chunk::<2>() {
                    add(&columns, two, is_zero)
                } else {
                    add(&columns, one, is_zero)
                }
            };
            (rest, is_zero) = (&rest[done..], false);
        }
    }
}

/// What products are added to: a row of tiles that are valid for gaxpy.
struct Columns<'a, V: Vector> {
    tile: &'a Tile<'a, V::Number>,
    row: Row,
    vectors: usize,
    tail: Tail<V>,
}

/// Adds some products to all columns, and returns their number.
///
/// # Safety
/// The row and the products are among those of the tile.
#[inline(always)]
unsafe fn add<V: Vector, const PRODUCTS: usize>(
    columns: &Columns<'_, V>,
    products: &[Product; PRODUCTS],
    is_zero: bool,
) -> usize {
    let Columns { tile, row, vectors, tail } = *columns;
    // SAFETY: the caller has row and products of the tile. `Tile::valid` was promised that rows and products have elements of the output and the operands,
    // in so many vectors, of the last one in the lanes of the tail.
    unsafe {
        let output = tile.output.offset(row.output);
        let (mut numbers, mut rights) = ([V::zero(tail.level); PRODUCTS], [tile.right; PRODUCTS]);
        let mut at = 0;
        while at < PRODUCTS {
            let Product { left, right } = products[at];
            numbers[at] = V::splat(tail.level, load(tile.left.offset(row.left).offset(left)));
            rights[at] = tile.right.offset(row.right).offset(right);
            at += 1;
        }
        let last = (vectors - 1) * V::LANES;
        let mut column = 0;
        while column < last {
            add_to_vector(output, (&numbers, &rights), column, is_zero, Tail { is_whole: true, ..tail });
            column += V::LANES;
        }
        add_to_vector(output, (&numbers, &rights), last, is_zero, tail);
    }
    PRODUCTS
}

/// Adds products to a vector of columns.
///
/// # Safety
/// The columns are valid in the output and at the addresses of the right operand, in the lanes of the tail.
#[inline(always)]
unsafe fn add_to_vector<V: Vector, const PRODUCTS: usize>(
    output: *mut V::Number,
    (numbers, rights): (&[V; PRODUCTS], &[*const V::Number; PRODUCTS]),
    column: usize,
    is_zero: bool,
    lanes: Tail<V>,
) {
    // SAFETY: the caller promises the lanes of this vector of columns.
    unsafe {
        let mut sum = if is_zero { V::zero(lanes.level) } else { lanes.load(output.add(column)) };
        let mut at = 0;
        while at < PRODUCTS {
            sum = sum.apply(numbers[at], lanes.load(rights[at].add(column)));
            at += 1;
        }
        lanes.store(sum, output.add(column));
    }
}
