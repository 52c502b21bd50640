//! Tiles for AVX2 and AVX-512.

use core::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, _mm256_add_epi32, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_mul_ps, _mm256_mullo_epi32, _mm256_set1_epi32, _mm256_set1_ps, _mm256_storeu_ps,
    _mm256_storeu_si256, _mm512_add_epi32, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_mul_ps, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_set1_ps, _mm512_storeu_ps, _mm512_storeu_si512,
};

use super::{Machine, Tile, Tiles, Vector, run, tiles};
use crate::contraction::copy::{self, Copies, Lines};

/// A kind of vectors: a register type, and the intrinsics of its loads, stores and operation.
macro_rules! vectors {
    ($($name:ident, $register:ty as $pointer:ty, $number:ty, $lanes:literal: $load:ident $store:ident $splat:ident,
        |$sum:ident, $left:ident, $right:ident| $apply:expr;)*) => { $(
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name($register);

        impl Vector for $name {
            type Number = $number;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn load(address: *const $number) -> $name {
                // SAFETY: promised by the caller; the load may be unaligned.
                $name(unsafe { $load(address.cast::<$pointer>()) })
            }

            #[inline(always)]
            unsafe fn store(self, address: *mut $number) {
                // SAFETY: promised by the caller; the store may be unaligned.
                unsafe { $store(address.cast::<$pointer>(), self.0) }
            }

            #[inline(always)]
            unsafe fn splat(address: *const $number) -> $name {
                // SAFETY: promised by the caller.
                $name(unsafe { $splat(address.read()) })
            }

            #[inline(always)]
            unsafe fn apply(self, left: $name, right: $name) -> $name {
                let ($sum, $left, $right) = (self.0, left.0, right.0);
                // SAFETY: the caller promises that the processor has the features.
                $name(unsafe { $apply })
            }
        }
    )* };
}
vectors! {
    FmaF32x16, __m512 as f32, f32, 16: _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps,
        |sum, left, right| _mm512_fmadd_ps(left, right, sum);
    MulAddF32x16, __m512 as f32, f32, 16: _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps,
        |sum, left, right| _mm512_add_ps(sum, _mm512_mul_ps(left, right));
    MulAddI32x16, __m512i as __m512i, i32, 16: _mm512_loadu_si512 _mm512_storeu_si512 _mm512_set1_epi32,
        |sum, left, right| _mm512_add_epi32(sum, _mm512_mullo_epi32(left, right));
    FmaF32x8, __m256 as f32, f32, 8: _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps,
        |sum, left, right| _mm256_fmadd_ps(left, right, sum);
    MulAddF32x8, __m256 as f32, f32, 8: _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps,
        |sum, left, right| _mm256_add_ps(sum, _mm256_mul_ps(left, right));
    MulAddI32x8, __m256i as __m256i, i32, 8: _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32,
        |sum, left, right| _mm256_add_epi32(sum, _mm256_mullo_epi32(left, right));
}

/// The functions of a level, which are compiled for its features.
macro_rules! level {
    ($features:literal, $chunk:literal, $tile:ident $gather:ident $scatter:ident) => {
        /// Safety: see [`super::Run`], for these features.
        #[target_feature(enable = $features)]
        unsafe fn $tile<V: Vector, const ROWS: usize, const VECTORS: usize>(tile: &Tile<V::Number>) {
            // SAFETY: promised by the caller.
            unsafe { run::<V, ROWS, VECTORS>(tile) }
        }

        /// Safety: see [`Copies`], for these features.
        #[target_feature(enable = $features)]
        unsafe fn $gather<N: Copy>(lines: &Lines<'_, N>) {
            // SAFETY: promised by the caller.
            unsafe { copy::gather::<N, $chunk>(lines) }
        }

        /// Safety: see [`Copies`], for these features.
        #[target_feature(enable = $features)]
        unsafe fn $scatter<N: Copy>(lines: &Lines<'_, N>) {
            // SAFETY: promised by the caller.
            unsafe { copy::scatter::<N, $chunk>(lines) }
        }
    };
}
level!("avx512f", 16, v4 gather_v4 scatter_v4);
level!("avx2,fma", 8, v3 gather_v3 scatter_v3);

/// The tables of an operation.
macro_rules! operations {
    ($($number:ty: $v4:ident $wide:ty, $v3:ident $narrow:ty;)*) => { $(
        tiles!($v4: $wide as $number, Machine::X86_64_V4, v4 gather_v4 scatter_v4
            [1: 8 4 2 1; 2: 8 4 2 1; 3: 8 4 2 1; 4: 6 4 2 1;]);
        tiles!($v3: $narrow as $number, Machine::X86_64_V3, v3 gather_v3 scatter_v3 [1: 8 4 2 1; 2: 6 4 2 1;]);
    )* };
}
operations! {
    f32: FMA_F32_V4 FmaF32x16, FMA_F32_V3 FmaF32x8;
    f32: MUL_ADD_F32_V4 MulAddF32x16, MUL_ADD_F32_V3 MulAddF32x8;
    i32: MUL_ADD_I32_V4 MulAddI32x16, MUL_ADD_I32_V3 MulAddI32x8;
}
