//! Loads of every second number, and of pairs.

use core::arch::x86_64::{
    __m256, __m512, _mm256_castpd_ps, _mm256_castps_pd, _mm256_loadu_ps, _mm256_permute4x64_pd, _mm256_shuffle_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_maskz_loadu_ps, _mm512_permutex2var_ps,
};

use super::some_of_16;
use crate::contraction::vector::{memory, registers};
use crate::proof::{V3, V4};

/// Of two vectors, where the first numbers of pairs are.
const FIRST: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
/// The second ones.
const SECOND: [i32; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];

memory! {
    /// Loads every second number of 31.
    pub(super) unsafe fn even_of_32(level: V4, from: *const f32) -> __m512 {
        const PLACES: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31];
        // The second half begins with the last number of the first, so that nothing beyond is loaded.
        chosen(level, [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(15))], &PLACES)
    }

    /// Loads so many of them, 1 to 16: one less than twice as many numbers are valid.
    pub(super) unsafe fn some_even_of_32(level: V4, from: *const f32, count: usize) -> __m512 {
        chosen(level, some_of_32(level, from, 2 * count - 1), &FIRST)
    }

    /// Loads so many pairs, 1 to 16.
    pub(super) unsafe fn pairs_of_32(level: V4, from: *const f32, count: usize) -> [__m512; 2] {
        let numbers = some_of_32(level, from, 2 * count);
        [chosen(level, numbers, &FIRST), chosen(level, numbers, &SECOND)]
    }

    /// Loads so many adjacent numbers, 1 to 32.
    unsafe fn some_of_32(level: V4, from: *const f32, count: usize) -> [__m512; 2] {
        if count == 32 {
            return [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16))];
        }
        let (first, second) = (some_of_16(level, count.min(16)), some_of_16(level, count.saturating_sub(16)));
        [_mm512_maskz_loadu_ps(first, from), _mm512_maskz_loadu_ps(second, from.wrapping_add(16))]
    }

    /// Loads every second number of 15.
    pub(super) unsafe fn even_of_16(level: V3, from: *const f32) -> __m256 {
        // The second half begins with the last number of the first, so that nothing beyond is loaded.
        in_order(level, _mm256_loadu_ps(from), _mm256_loadu_ps(from.add(7)))
    }
}

/// The numbers of two vectors at these places.
#[inline(always)]
fn chosen(_: V4, [first, second]: [__m512; 2], places: &[i32; 16]) -> __m512 {
    // SAFETY: `V4` says that the processor has AVX-512. There are as many places as a vector has numbers.
    unsafe { _mm512_permutex2var_ps(first, _mm512_loadu_si512(places.as_ptr().cast()), second) }
}

registers! {
    /// The first numbers of pairs in the first vector, and the second ones in the second vector. A shuffle works within halves: the quarters
    /// in the middle are then exchanged.
    fn in_order(_: V3, first: __m256, second: __m256) -> __m256 {
        let halves = _mm256_shuffle_ps::<0b11_01_10_00>(first, second);
        _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(halves)))
    }
}
