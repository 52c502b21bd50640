//! Right operands whose numbers are adjacent along the products: some products of a vector of columns are loaded at once, and transposed in
//! registers.

use super::{MicroTile, Shape, Strip, Tile, Valid};
use crate::contraction::operand::load;
use crate::contraction::vector::Vector;

/// As [`run`](super::run), where the right operand's numbers are adjacent along the products, and at a distance from each other along the columns.
#[inline(always)]
pub(super) fn run_transposed<V: Vector, const ROWS: usize, const VECTORS: usize>(
    level: V::Level,
    tile: Valid<'_, V::Number>,
) {
    let mut strip = Strip::<V, { Shape::TRANSPOSED }, VECTORS>::of(level, tile);
    while let Some(tile) = strip.next::<ROWS>() {
        run_transposed_tile(&tile);
    }
}

#[inline(always)]
fn run_transposed_tile<V: Vector, const ROWS: usize, const VECTORS: usize>(
    tile: &MicroTile<'_, V, ROWS, { Shape::TRANSPOSED }, VECTORS>,
) {
    let (Tile { right, products, stride, .. }, tail) = (*tile.tile, tile.tail);
    let mut sums = tile.first_sums();
    let (lefts, _) = tile.addresses();
    let distance = V::LANES as isize * stride as isize;
    let count = products.len();
    let mut at = 0;
    while at < count {
        let is_four = count - at >= 4;
        // SAFETY: `at` and the columns after it are less than `count`. `Tile::valid` was promised that the right operand's numbers of the
        // products are adjacent and those of columns `stride` apart, for all vectors, of the last one for the lanes of the tail; and
        // that the left operand has a number of each product for each row.
        unsafe {
            let right = right.offset(products.get_unchecked(at).right);
            let mut vector = 0;
            while vector < VECTORS {
                let right = right.offset(vector as isize * distance);
                let is_whole = vector + 1 < VECTORS || tail.is_whole;
                if is_four && is_whole {
                    let columns = V::transpose(tail.level, right, stride as isize);
                    let mut column = 0;
                    while column < 4 {
                        let product = products.get_unchecked(at + column).left;
                        add_product(&mut sums, vector, &lefts, product, columns[column], tail.level);
                        column += 1;
                    }
                } else {
                    let lanes = if vector + 1 < VECTORS { V::mask(tail.level, V::LANES) } else { tail.mask };
                    let mut column = 0;
                    while column < 4 && column < count - at {
                        let product = products.get_unchecked(at + column).left;
                        let numbers = V::gather(tail.level, right.add(column), stride, lanes);
                        add_product(&mut sums, vector, &lefts, product, numbers, tail.level);
                        column += 1;
                    }
                }
                vector += 1;
            }
        }
        at += 4;
    }
    tile.store(&sums);
}

/// Adds a product to one of the vectors of each row.
///
/// # Safety
/// The product has a number of the left operand for each row, at its offset from the addresses.
#[inline(always)]
unsafe fn add_product<V: Vector, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    vector: usize,
    lefts: &[*const V::Number; ROWS],
    product: isize,
    numbers: V,
    level: V::Level,
) {
    let mut row = 0;
    while row < ROWS {
        // SAFETY: the caller promises a number at the product's offset for each row.
        let number = unsafe { load(lefts[row].offset(product)) };
        sums[row][vector] = sums[row][vector].apply(V::splat(level, number), numbers);
        row += 1;
    }
}
