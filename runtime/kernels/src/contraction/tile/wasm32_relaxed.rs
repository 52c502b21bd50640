//! Tiles for the relaxed vector instructions of WebAssembly, in engines that multiply, add and round once by them: those on processors
//! with such an instruction.

use core::arch::wasm32::{f32x4_add, f32x4_relaxed_madd, f32x4_splat, v128, v128_load, v128_store};

use super::Tiles;
use super::table::tiles;
use super::wasm32::{
    LANES, MulAddF32x4, MulAddI32x4, even, load_some, operations, simd128, store_some, transposed, vectors,
};
use crate::contraction::copy::Copies;
use crate::contraction::machine::{Machine, micro_tiles};
use crate::contraction::operand::load;
use crate::contraction::vector::{Vector, memory};
use crate::proof::Simd128;

/// Numbers that are multiplied and added, rounded once in the engines of [`Level::RelaxedSimd`](crate::contraction::level::Level::RelaxedSimd).
#[derive(Clone, Copy, Debug)]
pub(super) struct RelaxedFmaF32x4(v128);

vectors! {
    RelaxedFmaF32x4, f32: |bits| RelaxedFmaF32x4(bits), |own| own.0, 0.0,
        |element| RelaxedFmaF32x4(f32x4_splat(element)),
        |sum, left, right| RelaxedFmaF32x4(f32x4_relaxed_madd(left.0, right.0, sum.0)),
        |first, second| RelaxedFmaF32x4(f32x4_add(first.0, second.0));
}

operations! {
    RELAXED_SIMD PORTABLE;
    fma_f32: RelaxedFmaF32x4, f32;
    mul_add_f32: MulAddF32x4, f32;
    mul_add_i32: MulAddI32x4, i32;
}
