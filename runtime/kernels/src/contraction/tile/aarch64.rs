//! Tiles for NEON, which every aarch64 processor has unless a program is compiled without it.

use core::arch::aarch64::{
    float32x4_t, int32x4_t, vaddq_f32, vaddq_s32, vcombine_f32, vdup_n_f32, vdupq_n_f32, vdupq_n_s32, vfmaq_f32,
    vget_low_f32, vgetq_lane_f32, vld1_f32, vld1q_f32, vmlaq_s32, vmulq_f32, vreinterpretq_f32_f64,
    vreinterpretq_f32_s32, vreinterpretq_f64_f32, vreinterpretq_s32_f32, vset_lane_f32, vst1_f32, vst1q_f32,
    vtrn1q_f32, vtrn1q_f64, vtrn2q_f32, vtrn2q_f64, vuzp1q_f32, vuzp2q_f32,
};
use core::arch::asm;

use super::Tiles;
use super::table::{level, tiles};
use crate::contraction::copy::Copies;
use crate::contraction::machine::{Machine, micro_tiles};
use crate::contraction::operand::load;
use crate::contraction::vector::{Vector, memory, registers};
use crate::proof::{DotProduct, Neon};

/// The numbers of a vector.
const LANES: usize = Machine::NEON.lanes;

/// A kind of vectors: a level, a register type, how it is made of a vector of `f32` and back, and the operation. Loads and stores, which
/// do not depend on what the bits mean, are those of `f32`.
macro_rules! vectors {
    ($($name:ident, $level:ident, $register:ty, $number:ty: |$of:ident| $into:expr, $from:expr, $splat:ident $zero:literal $add:ident,
        |$sum:ident, $left:ident, $right:ident| $apply:expr;)*) => { $(
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name($register);

        impl $name {
            registers! {
                fn of(_: $level, $of: float32x4_t) -> $name {
                    $name($into)
                }
                fn numbers(self) -> float32x4_t {
                    let $of = self.0;
                    $from
                }
            }
        }

        impl Vector for $name {
            type Number = $number;
            type Mask = usize;
            type Level = $level;
            const LANES: usize = LANES;

            registers! {
                fn zero(_: $level) -> $name {
                    $name($splat($zero))
                }
                fn splat(_: $level, number: $number) -> $name {
                    $name($splat(number))
                }
                fn apply(self, left: $name, right: $name) -> $name {
                    let ($sum, $left, $right) = (self.0, left.0, right.0);
                    $name($apply)
                }
                fn add(self, other: $name) -> $name {
                    $name($add(self.0, other.0))
                }
            }

            #[inline(always)]
            fn mask(_: $level, count: usize) -> usize {
                count
            }

            memory! {
                unsafe fn load(level: $level, address: *const $number) -> $name {
                    $name::of(level, vld1q_f32(address.cast()))
                }
                unsafe fn store(self, address: *mut $number) {
                    vst1q_f32(address.cast(), self.numbers())
                }
                unsafe fn load_some(level: $level, address: *const $number, mask: usize) -> $name {
                    $name::of(level, load_some(level.into(), address.cast(), mask))
                }
                unsafe fn store_some(self, address: *mut $number, mask: usize) {
                    store_some(self.numbers(), address.cast(), mask)
                }
                unsafe fn gather(level: $level, address: *const $number, stride: i32, mask: usize) -> $name {
                    let mut numbers = [$zero; LANES];
                    let mut lane = 0;
                    while lane < mask {
                        numbers[lane] = load(address.offset(lane as isize * stride as isize));
                        lane += 1;
                    }
                    $name::load(level, numbers.as_ptr())
                }
                unsafe fn load_even(level: $level, address: *const $number) -> $name {
                    let address = address.cast::<f32>();
                    // The second half begins with the last number of the first, so that nothing beyond is loaded.
                    let (first, second) = (vld1q_f32(address), vld1q_f32(address.add(LANES - 1)));
                    let (first, second) = (vuzp1q_f32(first, first), vuzp2q_f32(second, second));
                    $name::of(level, vcombine_f32(vget_low_f32(first), vget_low_f32(second)))
                }
                unsafe fn transpose(level: $level, address: *const $number, stride: isize) -> [$name; 4] {
                    let address = address.cast::<f32>();
                    let rows = [
                        vld1q_f32(address),
                        vld1q_f32(address.offset(stride)),
                        vld1q_f32(address.offset(2 * stride)),
                        vld1q_f32(address.offset(3 * stride)),
                    ];
                    let [first, second, third, fourth] = transposed(level.into(), rows);
                    [$name::of(level, first), $name::of(level, second), $name::of(level, third), $name::of(level, fourth)]
                }
                unsafe fn transpose_back(level: $level, vectors: [$name; 4], address: *mut $number, stride: isize) {
                    let (address, [first, second, third, fourth]) = (address.cast::<f32>(), vectors);
                    let columns = [first.numbers(), second.numbers(), third.numbers(), fourth.numbers()];
                    let [first, second, third, fourth] = transposed(level.into(), columns);
                    vst1q_f32(address, first);
                    vst1q_f32(address.offset(stride), second);
                    vst1q_f32(address.offset(2 * stride), third);
                    vst1q_f32(address.offset(3 * stride), fourth);
                }
            }
        }
    )* };
}
vectors! {
    FmaF32x4, Neon, float32x4_t, f32: |vector| vector, vector, vdupq_n_f32 0.0 vaddq_f32,
        |sum, left, right| vfmaq_f32(sum, left, right);
    MulAddF32x4, Neon, float32x4_t, f32: |vector| vector, vector, vdupq_n_f32 0.0 vaddq_f32,
        |sum, left, right| vaddq_f32(sum, vmulq_f32(left, right));
    MulAddI32x4, Neon, int32x4_t, i32: |vector| vreinterpretq_s32_f32(vector), vreinterpretq_f32_s32(vector), vdupq_n_s32 0 vaddq_s32,
        |sum, left, right| vmlaq_s32(sum, left, right);
    // Each number of an operand is four bytes.
    DotI8x16, DotProduct, int32x4_t, i32: |vector| vreinterpretq_s32_f32(vector), vreinterpretq_f32_s32(vector), vdupq_n_s32 0 vaddq_s32,
        |sum, left, right| add_dot_products(sum, left, right);
}

/// Adds the products of four bytes to each number. The intrinsic is not stable.
///
/// # Safety
/// The processor has the instruction: [`DotProduct`].
#[inline(always)]
unsafe fn add_dot_products(mut sum: int32x4_t, left: int32x4_t, right: int32x4_t) -> int32x4_t {
    // SAFETY: the caller has a vector of `DotProduct`, which proves the instruction. It accesses no memory.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {sum:v}.4s, {left:v}.16b, {right:v}.16b",
            sum = inout(vreg) sum,
            left = in(vreg) left,
            right = in(vreg) right,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

registers! {
    /// Exchanges rows and columns.
    fn transposed(_: Neon, [first, second, third, fourth]: [float32x4_t; 4]) -> [float32x4_t; 4] {
        // Even and odd columns of two rows, as pairs of numbers.
        let (even, odd) = (vtrn1q_f32(first, second), vtrn2q_f32(first, second));
        let (even_next, odd_next) = (vtrn1q_f32(third, fourth), vtrn2q_f32(third, fourth));
        let [even, odd, even_next, odd_next] = [
            vreinterpretq_f64_f32(even),
            vreinterpretq_f64_f32(odd),
            vreinterpretq_f64_f32(even_next),
            vreinterpretq_f64_f32(odd_next),
        ];
        [
            vreinterpretq_f32_f64(vtrn1q_f64(even, even_next)),
            vreinterpretq_f32_f64(vtrn1q_f64(odd, odd_next)),
            vreinterpretq_f32_f64(vtrn2q_f64(even, even_next)),
            vreinterpretq_f32_f64(vtrn2q_f64(odd, odd_next)),
        ]
    }
}

memory! {
    /// Loads the first lanes, zeros in the others. All other vectors of a strip are whole, and of most strips this one is, too.
    unsafe fn load_some(_: Neon, address: *const f32, count: usize) -> float32x4_t {
        match count {
            LANES.. => vld1q_f32(address),
            3 => {
                let last = vset_lane_f32::<0>(load(address.add(2)), vdup_n_f32(0.0));
                vcombine_f32(vld1_f32(address), last)
            }
            2 => vcombine_f32(vld1_f32(address), vdup_n_f32(0.0)),
            1 => vcombine_f32(vset_lane_f32::<0>(load(address), vdup_n_f32(0.0)), vdup_n_f32(0.0)),
            0 => vdupq_n_f32(0.0),
        }
    }

    /// Stores the first lanes.
    unsafe fn store_some(vector: float32x4_t, address: *mut f32, count: usize) {
        match count {
            LANES.. => vst1q_f32(address, vector),
            3 => {
                vst1_f32(address, vget_low_f32(vector));
                address.add(2).write(vgetq_lane_f32::<2>(vector));
            }
            2 => vst1_f32(address, vget_low_f32(vector)),
            1 => address.write(vgetq_lane_f32::<0>(vector)),
            0 => {}
        }
    }
}

level!(neon, Neon, super::FmaF32x4, 8);
level!(dot_product, DotProduct, super::DotI8x16, 8, "dotprod");

/// The table of an operation.
macro_rules! operations {
    ($($name:ident: $vector:ty, $number:ty, $level:ident $proof:ident;)*) => { $(
        micro_tiles!(NEON, tiles! {
            $name: $vector as $number, Machine::NEON, $level $proof
        });
    )* };
}
operations! {
    fma_f32: FmaF32x4, f32, neon Neon;
    mul_add_f32: MulAddF32x4, f32, neon Neon;
    mul_add_i32: MulAddI32x4, i32, neon Neon;
    dot: DotI8x16, i32, dot_product DotProduct;
}
