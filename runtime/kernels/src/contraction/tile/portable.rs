//! Tiles for all processors, of arrays that LLVM makes vectors of.

use super::{Machine, Tile, Tiles, Vector, run, tiles};
use crate::contraction::copy::{self, Copies, Lines};
use crate::contraction::{FmaF32, MulAddF32, MulAddI32, Operation, load};

const LANES: usize = Machine::PORTABLE.lanes;

/// Numbers that an operation computes one by one.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Array<O: Operation>([O::Number; LANES]);

impl<O: Operation + Copy> Vector for Array<O> {
    type Number = O::Number;
    type Mask = usize;
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn load(address: *const O::Number) -> Array<O> {
        // SAFETY: promised by the caller; an array is aligned as its elements.
        Array(unsafe { load(address.cast::<[O::Number; LANES]>()) })
    }

    #[inline(always)]
    unsafe fn store(self, address: *mut O::Number) {
        // SAFETY: as above.
        unsafe { address.cast::<[O::Number; LANES]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn mask(count: usize) -> usize {
        count
    }

    #[inline(always)]
    unsafe fn load_some(address: *const O::Number, mask: usize) -> Array<O> {
        if mask == LANES {
            // SAFETY: promised by the caller.
            return unsafe { Array::load(address) };
        }
        // SAFETY: promised by the caller: there is at least one lane, whose number the others have.
        Array(core::array::from_fn(|lane| unsafe { load(address.add(if lane < mask { lane } else { 0 })) }))
    }

    #[inline(always)]
    unsafe fn load_padded(address: *const O::Number, lanes: usize) -> Array<O> {
        // SAFETY: promised by the caller.
        Array(core::array::from_fn(|lane| if lane < lanes { unsafe { load(address.add(lane)) } } else { O::ZERO }))
    }

    #[inline(always)]
    unsafe fn gather(address: *const O::Number, stride: i32, mask: usize) -> Array<O> {
        // SAFETY: promised by the caller; the first number is there, too.
        Array(core::array::from_fn(|lane| unsafe {
            address.offset(stride as isize * if lane < mask { lane as isize } else { 0 }).read()
        }))
    }

    #[inline(always)]
    unsafe fn store_some(self, address: *mut O::Number, mask: usize) {
        for (lane, number) in self.0.into_iter().enumerate().take(mask) {
            // SAFETY: promised by the caller.
            unsafe { address.add(lane).write(number) };
        }
    }

    #[inline(always)]
    unsafe fn splat(address: *const O::Number) -> Array<O> {
        // SAFETY: promised by the caller.
        Array([unsafe { load(address) }; LANES])
    }

    #[inline(always)]
    unsafe fn apply(self, left: Array<O>, right: Array<O>) -> Array<O> {
        let mut sums = self.0;
        let mut lane = 0;
        while lane < LANES {
            sums[lane] = O::apply(sums[lane], left.0[lane], right.0[lane]);
            lane += 1;
        }
        Array(sums)
    }
}

/// Safety: see [`super::Run`].
unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize, const SEPARATE: bool, const GATHERED: bool>(
    tile: &Tile<V::Number>,
) {
    // SAFETY: promised by the caller.
    unsafe { run::<V, ROWS, VECTORS, SEPARATE, GATHERED>(tile) }
}

/// Safety: see [`Copies`].
unsafe fn gather<N: Copy>(lines: &Lines<'_, N>) {
    // SAFETY: promised by the caller.
    unsafe { copy::gather::<N, 4>(lines, |from, stride, to, width| copy::transpose::<N>(from, stride, to, width)) }
}

/// Safety: see [`Copies`].
unsafe fn scatter<N: Copy>(lines: &Lines<'_, N>) {
    // SAFETY: promised by the caller.
    unsafe { copy::scatter::<N, 4>(lines) }
}

/// The table of an operation.
macro_rules! operations {
    ($($name:ident: $operation:ty, $number:ty;)*) => { $(
        tiles!($name: Array<$operation> as $number, Machine::PORTABLE, tile, Copies { gather, scatter },
            [1: 8 4 2 1; 2: 4 2 1;], separate [1: 4 2 1;], gathered [1: 4 2 1;]);
    )* };
}
operations! {
    FMA_F32: FmaF32, f32;
    MUL_ADD_F32: MulAddF32, f32;
    MUL_ADD_I32: MulAddI32, i32;
}
