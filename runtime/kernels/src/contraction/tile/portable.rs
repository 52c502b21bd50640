//! Tiles for all processors, of arrays that LLVM makes vectors of.

use super::Tiles;
use super::table::{level, tiles};
use crate::contraction::arithmetic::{Arithmetic, FmaF32, MulAddF32, MulAddI32};
use crate::contraction::copy::Copies;
use crate::contraction::machine::{Machine, micro_tiles};
use crate::contraction::operand::load;
use crate::contraction::vector::{Vector, memory};
use crate::proof::Portable;

const LANES: usize = Machine::PORTABLE.lanes;

/// Numbers that an operation computes one by one.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(in super::super) struct Array<O: Arithmetic>([O::Number; LANES]);

impl<O: Arithmetic + Copy> Vector for Array<O> {
    type Number = O::Number;
    type Mask = usize;
    type Level = Portable;
    const LANES: usize = LANES;

    #[inline(always)]
    fn zero(_: Portable) -> Array<O> {
        Array([O::ZERO; LANES])
    }

    #[inline(always)]
    fn splat(_: Portable, number: O::Number) -> Array<O> {
        Array([number; LANES])
    }

    #[inline(always)]
    fn apply(self, left: Array<O>, right: Array<O>) -> Array<O> {
        let mut sums = self.0;
        let mut lane = 0;
        while lane < LANES {
            sums[lane] = O::apply(sums[lane], left.0[lane], right.0[lane]);
            lane += 1;
        }
        Array(sums)
    }

    #[inline(always)]
    fn add(self, other: Array<O>) -> Array<O> {
        let mut sums = self.0;
        let mut lane = 0;
        while lane < LANES {
            sums[lane] = O::add(sums[lane], other.0[lane]);
            lane += 1;
        }
        Array(sums)
    }

    #[inline(always)]
    fn mask(_: Portable, count: usize) -> usize {
        count
    }

    // Arrays are aligned as their elements.
    memory! {
        unsafe fn load(_: Portable, address: *const O::Number) -> Array<O> {
            Array(load(address.cast::<[O::Number; LANES]>()))
        }
        unsafe fn store(self, address: *mut O::Number) {
            address.cast::<[O::Number; LANES]>().write(self.0);
        }
        unsafe fn load_some(level: Portable, address: *const O::Number, mask: usize) -> Array<O> {
            if mask == LANES {
                return Array::load(level, address);
            }
            let mut numbers = [O::ZERO; LANES];
            let mut lane = 0;
            while lane < mask {
                numbers[lane] = load(address.add(lane));
                lane += 1;
            }
            Array(numbers)
        }
        unsafe fn store_some(self, address: *mut O::Number, mask: usize) {
            let mut lane = 0;
            while lane < mask {
                address.add(lane).write(self.0[lane]);
                lane += 1;
            }
        }
        unsafe fn gather(_: Portable, address: *const O::Number, stride: i32, mask: usize) -> Array<O> {
            let mut numbers = [O::ZERO; LANES];
            let mut lane = 0;
            while lane < mask {
                numbers[lane] = load(address.offset(lane as isize * stride as isize));
                lane += 1;
            }
            Array(numbers)
        }
        unsafe fn load_even(level: Portable, address: *const O::Number) -> Array<O> {
            Array::gather(level, address, 2, LANES)
        }
        unsafe fn transpose(_: Portable, address: *const O::Number, stride: isize) -> [Array<O>; 4] {
            let mut columns = [Array([O::ZERO; LANES]); 4];
            let mut lane = 0;
            while lane < LANES {
                let numbers = load(address.offset(lane as isize * stride).cast::<[O::Number; 4]>());
                let mut column = 0;
                while column < 4 {
                    columns[column].0[lane] = numbers[column];
                    column += 1;
                }
                lane += 1;
            }
            columns
        }
        unsafe fn transpose_back(_: Portable, vectors: [Array<O>; 4], address: *mut O::Number, stride: isize) {
            let mut lane = 0;
            while lane < LANES {
                let [first, second, third, fourth] = vectors;
                let numbers = [first.0[lane], second.0[lane], third.0[lane], fourth.0[lane]];
                address.offset(lane as isize * stride).cast::<[O::Number; 4]>().write(numbers);
                lane += 1;
            }
        }
    }
}

level!(arrays, Portable, super::Array<super::FmaF32>, 4);

/// The table of an operation.
macro_rules! operations {
    ($($name:ident: $operation:ty, $number:ty;)*) => { $(
        micro_tiles!(PORTABLE, tiles! {
            $name: Array<$operation> as $number, Machine::PORTABLE, arrays Portable
        });
    )* };
}
operations! {
    fma_f32: FmaF32, f32;
    mul_add_f32: MulAddF32, f32;
    mul_add_i32: MulAddI32, i32;
}
