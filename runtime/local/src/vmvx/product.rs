//! Matrix products of tiled operands (`mmt4d`).
//!
//! The left operand is M x K tiles of M0 x K0 elements; the right one, transposed, N x K tiles of N0 x K0; the result M
//! x N tiles of M0 x N0. All dimensions but the outermost are dense. Products are summed in the order of K, then K0.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::VmvxState;
use super::region::{Region, TimeCheck};
use crate::vm::{Buffer, Caller, Charge, Scalar, Stack, array, semantics};
use crate::{Error, Result};

/// The bits of the flags that encode the element types.
const TYPE_MASK: u32 = 0xFF;
const TYPE_F32F32F32: u32 = 0x01;
const TYPE_S8S8S32: u32 = 0x02;
/// Flag: adds the products to the result's previous contents.
const ACCUMULATE: u32 = 0x100;

/// Elements of an operand that are copied at a time, unless a tile is larger.
const PANEL: usize = 1 << 12;

/// Numbers of tiles and tile sizes: rows of the left operand, rows of the right one, the reduction.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    tiles: [u64; 3],
    tile: [usize; 3],
}

/// A buffer, the index of its first element, and its stride of rows of tiles, in elements.
type Operand<'a> = (&'a Buffer, u64, u64);

#[allow(clippy::too_many_arguments, missing_docs, reason = "the import, as programs declare it")]
impl VmvxState {
    pub fn mmt4d(
        &self,
        caller: &mut Caller<'_>,
        left: &Buffer,
        left_offset: u64,
        left_stride: u64,
        right: Arc<Buffer>,
        right_offset: u64,
        right_stride: u64,
        target: Arc<Buffer>,
        target_offset: u64,
        target_stride: u64,
        m: u64,
        n: u64,
        k: u64,
        m0: u32,
        n0: u32,
        k0: u32,
        flags: u32,
    ) -> Result<()> {
        caller.stack.check_deadline()?;
        let sizes = Sizes { tiles: [m, n, k], tile: [m0 as usize, n0 as usize, k0 as usize] };
        let left = (left, left_offset, left_stride);
        let right = (&*right, right_offset, right_stride);
        let target = (&*target, target_offset, target_stride);
        let accumulate = flags & ACCUMULATE != 0;
        match flags & TYPE_MASK {
            TYPE_F32F32F32 => {
                let step = |left, right, sum| semantics::add_f32(sum, semantics::mul_f32(left, right));
                product::<f32, f32>(caller.stack, sizes, left, right, target, accumulate, step)
            }
            TYPE_S8S8S32 => {
                let step = |left: i8, right: i8, sum: i32| sum.wrapping_add(i32::from(left) * i32::from(right));
                product::<i8, i32>(caller.stack, sizes, left, right, target, accumulate, step)
            }
            other => Err(Error::invalid_argument(format!("mmt4d of element types {other:#x}"))),
        }
    }
}

/// Scratch memory of one call.
pub(super) struct Scratch<T> {
    elements: Vec<T>,
    _charge: Charge,
}

impl<T> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

/// Allocates scratch memory, which is charged to the program's ledger.
pub(super) fn scratch<T: Copy + Default>(stack: &Stack, length: usize) -> Result<Scratch<T>> {
    let charge = stack.limits().ledger.charge((length as u64).saturating_mul(size_of::<T>() as u64))?;
    Ok(Scratch { elements: array::filled(length, T::default())?, _charge: charge })
}

/// Multiplies sizes, checked for overflow.
pub(super) fn area(factors: &[u64]) -> Result<u64> {
    factors
        .iter()
        .try_fold(1u64, |area, factor| area.checked_mul(*factor))
        .ok_or_else(|| Error::invalid_argument(format!("tiles of {factors:?} elements exceed 64 bits")))
}

#[inline(always)]
fn product<A: Scalar + Default, C: Scalar + Default>(
    stack: &Stack,
    sizes: Sizes,
    (left, left_offset, left_stride): Operand<'_>,
    (right, right_offset, right_stride): Operand<'_>,
    (target, target_offset, target_stride): Operand<'_>,
    accumulate: bool,
    step: impl Fn(A, A, C) -> C + Copy,
) -> Result<()> {
    let ([m, n, k], [m0, n0, k0]) = (sizes.tiles, sizes.tile);
    let tile = |rows: usize, columns: usize| area(&[rows as u64, columns as u64]);
    let (left_tile, right_tile, target_tile) = (tile(m0, k0)?, tile(n0, k0)?, tile(m0, n0)?);
    let left = Region::new::<A>(left, left_offset, [left_stride, 1], [m, area(&[k, left_tile])?])?;
    let right = Region::new::<A>(right, right_offset, [right_stride, 1], [n, area(&[k, right_tile])?])?;
    let target = Region::new::<C>(target, target_offset, [target_stride, 1], [m, area(&[n, target_tile])?])?;
    if m == 0 || n == 0 || target_tile == 0 {
        return Ok(());
    }
    // The sizes describe regions inside buffers, unless `k` is zero and nothing is read.
    let (left_tile, right_tile) = if k == 0 { (0, 0) } else { (left_tile as usize, right_tile as usize) };
    let steps = (PANEL / left_tile.max(right_tile).max(1)).max(1).min(usize::try_from(k).unwrap_or(usize::MAX));
    let (mut lefts, mut rights) = (scratch::<A>(stack, steps * left_tile)?, scratch::<A>(stack, steps * right_tile)?);
    let mut sums = scratch::<C>(stack, target_tile as usize)?;
    let mut time = TimeCheck::new(stack);
    for row in 0..m {
        let mut loaded = false;
        for column in 0..n {
            let place = column * target_tile;
            time.after(sums.len())?;
            if accumulate {
                target.load(row, place, &mut sums)?;
            } else {
                sums.fill(C::default());
            }
            let mut done = 0;
            while done < k {
                let count = (k - done).min(steps as u64) as usize;
                time.after(count * right_tile * m0)?;
                // A panel that was copied completely serves all columns.
                if !loaded {
                    left.load(row, done * left_tile as u64, &mut lefts[..count * left_tile])?;
                    loaded = count as u64 == k;
                }
                right.load(column, done * right_tile as u64, &mut rights[..count * right_tile])?;
                let panels = (&lefts[..count * left_tile], &rights[..count * right_tile]);
                match (n0, k0) {
                    (4, 1) => multiply::<A, C, 4, 1>(m0, panels, &mut sums, step),
                    (8, 1) => multiply::<A, C, 8, 1>(m0, panels, &mut sums, step),
                    (16, 1) => multiply::<A, C, 16, 1>(m0, panels, &mut sums, step),
                    (4, 2) => multiply::<A, C, 4, 2>(m0, panels, &mut sums, step),
                    (8, 2) => multiply::<A, C, 8, 2>(m0, panels, &mut sums, step),
                    (16, 2) => multiply::<A, C, 16, 2>(m0, panels, &mut sums, step),
                    (8, 4) => multiply::<A, C, 8, 4>(m0, panels, &mut sums, step),
                    _ => multiply_any([m0, n0, k0], panels, &mut sums, step),
                }
                done += count as u64;
            }
            target.store(row, place, &sums)?;
        }
    }
    Ok(())
}

/// Accumulates the products of two panels into a tile of `N0` columns; a row's sums stay in registers.
#[inline(always)]
fn multiply<A: Copy, C: Copy, const N0: usize, const K0: usize>(
    m0: usize,
    (left, right): (&[A], &[A]),
    sums: &mut [C],
    step: impl Fn(A, A, C) -> C,
) {
    let (rights, _) = right.as_chunks::<K0>();
    for (row, sums) in sums.as_chunks_mut::<N0>().0.iter_mut().enumerate() {
        let mut row_sums = *sums;
        for (left, right) in left.chunks_exact(m0 * K0).zip(rights.chunks_exact(N0)) {
            let Some(lefts) = left.as_chunks::<K0>().0.get(row) else { continue };
            for (index, left) in lefts.iter().enumerate() {
                for (sum, right) in row_sums.iter_mut().zip(right) {
                    *sum = step(*left, right[index], *sum);
                }
            }
        }
        *sums = row_sums;
    }
}

/// Accumulates the products of two panels into a tile of any size.
fn multiply_any<A: Copy, C: Copy>(
    [m0, n0, k0]: [usize; 3],
    (left, right): (&[A], &[A]),
    sums: &mut [C],
    step: impl Fn(A, A, C) -> C,
) {
    if k0 == 0 {
        return;
    }
    for (left, right) in left.chunks_exact(m0 * k0).zip(right.chunks_exact(n0 * k0)) {
        for (lefts, sums) in left.chunks_exact(k0).zip(sums.chunks_exact_mut(n0)) {
            for (rights, sum) in right.chunks_exact(k0).zip(sums) {
                for (left, right) in lefts.iter().zip(rights) {
                    *sum = step(*left, *right, *sum);
                }
            }
        }
    }
}
