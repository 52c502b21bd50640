//! Right operands whose numbers are adjacent along the products: some products of a vector of columns are loaded at once, and transposed in
//! registers.

use super::{Row, Tail, Tile, first_sums, store_rows};
use crate::contraction::vector::Vector;

/// As [`run`](super::run), where the right operand's numbers are adjacent along the products, and at a distance from each other along the columns.
///
/// # Safety
/// See [`Run`](super::Run).
#[inline(always)]
pub(super) unsafe fn run_transposed<V: Vector, const ROWS: usize, const VECTORS: usize>(tile: &Tile<V::Number>) {
    for at in 0..tile.tiles {
        // SAFETY: promised by the caller.
        unsafe { run_transposed_tile::<V, ROWS, VECTORS>(tile, &*tile.rows.add(at * ROWS).cast()) };
    }
}

/// # Safety
/// See [`Run`](super::Run).
#[inline(always)]
unsafe fn run_transposed_tile<V: Vector, const ROWS: usize, const VECTORS: usize>(
    tile: &Tile<V::Number>,
    rows: &[Row; ROWS],
) {
    let Tile { output, left, right, products, count, stride, .. } = *tile;
    // SAFETY: promised by the caller.
    unsafe {
        let tail = Tail::of::<V>(tile.tail);
        let mut sums = first_sums::<V, ROWS, VECTORS>(tile, rows, tail);
        let mut lefts = [left; ROWS];
        let mut row = 0;
        while row < ROWS {
            lefts[row] = left.offset(rows[row].left);
            row += 1;
        }
        let distance = V::LANES as isize * stride as isize;
        let mut at = 0;
        while at < count {
            let is_four = count - at >= 4;
            let right = right.offset((*products.add(at)).right);
            let mut vector = 0;
            while vector < VECTORS {
                let right = right.offset(vector as isize * distance);
                let is_whole = vector + 1 < VECTORS || tail.is_whole;
                if is_four && is_whole {
                    let columns = V::transpose(right, stride as isize);
                    let mut column = 0;
                    while column < 4 {
                        let product = (*products.add(at + column)).left;
                        add_product(&mut sums, vector, &lefts, product, columns[column]);
                        column += 1;
                    }
                } else {
                    let lanes = if vector + 1 < VECTORS { V::mask(V::LANES) } else { tail.mask };
                    let mut column = 0;
                    while column < 4 && column < count - at {
                        let product = (*products.add(at + column)).left;
                        let numbers = V::gather(right.add(column), stride, lanes);
                        add_product(&mut sums, vector, &lefts, product, numbers);
                        column += 1;
                    }
                }
                vector += 1;
            }
            at += 4;
        }
        store_rows::<V, ROWS, VECTORS>(output, rows, &sums, tail);
    }
}

/// Adds a product to one of the vectors of each row.
///
/// # Safety
/// See [`Vector::load`], for the left operand's number of each row.
#[inline(always)]
unsafe fn add_product<V: Vector, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    vector: usize,
    lefts: &[*const V::Number; ROWS],
    product: isize,
    numbers: V,
) {
    let mut row = 0;
    while row < ROWS {
        // SAFETY: promised by the caller.
        unsafe { sums[row][vector] = sums[row][vector].apply(V::splat(lefts[row].offset(product)), numbers) };
        row += 1;
    }
}
