//! Tiles for all processors, of arrays that LLVM makes vectors of.

use super::table::{level, tiles};
use super::{Tile, Tiles};
use crate::contraction::arithmetic::{Arithmetic, FmaF32, MulAddF32, MulAddI32};
use crate::contraction::copy::Copies;
use crate::contraction::machine::{Machine, micro_tiles};
use crate::contraction::operand::load;
use crate::contraction::vector::Vector;

const LANES: usize = Machine::PORTABLE.lanes;

/// Numbers that an operation computes one by one.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(in super::super) struct Array<O: Arithmetic>([O::Number; LANES]);

impl<O: Arithmetic + Copy> Vector for Array<O> {
    type Number = O::Number;
    type Mask = usize;
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn zero() -> Array<O> {
        Array([O::ZERO; LANES])
    }

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
        let mut numbers = [O::ZERO; LANES];
        let mut lane = 0;
        while lane < mask {
            // SAFETY: promised by the caller.
            numbers[lane] = unsafe { load(address.add(lane)) };
            lane += 1;
        }
        Array(numbers)
    }

    #[inline(always)]
    unsafe fn gather(address: *const O::Number, stride: i32, mask: usize) -> Array<O> {
        let mut numbers = [O::ZERO; LANES];
        let mut lane = 0;
        while lane < mask {
            // SAFETY: promised by the caller.
            numbers[lane] = unsafe { load(address.offset(lane as isize * stride as isize)) };
            lane += 1;
        }
        Array(numbers)
    }

    #[inline(always)]
    unsafe fn load_even(address: *const O::Number) -> Array<O> {
        // SAFETY: promised by the caller.
        unsafe { Array::gather(address, 2, LANES) }
    }

    #[inline(always)]
    unsafe fn transpose(address: *const O::Number, stride: isize) -> [Array<O>; 4] {
        let mut columns = [Array([O::ZERO; LANES]); 4];
        let mut lane = 0;
        while lane < LANES {
            // SAFETY: promised by the caller.
            let numbers = unsafe { load(address.offset(lane as isize * stride).cast::<[O::Number; 4]>()) };
            let mut column = 0;
            while column < 4 {
                columns[column].0[lane] = numbers[column];
                column += 1;
            }
            lane += 1;
        }
        columns
    }

    #[inline(always)]
    unsafe fn transpose_back(vectors: [Array<O>; 4], address: *mut O::Number, stride: isize) {
        let mut lane = 0;
        while lane < LANES {
            let [first, second, third, fourth] = vectors;
            let numbers = [first.0[lane], second.0[lane], third.0[lane], fourth.0[lane]];
            // SAFETY: promised by the caller.
            unsafe { address.offset(lane as isize * stride).cast::<[O::Number; 4]>().write(numbers) };
            lane += 1;
        }
    }

    #[inline(always)]
    unsafe fn store_some(self, address: *mut O::Number, mask: usize) {
        let mut lane = 0;
        while lane < mask {
            // SAFETY: promised by the caller.
            unsafe { address.add(lane).write(self.0[lane]) };
            lane += 1;
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

    #[inline(always)]
    unsafe fn add(self, other: Array<O>) -> Array<O> {
        let mut sums = self.0;
        let mut lane = 0;
        while lane < LANES {
            sums[lane] = O::add(sums[lane], other.0[lane]);
            lane += 1;
        }
        Array(sums)
    }
}

level!(arrays, super::Array<super::FmaF32>, 4);

/// The table of an operation.
macro_rules! operations {
    ($($name:ident: $operation:ty, $number:ty;)*) => { $(
        micro_tiles!(PORTABLE, tiles! {
            $name: Array<$operation> as $number, Machine::PORTABLE, arrays
        });
    )* };
}
operations! {
    FMA_F32: FmaF32, f32;
    MUL_ADD_F32: MulAddF32, f32;
    MUL_ADD_I32: MulAddI32, i32;
}
