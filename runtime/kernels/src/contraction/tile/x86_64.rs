//! Tiles for AVX2 and AVX-512.

mod even;

use core::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, __mmask16, _MM_HINT_T1, _mm_loadu_ps, _mm_prefetch, _mm_storeu_ps,
    _mm256_add_epi32, _mm256_add_ps, _mm256_castps_si256, _mm256_castps128_ps256, _mm256_castps256_ps128,
    _mm256_castsi256_ps, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_insertf128_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_mask_i32gather_epi32, _mm256_mask_i32gather_ps,
    _mm256_maskload_epi32, _mm256_maskload_ps, _mm256_maskstore_epi32, _mm256_maskstore_ps, _mm256_mul_ps,
    _mm256_mullo_epi32, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_shuffle_ps,
    _mm256_storeu_ps, _mm256_storeu_si256, _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm512_add_epi32, _mm512_add_ps,
    _mm512_castps_si512, _mm512_castps128_ps512, _mm512_castps512_ps128, _mm512_castsi512_ps, _mm512_extractf32x4_ps,
    _mm512_fmadd_ps, _mm512_insertf32x4, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_i32gather_epi32,
    _mm512_mask_i32gather_ps, _mm512_mask_storeu_epi32, _mm512_mask_storeu_ps, _mm512_maskz_loadu_epi32,
    _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_shuffle_ps, _mm512_storeu_ps, _mm512_storeu_si512, _mm512_unpackhi_ps,
    _mm512_unpacklo_ps,
};

use super::table::{level, tiles};
use super::{Tile, Tiles};
use crate::contraction::copy::Copies;
use crate::contraction::machine::{Machine, micro_tiles};
use crate::contraction::operand::load;
use crate::contraction::vector::Vector;
use even::{even_of_16, even_of_32, pairs_of_32, some_even_of_32};

/// A kind of vectors: a register type, and the intrinsics of its loads, stores and operation.
macro_rules! vectors {
    ($($name:ident, $register:ty as $pointer:ty, $number:ty, $lanes:literal: $zero:ident $load:ident $store:ident $splat:ident $add:ident
        [$mask:ty] $some:ident $load_some:ident $store_some:ident $gather:ident $even:ident [$($some_even:ident $pairs:ident)?] $transpose:ident $back:ident,
        |$sum:ident, $left:ident, $right:ident| $apply:expr;)*) => { $(
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name($register);

        impl Vector for $name {
            type Number = $number;
            type Mask = $mask;
            const LANES: usize = $lanes;
            const ADDS_FOUR: bool = true;

            #[inline(always)]
            unsafe fn zero() -> $name {
                // SAFETY: the caller promises that the processor has the features.
                $name(unsafe { $zero() })
            }

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
            unsafe fn mask(count: usize) -> $mask {
                // SAFETY: promised by the caller.
                unsafe { $some(count) }
            }

            #[inline(always)]
            unsafe fn load_some(address: *const $number, mask: $mask) -> $name {
                // SAFETY: promised by the caller; lanes that are not in the mask are not accessed.
                $name(unsafe { $load_some(address, mask) })
            }

            #[inline(always)]
            unsafe fn gather(address: *const $number, stride: i32, mask: $mask) -> $name {
                // SAFETY: as above.
                $name(unsafe { $gather(address, stride, mask) })
            }

            #[inline(always)]
            unsafe fn load_even(address: *const $number) -> $name {
                // SAFETY: promised by the caller.
                $name(unsafe { $even(address) })
            }

            $(#[inline(always)]
            unsafe fn load_some_even(address: *const $number, count: usize) -> $name {
                // SAFETY: promised by the caller.
                $name(unsafe { $some_even(address, count) })
            }

            #[inline(always)]
            unsafe fn load_pairs(address: *const $number, count: usize) -> [$name; 2] {
                // SAFETY: promised by the caller.
                let [first, second] = unsafe { $pairs(address, count) };
                [$name(first), $name(second)]
            })?

            #[inline(always)]
            unsafe fn transpose(address: *const $number, stride: isize) -> [$name; 4] {
                // SAFETY: promised by the caller.
                let [first, second, third, fourth] = unsafe { $transpose(address, stride) };
                [$name(first), $name(second), $name(third), $name(fourth)]
            }

            #[inline(always)]
            unsafe fn transpose_back(vectors: [$name; 4], address: *mut $number, stride: isize) {
                let [first, second, third, fourth] = vectors;
                // SAFETY: promised by the caller.
                unsafe { $back([first.0, second.0, third.0, fourth.0], address, stride) }
            }

            #[inline(always)]
            unsafe fn store_some(self, address: *mut $number, mask: $mask) {
                // SAFETY: as above.
                unsafe { $store_some(address, mask, self.0) }
            }

            #[inline(always)]
            unsafe fn splat(address: *const $number) -> $name {
                // SAFETY: promised by the caller.
                $name(unsafe { $splat(load(address)) })
            }

            #[inline(always)]
            unsafe fn apply(self, left: $name, right: $name) -> $name {
                let ($sum, $left, $right) = (self.0, left.0, right.0);
                // SAFETY: the caller promises that the processor has the features.
                $name(unsafe { $apply })
            }

            #[inline(always)]
            fn fetch_ahead(address: *const $number) {
                // SAFETY: the instruction accesses nothing, so that any address may be fetched. All processors of the target have it.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
            }

            #[inline(always)]
            #[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is accessed by the address")]
            fn hidden(mut address: *const $number) -> *const $number {
                // SAFETY: no instructions, which access nothing and leave the address, and what may be accessed by it, as it is.
                unsafe { core::arch::asm!("/* {0} */", inout(reg) address, options(pure, nomem, nostack, preserves_flags)) };
                address
            }

            #[inline(always)]
            unsafe fn add(self, other: $name) -> $name {
                // SAFETY: as above.
                $name(unsafe { $add(self.0, other.0) })
            }
        }
    )* };
}
vectors! {
    FmaF32x16, __m512 as f32, f32, 16: _mm512_setzero_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_add_ps
        [__mmask16] some_of_16 load_some_ps store_some_ps gather_ps_16 even_ps_16 [some_even_ps_16 pairs_ps_16] transpose_ps_16 back_ps_16,
        |sum, left, right| _mm512_fmadd_ps(left, right, sum);
    MulAddF32x16, __m512 as f32, f32, 16: _mm512_setzero_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_add_ps
        [__mmask16] some_of_16 load_some_ps store_some_ps gather_ps_16 even_ps_16 [some_even_ps_16 pairs_ps_16] transpose_ps_16 back_ps_16,
        |sum, left, right| _mm512_add_ps(sum, _mm512_mul_ps(left, right));
    MulAddI32x16, __m512i as __m512i, i32, 16: _mm512_setzero_si512 _mm512_loadu_si512 _mm512_storeu_si512 _mm512_set1_epi32 _mm512_add_epi32
        [__mmask16] some_of_16 load_some_epi32 store_some_epi32 gather_epi32_16 even_epi32_16 [some_even_epi32_16 pairs_epi32_16] transpose_epi32_16 back_epi32_16,
        |sum, left, right| _mm512_add_epi32(sum, _mm512_mullo_epi32(left, right));
    FmaF32x8, __m256 as f32, f32, 8: _mm256_setzero_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_add_ps
        [__m256i] some_of_8 _mm256_maskload_ps _mm256_maskstore_ps gather_ps_8 even_ps_8 [] transpose_ps_8 back_ps_8,
        |sum, left, right| _mm256_fmadd_ps(left, right, sum);
    MulAddF32x8, __m256 as f32, f32, 8: _mm256_setzero_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_add_ps
        [__m256i] some_of_8 _mm256_maskload_ps _mm256_maskstore_ps gather_ps_8 even_ps_8 [] transpose_ps_8 back_ps_8,
        |sum, left, right| _mm256_add_ps(sum, _mm256_mul_ps(left, right));
    MulAddI32x8, __m256i as __m256i, i32, 8: _mm256_setzero_si256 _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32 _mm256_add_epi32
        [__m256i] some_of_8 _mm256_maskload_epi32 _mm256_maskstore_epi32 gather_epi32_8 even_epi32_8 [] transpose_epi32_8 back_epi32_8,
        |sum, left, right| _mm256_add_epi32(sum, _mm256_mullo_epi32(left, right));
    DotI16x16, __m256i as __m256i, i32, 8: _mm256_setzero_si256 _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32 _mm256_add_epi32
        [__m256i] some_of_8 _mm256_maskload_epi32 _mm256_maskstore_epi32 gather_epi32_8 even_epi32_8 [] transpose_epi32_8 back_epi32_8,
        |sum, left, right| _mm256_add_epi32(sum, _mm256_madd_epi16(left, right));
}

/// The first lanes of sixteen.
///
/// Safety: none is needed.
#[inline(always)]
unsafe fn some_of_16(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as u16
}

/// The first lanes of eight, all bits of each.
///
/// Safety: the processor has AVX2.
#[inline(always)]
unsafe fn some_of_8(count: usize) -> __m256i {
    const LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: `count` is at most eight, so that eight numbers follow.
    unsafe { _mm256_loadu_si256(LANES.as_ptr().add(8 - count).cast()) }
}

/// Intrinsics of AVX-512 with the operands in the order of AVX2.
macro_rules! masked {
    ($($load:ident $store:ident: $register:ty, $number:ty, $from:ident $to:ident;)*) => { $(
        /// Safety: see [`Vector::load_some`].
        #[inline(always)]
        unsafe fn $load(address: *const $number, mask: __mmask16) -> $register {
            // SAFETY: promised by the caller.
            unsafe { $from(mask, address) }
        }

        /// Safety: see [`Vector::store_some`].
        #[inline(always)]
        unsafe fn $store(address: *mut $number, mask: __mmask16, numbers: $register) {
            // SAFETY: promised by the caller.
            unsafe { $to(address, mask, numbers) }
        }
    )* };
}
masked! {
    load_some_ps store_some_ps: __m512, f32, _mm512_maskz_loadu_ps _mm512_mask_storeu_ps;
    load_some_epi32 store_some_epi32: __m512i, i32, _mm512_maskz_loadu_epi32 _mm512_mask_storeu_epi32;
}

/// The loads of numbers at a distance from each other.
macro_rules! gathers {
    ($($name:ident: $number:ty, $register:ty, $mask:ty, |$address:ident, $indices:ident, $lanes:ident| $gather:expr,
        $first:ident $multiply:ident $splat:ident;)*) => { $(
        /// Safety: see [`Vector::gather`].
        #[inline(always)]
        unsafe fn $name($address: *const $number, stride: i32, $lanes: $mask) -> $register {
            // SAFETY: promised by the caller; lanes that are not in the mask are not accessed.
            unsafe {
                let $indices = $multiply($first(FIRST_INDICES.as_ptr().cast()), $splat(stride));
                $gather
            }
        }
    )* };
}

const FIRST_INDICES: [i32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

gathers! {
    gather_ps_16: f32, __m512, __mmask16, |address, indices, lanes|
        _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), lanes, indices, address),
        _mm512_loadu_si512 _mm512_mullo_epi32 _mm512_set1_epi32;
    gather_epi32_16: i32, __m512i, __mmask16, |address, indices, lanes|
        _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), lanes, indices, address),
        _mm512_loadu_si512 _mm512_mullo_epi32 _mm512_set1_epi32;
    gather_ps_8: f32, __m256, __m256i, |address, indices, lanes|
        _mm256_mask_i32gather_ps::<4>(_mm256_setzero_ps(), address, indices, _mm256_castsi256_ps(lanes)),
        _mm256_loadu_si256 _mm256_mullo_epi32 _mm256_set1_epi32;
    gather_epi32_8: i32, __m256i, __m256i, |address, indices, lanes|
        _mm256_mask_i32gather_epi32::<4>(_mm256_setzero_si256(), address, indices, lanes),
        _mm256_loadu_si256 _mm256_mullo_epi32 _mm256_set1_epi32;
}

/// Transposes sixteen numbers in each quarter of four vectors, or half.
macro_rules! quarters_transposed {
    ($vectors:expr, $low:ident $high:ident $shuffle:ident) => {{
        let [first, second, third, fourth] = $vectors;
        let (low, high) = ($low(first, second), $high(first, second));
        let (low_next, high_next) = ($low(third, fourth), $high(third, fourth));
        [
            $shuffle::<0x44>(low, low_next),
            $shuffle::<0xEE>(low, low_next),
            $shuffle::<0x44>(high, high_next),
            $shuffle::<0xEE>(high, high_next),
        ]
    }};
}

/// Four adjacent numbers of each row are loaded into the quarters of a vector, or its halves, of each fourth row into the same vector.
/// What is left to do are exchanges within quarters.
macro_rules! transposes {
    ($($even:ident [$($some_even:ident $of_some_even:ident $pairs:ident $of_pairs:ident)?] $name:ident $back:ident: $number:ty as $register:ty,
        $of_even:ident $load:ident $store:ident, $low:ident $high:ident $shuffle:ident,
        |$vector:ident| $cast:expr, $uncast:expr;)*) => { $(
        /// Safety: see [`Vector::load_even`].
        #[inline(always)]
        unsafe fn $even(address: *const $number) -> $register {
            // SAFETY: promised by the caller.
            unsafe {
                let $vector = $of_even(address.cast::<f32>());
                $cast
            }
        }

        $(/// Safety: see [`Vector::load_some_even`].
        #[inline(always)]
        unsafe fn $some_even(address: *const $number, count: usize) -> $register {
            // SAFETY: promised by the caller.
            unsafe {
                let $vector = $of_some_even(address.cast::<f32>(), count);
                $cast
            }
        }

        /// Safety: see [`Vector::load_pairs`].
        #[inline(always)]
        unsafe fn $pairs(address: *const $number, count: usize) -> [$register; 2] {
            // SAFETY: promised by the caller.
            unsafe {
                let [first, second] = $of_pairs(address.cast::<f32>(), count);
                [{ let $vector = first; $cast }, { let $vector = second; $cast }]
            }
        })?

        /// Safety: see [`Vector::transpose`].
        #[inline(always)]
        unsafe fn $name(address: *const $number, stride: isize) -> [$register; 4] {
            let address = address.cast::<f32>();
            // SAFETY: promised by the caller.
            unsafe {
                let rows = [
                    $load(address, stride),
                    $load(address.offset(stride), stride),
                    $load(address.offset(2 * stride), stride),
                    $load(address.offset(3 * stride), stride),
                ];
                let [first, second, third, fourth] = quarters_transposed!(rows, $low $high $shuffle);
                [
                    { let $vector = first; $cast },
                    { let $vector = second; $cast },
                    { let $vector = third; $cast },
                    { let $vector = fourth; $cast },
                ]
            }
        }

        /// Safety: see [`Vector::transpose_back`].
        #[inline(always)]
        unsafe fn $back(vectors: [$register; 4], address: *mut $number, stride: isize) {
            let (address, [first, second, third, fourth]) = (address.cast::<f32>(), vectors);
            // SAFETY: promised by the caller.
            unsafe {
                let columns = [
                    { let $vector = first; $uncast },
                    { let $vector = second; $uncast },
                    { let $vector = third; $uncast },
                    { let $vector = fourth; $uncast },
                ];
                let [first, second, third, fourth] = quarters_transposed!(columns, $low $high $shuffle);
                $store(first, address, stride);
                $store(second, address.offset(stride), stride);
                $store(third, address.offset(2 * stride), stride);
                $store(fourth, address.offset(3 * stride), stride);
            }
        }
    )* };
}
transposes! {
    even_ps_16 [some_even_ps_16 some_even_of_32 pairs_ps_16 pairs_of_32] transpose_ps_16 back_ps_16: f32 as __m512,
        even_of_32 quarters store_quarters,
        _mm512_unpacklo_ps _mm512_unpackhi_ps _mm512_shuffle_ps, |vector| vector, vector;
    even_epi32_16 [some_even_epi32_16 some_even_of_32 pairs_epi32_16 pairs_of_32] transpose_epi32_16 back_epi32_16: i32 as __m512i,
        even_of_32 quarters store_quarters,
        _mm512_unpacklo_ps _mm512_unpackhi_ps _mm512_shuffle_ps, |vector| _mm512_castps_si512(vector), _mm512_castsi512_ps(vector);
    even_ps_8 [] transpose_ps_8 back_ps_8: f32 as __m256,
        even_of_16 halves store_halves,
        _mm256_unpacklo_ps _mm256_unpackhi_ps _mm256_shuffle_ps, |vector| vector, vector;
    even_epi32_8 [] transpose_epi32_8 back_epi32_8: i32 as __m256i,
        even_of_16 halves store_halves,
        _mm256_unpacklo_ps _mm256_unpackhi_ps _mm256_shuffle_ps, |vector| _mm256_castps_si256(vector), _mm256_castsi256_ps(vector);
}

/// Loads four adjacent numbers of each fourth row.
///
/// Safety: the numbers are valid at their addresses; the processor has AVX-512.
#[inline(always)]
unsafe fn quarters(from: *const f32, stride: isize) -> __m512 {
    // SAFETY: promised by the caller.
    unsafe {
        let vector = _mm512_castps128_ps512(_mm_loadu_ps(from));
        let vector = _mm512_insertf32x4::<1>(vector, _mm_loadu_ps(from.offset(4 * stride)));
        let vector = _mm512_insertf32x4::<2>(vector, _mm_loadu_ps(from.offset(8 * stride)));
        _mm512_insertf32x4::<3>(vector, _mm_loadu_ps(from.offset(12 * stride)))
    }
}

/// Stores to where [`quarters`] loads from.
///
/// Safety: as for it.
#[inline(always)]
unsafe fn store_quarters(vector: __m512, to: *mut f32, stride: isize) {
    // SAFETY: promised by the caller.
    unsafe {
        _mm_storeu_ps(to, _mm512_castps512_ps128(vector));
        _mm_storeu_ps(to.offset(4 * stride), _mm512_extractf32x4_ps::<1>(vector));
        _mm_storeu_ps(to.offset(8 * stride), _mm512_extractf32x4_ps::<2>(vector));
        _mm_storeu_ps(to.offset(12 * stride), _mm512_extractf32x4_ps::<3>(vector));
    }
}

/// Stores to where [`halves`] loads from.
///
/// Safety: as for it.
#[inline(always)]
unsafe fn store_halves(vector: __m256, to: *mut f32, stride: isize) {
    // SAFETY: promised by the caller.
    unsafe {
        _mm_storeu_ps(to, _mm256_castps256_ps128(vector));
        _mm_storeu_ps(to.offset(4 * stride), _mm256_extractf128_ps::<1>(vector));
    }
}

/// The same for AVX2.
///
/// Safety: the numbers are valid at their addresses; the processor has AVX2.
#[inline(always)]
unsafe fn halves(from: *const f32, stride: isize) -> __m256 {
    // SAFETY: promised by the caller.
    unsafe {
        let vector = _mm256_castps128_ps256(_mm_loadu_ps(from));
        _mm256_insertf128_ps::<1>(vector, _mm_loadu_ps(from.offset(4 * stride)))
    }
}

level!(v4, super::FmaF32x16, 16, "avx512f,avx2");
level!(v3, super::FmaF32x8, 8, "avx2,fma");

/// The table of an operation, for AVX2.
macro_rules! tiles_v3 {
    ($number:ty: $v3:ident $narrow:ty) => {
        micro_tiles!(
            X86_64_V3,
            tiles! {
                $v3: $narrow as $number, Machine::X86_64_V3, v3
            }
        );
    };
}

/// The tables of an operation.
macro_rules! operations {
    ($($number:ty: $v4:ident $wide:ty, $v3:ident $narrow:ty;)*) => { $(
        micro_tiles!(X86_64_V4, tiles! {
            $v4: $wide as $number, Machine::X86_64_V4, v4
        });
        tiles_v3!($number: $v3 $narrow);
    )* };
}
operations! {
    f32: FMA_F32_V4 FmaF32x16, FMA_F32_V3 FmaF32x8;
    f32: MUL_ADD_F32_V4 MulAddF32x16, MUL_ADD_F32_V3 MulAddF32x8;
    i32: MUL_ADD_I32_V4 MulAddI32x16, MUL_ADD_I32_V3 MulAddI32x8;
}
tiles_v3!(i32: DOT_V3 DotI16x16);
