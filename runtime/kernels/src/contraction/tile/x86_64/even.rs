//! Loads of every second number, and of pairs.

use core::arch::x86_64::{
    __m256, __m512, _mm256_castpd_ps, _mm256_castps_pd, _mm256_loadu_ps, _mm256_permute4x64_pd, _mm256_shuffle_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_maskz_loadu_ps, _mm512_permutex2var_ps,
};

use super::some_of_16;

/// Of two vectors, where the first numbers of pairs are.
const FIRST: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
/// The second ones.
const SECOND: [i32; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];

/// Loads every second number of 31.
///
/// Safety: the numbers are valid at their addresses; the processor has AVX-512.
#[inline(always)]
pub(super) unsafe fn even_of_32(from: *const f32) -> __m512 {
    const PLACES: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31];
    // SAFETY: promised by the caller. The second half begins with the last number of the first, so that nothing beyond is loaded.
    unsafe { chosen([_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(15))], &PLACES) }
}

/// Loads so many of them, 1 to 16.
///
/// Safety: one less than twice as many numbers are valid at their addresses; the processor has AVX-512.
#[inline(always)]
pub(super) unsafe fn some_even_of_32(from: *const f32, count: usize) -> __m512 {
    // SAFETY: promised by the caller.
    unsafe { chosen(some_of_32(from, 2 * count - 1), &FIRST) }
}

/// Loads so many pairs, 1 to 16.
///
/// Safety: the numbers are valid at their addresses; the processor has AVX-512.
#[inline(always)]
pub(super) unsafe fn pairs_of_32(from: *const f32, count: usize) -> [__m512; 2] {
    // SAFETY: promised by the caller.
    unsafe {
        let numbers = some_of_32(from, 2 * count);
        [chosen(numbers, &FIRST), chosen(numbers, &SECOND)]
    }
}

/// Loads so many adjacent numbers, 1 to 32.
///
/// Safety: they are valid at their addresses; the processor has AVX-512.
#[inline(always)]
unsafe fn some_of_32(from: *const f32, count: usize) -> [__m512; 2] {
    // SAFETY: promised by the caller; lanes that are not in a mask are not accessed.
    unsafe {
        if count == 32 {
            return [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16))];
        }
        let (first, second) = (some_of_16(count.min(16)), some_of_16(count.saturating_sub(16)));
        [_mm512_maskz_loadu_ps(first, from), _mm512_maskz_loadu_ps(second, from.wrapping_add(16))]
    }
}

/// The numbers of two vectors at these places.
///
/// Safety: the processor has AVX-512.
#[inline(always)]
unsafe fn chosen([first, second]: [__m512; 2], places: &[i32; 16]) -> __m512 {
    // SAFETY: promised by the caller; there are as many places as a vector has numbers.
    unsafe { _mm512_permutex2var_ps(first, _mm512_loadu_si512(places.as_ptr().cast()), second) }
}

/// Loads every second number of 15.
///
/// Safety: the numbers are valid at their addresses; the processor has AVX2.
#[inline(always)]
pub(super) unsafe fn even_of_16(from: *const f32) -> __m256 {
    // SAFETY: promised by the caller. The second half begins with the last number of the first, so that nothing beyond is loaded.
    unsafe { in_order(_mm256_shuffle_ps::<0b11_01_10_00>(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(7)))) }
}

/// Exchanges the quarters in the middle: after a shuffle of two vectors within halves, the numbers of the first one come first.
///
/// Safety: the processor has AVX2.
#[inline(always)]
unsafe fn in_order(halves: __m256) -> __m256 {
    // SAFETY: promised by the caller.
    unsafe { _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(halves))) }
}
