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

use super::Tiles;
use super::table::{level, tiles};
use crate::contraction::copy::Copies;
use crate::contraction::machine::{Machine, micro_tiles};
use crate::contraction::vector::{Vector, memory, registers};
use crate::proof::{V3, V4};
use even::{even_of_16, even_of_32, pairs_of_32, some_even_of_32};

/// A kind of vectors: a level, a register type, and the intrinsics of its loads, stores and operation. `of` and `numbers` convert a
/// vector of `f32` to the register type and back: what moves numbers without computing is the same for all types.
macro_rules! vectors {
    ($($name:ident, $level:ident, $register:ty as $pointer:ty, $number:ty, $lanes:literal:
        $zero:ident $load:ident $store:ident $splat:ident $add:ident
        [$mask:ty] $some:ident $gather:ident |$address:ident, $lanes_of_mask:ident, $stored:ident| $load_some:expr, $store_some:expr;
        $singles:ty |$vector:ident| $of:expr, $numbers:expr; $even:ident [$($some_even:ident $pairs:ident)?] $parts:ident $store_parts:ident $exchanged:ident,
        |$sum:ident, $left:ident, $right:ident| $apply:expr;)*) => { $(
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name($register);

        impl $name {
            registers! {
                fn of(_: $level, $vector: $singles) -> $name {
                    $name($of)
                }
                fn numbers(self) -> $singles {
                    let $vector = self.0;
                    $numbers
                }
            }
        }

        impl Vector for $name {
            type Number = $number;
            type Mask = $mask;
            type Level = $level;
            const LANES: usize = $lanes;
            const ADDS_FOUR: bool = true;

            registers! {
                fn zero(_: $level) -> $name {
                    $name($zero())
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
                fn mask(level: $level, count: usize) -> $mask {
                    $some(level, count)
                }
            }

            memory! {
                unsafe fn load(_: $level, address: *const $number) -> $name {
                    $name($load(address.cast::<$pointer>()))
                }
                unsafe fn store(self, address: *mut $number) {
                    $store(address.cast::<$pointer>(), self.0)
                }
                unsafe fn load_some(_: $level, $address: *const $number, $lanes_of_mask: $mask) -> $name {
                    $name($load_some)
                }
                unsafe fn store_some(self, $address: *mut $number, $lanes_of_mask: $mask) {
                    let $stored = self.0;
                    $store_some
                }
                unsafe fn gather(level: $level, address: *const $number, stride: i32, mask: $mask) -> $name {
                    $name($gather(level, address, stride, mask))
                }
                unsafe fn load_even(level: $level, address: *const $number) -> $name {
                    $name::of(level, $even(level, address.cast()))
                }
                $(unsafe fn load_some_even(level: $level, address: *const $number, count: usize) -> $name {
                    $name::of(level, $some_even(level, address.cast(), count))
                }
                unsafe fn load_pairs(level: $level, address: *const $number, count: usize) -> [$name; 2] {
                    let [first, second] = $pairs(level, address.cast(), count);
                    [$name::of(level, first), $name::of(level, second)]
                })?
                unsafe fn transpose(level: $level, address: *const $number, stride: isize) -> [$name; 4] {
                    let address = address.cast::<f32>();
                    let rows = [
                        $parts(level, address, stride),
                        $parts(level, address.offset(stride), stride),
                        $parts(level, address.offset(2 * stride), stride),
                        $parts(level, address.offset(3 * stride), stride),
                    ];
                    let [first, second, third, fourth] = $exchanged(level, rows);
                    [$name::of(level, first), $name::of(level, second), $name::of(level, third), $name::of(level, fourth)]
                }
                unsafe fn transpose_back(level: $level, vectors: [$name; 4], address: *mut $number, stride: isize) {
                    let (address, [first, second, third, fourth]) = (address.cast::<f32>(), vectors);
                    let columns = [first.numbers(), second.numbers(), third.numbers(), fourth.numbers()];
                    let [first, second, third, fourth] = $exchanged(level, columns);
                    $store_parts(level, first, address, stride);
                    $store_parts(level, second, address.offset(stride), stride);
                    $store_parts(level, third, address.offset(2 * stride), stride);
                    $store_parts(level, fourth, address.offset(3 * stride), stride);
                }
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
        }
    )* };
}
vectors! {
    FmaF32x16, V4, __m512 as f32, f32, 16: _mm512_setzero_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_add_ps
        [__mmask16] some_of_16 gather_ps_16 |address, lanes, vector| _mm512_maskz_loadu_ps(lanes, address), _mm512_mask_storeu_ps(address, lanes, vector);
        __m512 |vector| vector, vector; even_of_32 [some_even_of_32 pairs_of_32] quarters store_quarters exchanged_16,
        |sum, left, right| _mm512_fmadd_ps(left, right, sum);
    MulAddF32x16, V4, __m512 as f32, f32, 16: _mm512_setzero_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_add_ps
        [__mmask16] some_of_16 gather_ps_16 |address, lanes, vector| _mm512_maskz_loadu_ps(lanes, address), _mm512_mask_storeu_ps(address, lanes, vector);
        __m512 |vector| vector, vector; even_of_32 [some_even_of_32 pairs_of_32] quarters store_quarters exchanged_16,
        |sum, left, right| _mm512_add_ps(sum, _mm512_mul_ps(left, right));
    MulAddI32x16, V4, __m512i as __m512i, i32, 16: _mm512_setzero_si512 _mm512_loadu_si512 _mm512_storeu_si512 _mm512_set1_epi32 _mm512_add_epi32
        [__mmask16] some_of_16 gather_epi32_16 |address, lanes, vector| _mm512_maskz_loadu_epi32(lanes, address), _mm512_mask_storeu_epi32(address, lanes, vector);
        __m512 |vector| _mm512_castps_si512(vector), _mm512_castsi512_ps(vector); even_of_32 [some_even_of_32 pairs_of_32] quarters store_quarters exchanged_16,
        |sum, left, right| _mm512_add_epi32(sum, _mm512_mullo_epi32(left, right));
    FmaF32x8, V3, __m256 as f32, f32, 8: _mm256_setzero_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_add_ps
        [__m256i] some_of_8 gather_ps_8 |address, lanes, vector| _mm256_maskload_ps(address, lanes), _mm256_maskstore_ps(address, lanes, vector);
        __m256 |vector| vector, vector; even_of_16 [] halves store_halves exchanged_8,
        |sum, left, right| _mm256_fmadd_ps(left, right, sum);
    MulAddF32x8, V3, __m256 as f32, f32, 8: _mm256_setzero_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_add_ps
        [__m256i] some_of_8 gather_ps_8 |address, lanes, vector| _mm256_maskload_ps(address, lanes), _mm256_maskstore_ps(address, lanes, vector);
        __m256 |vector| vector, vector; even_of_16 [] halves store_halves exchanged_8,
        |sum, left, right| _mm256_add_ps(sum, _mm256_mul_ps(left, right));
    MulAddI32x8, V3, __m256i as __m256i, i32, 8: _mm256_setzero_si256 _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32 _mm256_add_epi32
        [__m256i] some_of_8 gather_epi32_8 |address, lanes, vector| _mm256_maskload_epi32(address, lanes), _mm256_maskstore_epi32(address, lanes, vector);
        __m256 |vector| _mm256_castps_si256(vector), _mm256_castsi256_ps(vector); even_of_16 [] halves store_halves exchanged_8,
        |sum, left, right| _mm256_add_epi32(sum, _mm256_mullo_epi32(left, right));
    DotI16x16, V3, __m256i as __m256i, i32, 8: _mm256_setzero_si256 _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32 _mm256_add_epi32
        [__m256i] some_of_8 gather_epi32_8 |address, lanes, vector| _mm256_maskload_epi32(address, lanes), _mm256_maskstore_epi32(address, lanes, vector);
        __m256 |vector| _mm256_castps_si256(vector), _mm256_castsi256_ps(vector); even_of_16 [] halves store_halves exchanged_8,
        |sum, left, right| _mm256_add_epi32(sum, _mm256_madd_epi16(left, right));
}

/// The first lanes of sixteen.
#[inline(always)]
fn some_of_16(_: V4, count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as u16
}

/// The first lanes of eight, all bits of each.
#[inline(always)]
fn some_of_8(_: V3, count: usize) -> __m256i {
    const LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: `V3` says that the processor has AVX2. At most eight of sixteen numbers are left out, so that eight follow.
    unsafe { _mm256_loadu_si256(LANES.as_ptr().add(8 - count.min(8)).cast()) }
}

/// The loads of numbers at a distance from each other.
macro_rules! gathers {
    ($($name:ident: $level:ident, $number:ty, $register:ty, $mask:ty, |$address:ident, $indices:ident, $lanes:ident| $gather:expr,
        $first:ident $multiply:ident $splat:ident;)*) => {
        memory! { $(
            unsafe fn $name(_: $level, $address: *const $number, stride: i32, $lanes: $mask) -> $register {
                let $indices = $multiply($first(FIRST_INDICES.as_ptr().cast()), $splat(stride));
                $gather
            }
        )* }
    };
}

const FIRST_INDICES: [i32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

gathers! {
    gather_ps_16: V4, f32, __m512, __mmask16, |address, indices, lanes|
        _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), lanes, indices, address),
        _mm512_loadu_si512 _mm512_mullo_epi32 _mm512_set1_epi32;
    gather_epi32_16: V4, i32, __m512i, __mmask16, |address, indices, lanes|
        _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), lanes, indices, address),
        _mm512_loadu_si512 _mm512_mullo_epi32 _mm512_set1_epi32;
    gather_ps_8: V3, f32, __m256, __m256i, |address, indices, lanes|
        _mm256_mask_i32gather_ps::<4>(_mm256_setzero_ps(), address, indices, _mm256_castsi256_ps(lanes)),
        _mm256_loadu_si256 _mm256_mullo_epi32 _mm256_set1_epi32;
    gather_epi32_8: V3, i32, __m256i, __m256i, |address, indices, lanes|
        _mm256_mask_i32gather_epi32::<4>(_mm256_setzero_si256(), address, indices, lanes),
        _mm256_loadu_si256 _mm256_mullo_epi32 _mm256_set1_epi32;
}

/// Transposes sixteen numbers in each quarter of four vectors, or half.
macro_rules! exchanges {
    ($($name:ident: $level:ident, $register:ty, $low:ident $high:ident $shuffle:ident;)*) => {
        registers! { $(
            fn $name(_: $level, [first, second, third, fourth]: [$register; 4]) -> [$register; 4] {
                let (low, high) = ($low(first, second), $high(first, second));
                let (low_next, high_next) = ($low(third, fourth), $high(third, fourth));
                [
                    $shuffle::<0x44>(low, low_next),
                    $shuffle::<0xEE>(low, low_next),
                    $shuffle::<0x44>(high, high_next),
                    $shuffle::<0xEE>(high, high_next),
                ]
            }
        )* }
    };
}
exchanges! {
    exchanged_16: V4, __m512, _mm512_unpacklo_ps _mm512_unpackhi_ps _mm512_shuffle_ps;
    exchanged_8: V3, __m256, _mm256_unpacklo_ps _mm256_unpackhi_ps _mm256_shuffle_ps;
}

// To transpose, four adjacent numbers of each row are loaded into the quarters of a vector, or its halves, of each fourth row into the same
// vector. What is left to do are exchanges within quarters.
memory! {
    /// Loads four adjacent numbers of each fourth row.
    unsafe fn quarters(_: V4, from: *const f32, stride: isize) -> __m512 {
        let vector = _mm512_castps128_ps512(_mm_loadu_ps(from));
        let vector = _mm512_insertf32x4::<1>(vector, _mm_loadu_ps(from.offset(4 * stride)));
        let vector = _mm512_insertf32x4::<2>(vector, _mm_loadu_ps(from.offset(8 * stride)));
        _mm512_insertf32x4::<3>(vector, _mm_loadu_ps(from.offset(12 * stride)))
    }

    /// Stores to where [`quarters`] loads from.
    unsafe fn store_quarters(_: V4, vector: __m512, to: *mut f32, stride: isize) {
        _mm_storeu_ps(to, _mm512_castps512_ps128(vector));
        _mm_storeu_ps(to.offset(4 * stride), _mm512_extractf32x4_ps::<1>(vector));
        _mm_storeu_ps(to.offset(8 * stride), _mm512_extractf32x4_ps::<2>(vector));
        _mm_storeu_ps(to.offset(12 * stride), _mm512_extractf32x4_ps::<3>(vector));
    }

    /// The same for AVX2.
    unsafe fn halves(_: V3, from: *const f32, stride: isize) -> __m256 {
        let vector = _mm256_castps128_ps256(_mm_loadu_ps(from));
        _mm256_insertf128_ps::<1>(vector, _mm_loadu_ps(from.offset(4 * stride)))
    }

    /// Stores to where [`halves`] loads from.
    unsafe fn store_halves(_: V3, vector: __m256, to: *mut f32, stride: isize) {
        _mm_storeu_ps(to, _mm256_castps256_ps128(vector));
        _mm_storeu_ps(to.offset(4 * stride), _mm256_extractf128_ps::<1>(vector));
    }
}

level!(v4, V4, super::FmaF32x16, 16, "avx512f,avx2,fma");
level!(v3, V3, super::FmaF32x8, 8, "avx2,fma");

/// The table of an operation, for AVX2.
macro_rules! tiles_v3 {
    ($number:ty: $v3:ident $narrow:ty) => {
        micro_tiles!(
            X86_64_V3,
            tiles! {
                $v3: $narrow as $number, Machine::X86_64_V3, v3 V3
            }
        );
    };
}

/// The tables of an operation.
macro_rules! operations {
    ($($number:ty: $v4:ident $wide:ty, $v3:ident $narrow:ty;)*) => { $(
        micro_tiles!(X86_64_V4, tiles! {
            $v4: $wide as $number, Machine::X86_64_V4, v4 V4
        });
        tiles_v3!($number: $v3 $narrow);
    )* };
}
operations! {
    f32: fma_f32_v4 FmaF32x16, fma_f32_v3 FmaF32x8;
    f32: mul_add_f32_v4 MulAddF32x16, mul_add_f32_v3 MulAddF32x8;
    i32: mul_add_i32_v4 MulAddI32x16, mul_add_i32_v3 MulAddI32x8;
}
tiles_v3!(i32: dot_v3 DotI16x16);
