//! Sums of products of adjacent integers, for which processors have instructions. Compilers find them for some shapes of code alone.
#![allow(unsafe_code, reason = "instructions of proven levels")]

use crate::proof::Portable;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
use crate::proof::V3;

/// How a level of processors multiplies adjacent integers.
pub trait IntegerProducts: Copy {
    /// Multiplies the integers of each pair with those of the other one, and adds both products. The sum wraps around.
    fn multiply_pairs<const L: usize>(self, left: &[[i16; 2]; L], right: &[[i16; 2]; L]) -> [i32; L];

    /// Multiplies four bytes without a sign with four that have one, and adds the products.
    ///
    /// The first two products and the last two must have sums within 16 bits: other sums are other numbers.
    #[inline(always)]
    fn multiply_quads<const L: usize>(self, left: &[[u8; 4]; L], right: &[[i8; 4]; L]) -> [i32; L] {
        multiply_as_pairs(self, left, right)
    }

    /// [`IntegerProducts::multiply_quads`] of bytes that all have a sign, the right ones from -127 on.
    #[inline(always)]
    fn multiply_signed_quads<const L: usize>(self, left: &[[i8; 4]; L], right: &[[i8; 4]; L]) -> [i32; L] {
        multiply_as_pairs(self, left, right)
    }
}

/// Multiplies quads as two pairs each.
#[inline(always)]
fn multiply_as_pairs<T: Copy + Into<i16>, const L: usize>(
    products: impl IntegerProducts,
    left: &[[T; 4]; L],
    right: &[[i8; 4]; L],
) -> [i32; L] {
    let mut sums = [0; L];
    let mut first = 0;
    while first < 4 {
        let (mut left_pairs, mut right_pairs) = ([[0i16; 2]; L], [[0i16; 2]; L]);
        let mut lane = 0;
        while lane < L {
            left_pairs[lane][0] = left[lane][first].into();
            left_pairs[lane][1] = left[lane][first + 1].into();
            right_pairs[lane][0] = right[lane][first].into();
            right_pairs[lane][1] = right[lane][first + 1].into();
            lane += 1;
        }
        let of_pairs = products.multiply_pairs(&left_pairs, &right_pairs);
        let mut lane = 0;
        while lane < L {
            sums[lane] += of_pairs[lane];
            lane += 1;
        }
        first += 2;
    }
    sums
}

impl IntegerProducts for Portable {
    #[inline(always)]
    fn multiply_pairs<const L: usize>(self, left: &[[i16; 2]; L], right: &[[i16; 2]; L]) -> [i32; L] {
        let mut sums = [0; L];
        multiply_from(0, left, right, &mut sums);
        sums
    }
}

/// Multiplies eight lanes at a time by a function for AVX2; lanes behind them stay 0. No closure: those are not always inlined into functions for
/// target features.
#[cfg(all(feature = "std", target_arch = "x86_64"))]
macro_rules! by_eights {
    ($proof:expr, $left:expr, $right:expr, $multiply:path) => {{
        let _: V3 = $proof;
        let mut sums = [0; L];
        let mut first = 0;
        while first + 8 <= L {
            // SAFETY: the proof says that the processor has AVX2.
            let eight = unsafe { $multiply(lanes($left, first), lanes($right, first)) };
            for (lane, sum) in eight.into_iter().enumerate() {
                sums[first + lane] = sum;
            }
            first += 8;
        }
        sums
    }};
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
impl IntegerProducts for V3 {
    #[inline(always)]
    fn multiply_pairs<const L: usize>(self, left: &[[i16; 2]; L], right: &[[i16; 2]; L]) -> [i32; L] {
        let mut sums = by_eights!(self, left, right, x86_64::multiply_eight);
        multiply_from(L / 8 * 8, left, right, &mut sums);
        sums
    }

    #[inline(always)]
    fn multiply_quads<const L: usize>(self, left: &[[u8; 4]; L], right: &[[i8; 4]; L]) -> [i32; L] {
        if !L.is_multiple_of(8) {
            return multiply_as_pairs(self, left, right);
        }
        by_eights!(self, left, right, x86_64::multiply_quads)
    }

    #[inline(always)]
    fn multiply_signed_quads<const L: usize>(self, left: &[[i8; 4]; L], right: &[[i8; 4]; L]) -> [i32; L] {
        if !L.is_multiple_of(8) {
            return multiply_as_pairs(self, left, right);
        }
        by_eights!(self, left, right, x86_64::multiply_signed_quads)
    }
}

/// Multiplies the lanes from the first one on in the way of the program's target.
#[inline(always)]
fn multiply_from<const L: usize>(mut first: usize, left: &[[i16; 2]; L], right: &[[i16; 2]; L], sums: &mut [i32; L]) {
    while first + 4 <= L {
        let four = multiply_four(lanes(left, first), lanes(right, first));
        for (lane, sum) in four.into_iter().enumerate() {
            sums[first + lane] = sum;
        }
        first += 4;
    }
    while first < L {
        sums[first] = multiply(left[first], right[first]);
        first += 1;
    }
}

/// The lanes from the first one on, as many as vectors have. They are not moved, which would be as integers of 32 bits.
#[inline(always)]
fn lanes<T, const N: usize, const L: usize>(lanes: &[T; L], first: usize) -> &[T; N] {
    assert!(N <= L && first <= L - N, "{N} lanes from {first} of {L}");
    // SAFETY: as was checked, these lanes are among the others.
    unsafe { &*lanes.as_ptr().add(first).cast() }
}

#[inline(always)]
fn multiply(left: [i16; 2], right: [i16; 2]) -> i32 {
    (i32::from(left[0]) * i32::from(right[0])).wrapping_add(i32::from(left[1]) * i32::from(right[1]))
}

#[cfg(not(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
#[inline(always)]
fn multiply_four(left: &[[i16; 2]; 4], right: &[[i16; 2]; 4]) -> [i32; 4] {
    core::array::from_fn(|lane| multiply(left[lane], right[lane]))
}

#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
#[inline(always)]
fn multiply_four(left: &[[i16; 2]; 4], right: &[[i16; 2]; 4]) -> [i32; 4] {
    #[cfg(target_arch = "wasm32")]
    use core::arch::wasm32::{i32x4_dot_i16x8 as multiply, v128 as Vector};
    #[cfg(target_arch = "x86_64")]
    use core::arch::x86_64::{__m128i as Vector, _mm_madd_epi16 as multiply};
    use core::mem::transmute;

    // SAFETY: the program is compiled for the instruction. The types are integers of 128 bits in all.
    unsafe {
        let (left, right) = (transmute::<[[i16; 2]; 4], Vector>(*left), transmute::<[[i16; 2]; 4], Vector>(*right));
        transmute::<Vector, [i32; 4]>(multiply(left, right))
    }
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod x86_64 {
    use core::arch::x86_64::{
        __m256i, _mm256_abs_epi8, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi16, _mm256_sign_epi8,
    };
    use core::mem::transmute;

    /// The sums of four products of bytes, the left ones without a sign.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn sums_of_quads(left: __m256i, right: __m256i) -> [i32; 8] {
        let sums = _mm256_madd_epi16(_mm256_maddubs_epi16(left, right), _mm256_set1_epi16(1));
        // SAFETY: the types are integers of 256 bits in all.
        unsafe { transmute::<__m256i, [i32; 8]>(sums) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn multiply_quads(left: &[[u8; 4]; 8], right: &[[i8; 4]; 8]) -> [i32; 8] {
        // SAFETY: the types are integers of 256 bits in all.
        let (left, right) =
            unsafe { (transmute::<[[u8; 4]; 8], __m256i>(*left), transmute::<[[i8; 4]; 8], __m256i>(*right)) };
        sums_of_quads(left, right)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn multiply_signed_quads(left: &[[i8; 4]; 8], right: &[[i8; 4]; 8]) -> [i32; 8] {
        // SAFETY: the types are integers of 256 bits in all.
        let (left, right) =
            unsafe { (transmute::<[[i8; 4]; 8], __m256i>(*left), transmute::<[[i8; 4]; 8], __m256i>(*right)) };
        // The sign moves to the right ones, which are not -128.
        sums_of_quads(_mm256_abs_epi8(left), _mm256_sign_epi8(right, left))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn multiply_eight(left: &[[i16; 2]; 8], right: &[[i16; 2]; 8]) -> [i32; 8] {
        // SAFETY: the types are integers of 256 bits in all.
        let (left, right) =
            unsafe { (transmute::<[[i16; 2]; 8], __m256i>(*left), transmute::<[[i16; 2]; 8], __m256i>(*right)) };
        let sums = _mm256_madd_epi16(left, right);
        // SAFETY: as above.
        unsafe { transmute::<__m256i, [i32; 8]>(sums) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::of_program;

    /// Integers of all sizes and signs, with the extremes.
    fn pairs<const L: usize>(seed: u32) -> [[i16; 2]; L] {
        let mut state = seed;
        core::array::from_fn(|_| {
            [(); 2].map(|()| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match state >> 30 {
                    0 => i16::MIN,
                    1 => i16::MAX,
                    _ => (state >> 8) as i16,
                }
            })
        })
    }

    fn check<const L: usize>(products: impl IntegerProducts) {
        for seed in 0..100 {
            let (left, right) = (pairs::<L>(seed), pairs::<L>(seed + 1000));
            let expected: [i32; L] = core::array::from_fn(|lane| {
                let [first, second] = [0, 1].map(|at| i64::from(left[lane][at]) * i64::from(right[lane][at]));
                (first + second) as i32
            });
            assert_eq!(products.multiply_pairs(&left, &right), expected, "{left:?} {right:?}");
        }
        assert_eq!(products.multiply_pairs(&[[i16::MIN; 2]; L], &[[i16::MIN; 2]; L]), [i32::MIN; L]);
    }

    /// Bytes of all sizes and signs within a range, with its ends.
    fn quads<const L: usize>(seed: u32, [least, greatest]: [i32; 2]) -> [[i32; 4]; L] {
        let mut state = seed;
        core::array::from_fn(|_| {
            [(); 4].map(|()| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match state >> 30 {
                    0 => least,
                    1 => greatest,
                    _ => least + (state >> 8).cast_signed() % (greatest - least + 1),
                }
            })
        })
    }

    fn check_quads<const L: usize>(products: impl IntegerProducts) {
        for seed in 0..100 {
            let expected = |left: &[[i32; 4]; L], right: &[[i32; 4]; L]| -> [i32; L] {
                core::array::from_fn(|lane| (0..4).map(|at| left[lane][at] * right[lane][at]).sum())
            };
            // Two products of the greatest ones have a sum of 16 bits.
            for ([least, greatest], right) in [([0, 127], [-128, 127]), ([0, 255], [-64, 64])] {
                let (left, right) = (quads::<L>(seed, [least, greatest]), quads::<L>(seed + 1000, right));
                let bytes = (left.map(|quad| quad.map(|x| x as u8)), right.map(|quad| quad.map(|x| x as i8)));
                assert_eq!(products.multiply_quads(&bytes.0, &bytes.1), expected(&left, &right), "{bytes:?}");
            }
            let (left, right) = (quads::<L>(seed, [-128, 127]), quads::<L>(seed + 1000, [-127, 127]));
            let bytes = [left, right].map(|quads| quads.map(|quad| quad.map(|x| x as i8)));
            assert_eq!(products.multiply_signed_quads(&bytes[0], &bytes[1]), expected(&left, &right), "{bytes:?}");
        }
    }

    fn check_all(products: impl IntegerProducts) {
        check::<1>(products);
        check::<4>(products);
        check::<8>(products);
        check::<15>(products);
        check::<32>(products);
        check_quads::<1>(products);
        check_quads::<8>(products);
        check_quads::<12>(products);
        check_quads::<32>(products);
    }

    #[test]
    fn all_levels_multiply_the_same() {
        check_all(Portable::here());
        check_all(of_program());
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        if let Some(v3) = V3::detected() {
            check_all(v3);
        }
    }
}
