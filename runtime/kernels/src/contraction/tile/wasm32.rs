//! Tiles for the vectors of WebAssembly, in programs that are compiled for them: a program cannot ask an engine what it has.
//!
//! They have no instruction that multiplies, adds and rounds once: [`FmaF32x4`] computes with `f64`.

use core::arch::wasm32::{
    f32x4_add, f32x4_demote_f64x2_zero, f32x4_mul, f32x4_splat, f64x2_abs, f64x2_add, f64x2_gt, f64x2_lt, f64x2_mul,
    f64x2_promote_low_f32x4, f64x2_splat, f64x2_sub, i32x4_add, i32x4_mul, i32x4_shuffle, i32x4_splat, i64x2_add,
    i64x2_eq, i64x2_shuffle, i64x2_splat, i64x2_sub, u64x2_splat, v128, v128_and, v128_andnot, v128_any_true,
    v128_load, v128_load32_lane, v128_load32_zero, v128_load64_zero, v128_or, v128_store, v128_store32_lane,
    v128_store64_lane, v128_xor,
};

use super::Tiles;
use super::table::{level, tiles};
use crate::contraction::copy::Copies;
use crate::contraction::machine::{Machine, micro_tiles};
use crate::contraction::operand::load;
use crate::contraction::vector::{Vector, memory};
use crate::proof::Simd128;

/// The numbers of a vector.
pub(super) const LANES: usize = Machine::SIMD128.lanes;

/// A kind of vectors: how it is made of a vector of 32-bit numbers and back, and its operations.
macro_rules! vectors {
    ($($name:ident, $number:ty: |$bits:ident| $of:expr, |$own:ident| $numbers:expr, $zero:literal,
        |$element:ident| $splat:expr, |$sum:ident, $left:ident, $right:ident| $apply:expr,
        |$first:ident, $second:ident| $add:expr;)*) => { $(
        impl $name {
            #[inline(always)]
            fn of($bits: v128) -> $name {
                $of
            }

            /// Its numbers, of 32 bits each.
            #[inline(always)]
            fn numbers(self) -> v128 {
                let $own = self;
                $numbers
            }
        }

        impl Vector for $name {
            type Number = $number;
            type Mask = usize;
            type Level = Simd128;
            const LANES: usize = LANES;

            #[inline(always)]
            fn zero(_: Simd128) -> $name {
                let $element: $number = $zero;
                $splat
            }

            #[inline(always)]
            fn splat(_: Simd128, $element: $number) -> $name {
                $splat
            }

            #[inline(always)]
            fn apply(self, $left: $name, $right: $name) -> $name {
                let $sum = self;
                $apply
            }

            #[inline(always)]
            fn add(self, $second: $name) -> $name {
                let $first = self;
                $add
            }

            #[inline(always)]
            fn mask(_: Simd128, count: usize) -> usize {
                count
            }

            memory! {
                unsafe fn load(_: Simd128, address: *const $number) -> $name {
                    $name::of(v128_load(address.cast()))
                }
                unsafe fn store(self, address: *mut $number) {
                    v128_store(address.cast(), self.numbers())
                }
                unsafe fn load_some(_: Simd128, address: *const $number, mask: usize) -> $name {
                    $name::of(load_some(address.cast(), mask))
                }
                unsafe fn store_some(self, address: *mut $number, mask: usize) {
                    store_some(self.numbers(), address.cast(), mask)
                }
                unsafe fn gather(level: Simd128, address: *const $number, stride: i32, mask: usize) -> $name {
                    let mut numbers = [$zero; LANES];
                    let mut lane = 0;
                    while lane < mask {
                        numbers[lane] = load(address.offset(lane as isize * stride as isize));
                        lane += 1;
                    }
                    $name::load(level, numbers.as_ptr())
                }
                unsafe fn load_even(_: Simd128, address: *const $number) -> $name {
                    $name::of(even(address.cast()))
                }
                unsafe fn transpose(_: Simd128, address: *const $number, stride: isize) -> [$name; 4] {
                    let rows = [
                        v128_load(address.cast()),
                        v128_load(address.offset(stride).cast()),
                        v128_load(address.offset(2 * stride).cast()),
                        v128_load(address.offset(3 * stride).cast()),
                    ];
                    let [first, second, third, fourth] = transposed(rows);
                    [$name::of(first), $name::of(second), $name::of(third), $name::of(fourth)]
                }
                unsafe fn transpose_back(_: Simd128, vectors: [$name; 4], address: *mut $number, stride: isize) {
                    let [first, second, third, fourth] = vectors;
                    let columns = [first.numbers(), second.numbers(), third.numbers(), fourth.numbers()];
                    let [first, second, third, fourth] = transposed(columns);
                    v128_store(address.cast(), first);
                    v128_store(address.offset(stride).cast(), second);
                    v128_store(address.offset(2 * stride).cast(), third);
                    v128_store(address.offset(3 * stride).cast(), fourth);
                }
            }
        }
    )* };
}

#[cfg(target_feature = "relaxed-simd")]
pub(super) use vectors;

/// Numbers that are multiplied and added, rounded twice.
#[derive(Clone, Copy, Debug)]
pub(super) struct MulAddF32x4(v128);

/// Integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct MulAddI32x4(v128);

/// Numbers that are multiplied and added, rounded once, by `f64`: the first two and the last two numbers, exactly. A product is exact,
/// and so is the sum once [`fused`] has rounded it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FmaF32x4 {
    low: v128,
    high: v128,
}

vectors! {
    MulAddF32x4, f32: |bits| MulAddF32x4(bits), |own| own.0, 0.0, |element| MulAddF32x4(f32x4_splat(element)),
        |sum, left, right| MulAddF32x4(f32x4_add(sum.0, f32x4_mul(left.0, right.0))),
        |first, second| MulAddF32x4(f32x4_add(first.0, second.0));
    MulAddI32x4, i32: |bits| MulAddI32x4(bits), |own| own.0, 0, |element| MulAddI32x4(i32x4_splat(element)),
        |sum, left, right| MulAddI32x4(i32x4_add(sum.0, i32x4_mul(left.0, right.0))),
        |first, second| MulAddI32x4(i32x4_add(first.0, second.0));
    FmaF32x4, f32: |bits| FmaF32x4 {
            low: f64x2_promote_low_f32x4(bits),
            high: f64x2_promote_low_f32x4(i64x2_shuffle::<1, 1>(bits, bits)),
        },
        |own| i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(own.low), f32x4_demote_f64x2_zero(own.high)),
        0.0, |element| { let both = f64x2_splat(f64::from(element)); FmaF32x4 { low: both, high: both } },
        |sum, left, right| fused(sum, left, right),
        |first, second| FmaF32x4::of(f32x4_add(first.numbers(), second.numbers()));
}

/// Returns `left * right + sum`, rounded once to `f32`.
///
/// Rounded to `f64` and then to `f32`, a sum is wrong only if it is rounded to the middle between two numbers of `f32`, which the exact sum
/// is not. Where a sum is such a middle, or so small that the middles are others, all of them are rounded with care.
#[inline(always)]
fn fused(sum: FmaF32x4, left: FmaF32x4, right: FmaF32x4) -> FmaF32x4 {
    let products = (f64x2_mul(left.low, right.low), f64x2_mul(left.high, right.high));
    let sums = (f64x2_add(products.0, sum.low), f64x2_add(products.1, sum.high));
    if v128_any_true(v128_or(is_doubtful(sums.0), is_doubtful(sums.1))) {
        return FmaF32x4 { low: carefully(products.0, sum.low), high: carefully(products.1, sum.high) };
    }
    FmaF32x4 { low: rounded(sums.0), high: rounded(sums.1) }
}

/// The nearest numbers of `f32`.
#[inline(always)]
fn rounded(numbers: v128) -> v128 {
    f64x2_promote_low_f32x4(f32x4_demote_f64x2_zero(numbers))
}

/// Ones in the lanes where a number is the middle between two of `f32`, or below all normal numbers of `f32` and not zero.
#[inline(always)]
fn is_doubtful(numbers: v128) -> v128 {
    let is_middle = i64x2_eq(v128_and(numbers, u64x2_splat(0x1FFF_FFFF)), u64x2_splat(0x1000_0000));
    // Less one, the bits of zero are those of a NaN, which is not less.
    let magnitudes = i64x2_sub(f64x2_abs(numbers), i64x2_splat(1));
    v128_or(is_middle, f64x2_lt(magnitudes, f64x2_splat(f64::from(f32::MIN_POSITIVE))))
}

/// Returns products plus sums, rounded once to `f32`: rounded to `f64` so that the last bit of what is not exact is a one, they are no
/// middle between numbers of `f32`, and on the right side of it.
#[cold]
#[inline(never)]
fn carefully(products: v128, sums: v128) -> v128 {
    let nearest = f64x2_add(products, sums);
    // What the addition has rounded off, exactly (Knuth's two-sum).
    let of_sums = f64x2_sub(nearest, products);
    let rest = f64x2_add(f64x2_sub(products, f64x2_sub(nearest, of_sums)), f64x2_sub(sums, of_sums));
    let zero = f64x2_splat(0.0);
    // Without those of infinities and NaN, which compare with nothing.
    let is_inexact = v128_or(f64x2_lt(rest, zero), f64x2_gt(rest, zero));
    let is_even = i64x2_eq(v128_and(nearest, i64x2_splat(1)), i64x2_splat(0));
    // One bit further from zero if the rest has the sign of the sum, else nearer to it.
    let is_nearer = v128_xor(f64x2_lt(rest, zero), f64x2_lt(nearest, zero));
    let step = v128_or(is_nearer, v128_andnot(i64x2_splat(1), is_nearer));
    let odd = i64x2_add(nearest, v128_and(step, v128_and(is_inexact, is_even)));
    rounded(odd)
}

memory! {
    /// Loads the first lanes, zeros in the others. All other vectors of a strip are whole, and of most strips this one is, too.
    pub(super) unsafe fn load_some(address: *const u32, count: usize) -> v128 {
        match count {
            LANES.. => v128_load(address.cast()),
            3 => v128_load32_lane::<2>(v128_load64_zero(address.cast()), address.add(2)),
            2 => v128_load64_zero(address.cast()),
            1 => v128_load32_zero(address),
            0 => i32x4_splat(0),
        }
    }

    /// Stores the first lanes.
    pub(super) unsafe fn store_some(vector: v128, address: *mut u32, count: usize) {
        match count {
            LANES.. => v128_store(address.cast(), vector),
            3 => {
                v128_store64_lane::<0>(vector, address.cast());
                v128_store32_lane::<2>(vector, address.add(2));
            }
            2 => v128_store64_lane::<0>(vector, address.cast()),
            1 => v128_store32_lane::<0>(vector, address),
            0 => {}
        }
    }

    /// Loads every second number of seven of 32 bits.
    pub(super) unsafe fn even(address: *const f32) -> v128 {
        // The second half begins with the last number of the first, so that nothing beyond is loaded.
        let (first, second) = (v128_load(address.cast()), v128_load(address.add(LANES - 1).cast()));
        i32x4_shuffle::<0, 2, 5, 7>(first, second)
    }
}

/// Exchanges rows and columns.
#[inline(always)]
pub(super) fn transposed([first, second, third, fourth]: [v128; 4]) -> [v128; 4] {
    let (low, high) = (i32x4_shuffle::<0, 4, 1, 5>(first, second), i32x4_shuffle::<2, 6, 3, 7>(first, second));
    let (low_next, high_next) =
        (i32x4_shuffle::<0, 4, 1, 5>(third, fourth), i32x4_shuffle::<2, 6, 3, 7>(third, fourth));
    [
        i64x2_shuffle::<0, 2>(low, low_next),
        i64x2_shuffle::<1, 3>(low, low_next),
        i64x2_shuffle::<0, 2>(high, high_next),
        i64x2_shuffle::<1, 3>(high, high_next),
    ]
}

level!(simd128, Simd128, super::MulAddF32x4, 8);

/// The table of an operation, with the micro-tiles of a level.
macro_rules! operations {
    ($machine:ident $tiles:ident; $($name:ident: $vector:ty, $number:ty;)*) => { $(
        micro_tiles!($tiles, tiles! {
            $name: $vector as $number, Machine::$machine, simd128 Simd128
        });
    )* };
}
#[cfg(target_feature = "relaxed-simd")]
pub(super) use operations;

operations! {
    SIMD128 PORTABLE;
    mul_add_f32: MulAddF32x4, f32;
    mul_add_i32: MulAddI32x4, i32;
}
operations! {
    EMULATED EMULATED;
    fma_f32: FmaF32x4, f32;
}

#[cfg(test)]
mod tests {
    use incarnate_bytecode::semantics::fma_f32;

    use super::*;

    /// Products near a middle between two numbers, of normal and of subnormal ones.
    #[test]
    fn products_and_sums_are_rounded_once() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let mantissa = |bits: u32| bits & [0x7F_FFFF, 0x40_0001, 0x7F_F000, 0x3][(bits >> 24) as usize % 4];
        for _ in 0..300_000 {
            let exponent = random() % 150;
            let mut number = |exponent: u32| {
                let bits = random();
                f32::from_bits(bits & 0x8000_0000 | exponent << 23 | mantissa(bits))
            };
            let lefts = [(); LANES].map(|()| number(64 + exponent / 2));
            let rights = [(); LANES].map(|()| number(63 + exponent - exponent / 2));
            let sums = [0, 1, 24, 48].map(|less| number((exponent + 24u32).saturating_sub(less)));
            let mut results = [0f32; LANES];
            // SAFETY: the arrays have as many numbers as vectors.
            unsafe {
                let [left, right, sum] =
                    [&lefts, &rights, &sums].map(|numbers| FmaF32x4::load(Simd128::here(), numbers.as_ptr()));
                sum.apply(left, right).store(results.as_mut_ptr());
            }
            for lane in 0..LANES {
                let expected = fma_f32(lefts[lane], rights[lane], sums[lane]);
                let is_same = results[lane].to_bits() == expected.to_bits();
                assert!(is_same || expected.is_nan(), "{:e} * {:e} + {:e}", lefts[lane], rights[lane], sums[lane]);
            }
        }
    }
}
