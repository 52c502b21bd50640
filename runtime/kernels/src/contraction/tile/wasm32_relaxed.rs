//! Tiles for the relaxed vector instructions of WebAssembly, in engines that multiply, add and round once by them: those on processors
//! with such an instruction. An engine never changes how it rounds, so that [`is_fused`] can ask it.

use core::arch::wasm32::{f32x4_add, f32x4_extract_lane, f32x4_relaxed_madd, f32x4_splat, v128, v128_load, v128_store};
use core::hint::black_box;

use super::wasm32::{
    LANES, MulAddF32x4, MulAddI32x4, across, even, gather, load_some, operations, scatter, store_some, tile,
    transposed, transposing, vectors,
};
use super::{Machine, Tiles, Vector, tiles};
use crate::contraction::copy::Copies;
use crate::contraction::load;

/// Numbers that are multiplied and added, rounded once in an engine that [`is_fused`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RelaxedFmaF32x4(v128);

vectors! {
    RelaxedFmaF32x4, f32: |bits| RelaxedFmaF32x4(bits), |own| own.0, 0.0,
        |element| RelaxedFmaF32x4(f32x4_splat(element)),
        |sum, left, right| RelaxedFmaF32x4(f32x4_relaxed_madd(left.0, right.0, sum.0)),
        |first, second| RelaxedFmaF32x4(f32x4_add(first.0, second.0));
}

/// Returns true if the engine's relaxed instruction rounds a product and a sum once. The specification has every engine choose once for
/// all programs and operands.
pub(in super::super) fn is_fused() -> bool {
    // The square is 1 + 2^-11 + 2^-24, of which the last term is lost if it is rounded.
    let (factor, sum) = (black_box(1.0 + f32::EPSILON * 2048.0), black_box(-1.0 - f32::EPSILON * 4096.0));
    let result = f32x4_relaxed_madd(f32x4_splat(factor), f32x4_splat(factor), f32x4_splat(sum));
    f32x4_extract_lane::<0>(result) != 0.0
}

operations! {
    Machine::RELAXED_SIMD;
    FMA_F32: RelaxedFmaF32x4, f32, [1: 8 4 2 1; 2: 4 2 1;];
    MUL_ADD_F32: MulAddF32x4, f32, [1: 8 4 2 1; 2: 4 2 1;];
    MUL_ADD_I32: MulAddI32x4, i32, [1: 8 4 2 1; 2: 4 2 1;];
}
