//! Products of pairs of 16-bit integers, for which processors have an instruction. Compilers find it for some shapes of code alone.
#![allow(unsafe_code, reason = "instructions of proven levels")]

use crate::proof::Portable;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
use crate::proof::V3;

/// How a level of processors multiplies pairs.
pub trait PairProducts: Copy {
    /// Multiplies the integers of each pair with those of the other one, and adds both products. The sum wraps around.
    fn multiply_pairs<const L: usize>(self, left: &[[i16; 2]; L], right: &[[i16; 2]; L]) -> [i32; L];
}

impl PairProducts for Portable {
    #[inline(always)]
    fn multiply_pairs<const L: usize>(self, left: &[[i16; 2]; L], right: &[[i16; 2]; L]) -> [i32; L] {
        let mut sums = [0; L];
        multiply_from(0, left, right, &mut sums);
        sums
    }
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
impl PairProducts for V3 {
    #[inline(always)]
    fn multiply_pairs<const L: usize>(self, left: &[[i16; 2]; L], right: &[[i16; 2]; L]) -> [i32; L] {
        let mut sums = [0; L];
        let mut first = 0;
        while first + 8 <= L {
            // SAFETY: `self` is the proof that the processor has AVX2.
            let eight = unsafe { x86_64::multiply_eight(lanes(left, first), lanes(right, first)) };
            for (lane, sum) in eight.into_iter().enumerate() {
                sums[first + lane] = sum;
            }
            first += 8;
        }
        multiply_from(first, left, right, &mut sums);
        sums
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
fn lanes<const N: usize, const L: usize>(pairs: &[[i16; 2]; L], first: usize) -> &[[i16; 2]; N] {
    assert!(N <= L && first <= L - N, "{N} lanes from {first} of {L}");
    // SAFETY: as was checked, these lanes are among the pairs.
    unsafe { &*pairs.as_ptr().add(first).cast() }
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
    use core::arch::x86_64::{__m256i, _mm256_madd_epi16};
    use core::mem::transmute;

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

    fn check<const L: usize>(products: impl PairProducts) {
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

    fn check_all(products: impl PairProducts) {
        check::<1>(products);
        check::<4>(products);
        check::<8>(products);
        check::<15>(products);
        check::<32>(products);
    }

    #[test]
    fn all_levels_multiply_pairs() {
        check_all(Portable::here());
        check_all(of_program());
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        if let Some(v3) = V3::detected() {
            check_all(v3);
        }
    }
}
