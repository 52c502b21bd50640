//! Levels of processors that there are tiles for, and which of them this one is.

use super::machine::Machine;
use crate::proof::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::proof::Simd128;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use crate::proof::{DotProduct, Neon};
#[cfg(all(feature = "std", target_arch = "x86_64"))]
use crate::proof::{V3, V4};

/// A level of processors that there are tiles for, with the proof that this processor is of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Portable(Portable),
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    X86_64V3(V3),
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    X86_64V4(V4),
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon(Neon),
    /// That of the tiles for groups of bytes. It is never the best level, but beside it.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    DotProduct(DotProduct),
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128(Simd128),
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    RelaxedSimd(Simd128),
}

impl Level {
    /// The level of all processors.
    pub(super) const PORTABLE: Level = Level::Portable(Portable::here());

    /// The best level of this processor whose vectors have at most so many lanes.
    pub(super) fn best(lanes: usize) -> Level {
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        {
            if lanes >= Machine::X86_64_V4.lanes
                && let Some(v4) = V4::detected()
            {
                return Level::X86_64V4(v4);
            }
            if lanes >= Machine::X86_64_V3.lanes
                && let Some(v3) = V3::detected()
            {
                return Level::X86_64V3(v3);
            }
        }
        #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
        if lanes >= Machine::NEON.lanes {
            return Level::Neon(Neon::here());
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
        if lanes >= Machine::RELAXED_SIMD.lanes && is_fused() {
            return Level::RelaxedSimd(Simd128::here());
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        if lanes >= Machine::SIMD128.lanes {
            return Level::Simd128(Simd128::here());
        }
        let _ = lanes;
        Level::PORTABLE
    }

    /// The best level of this processor that is no better than the machine's.
    pub(super) fn at_most(machine: &Machine) -> Level {
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        if *machine == Machine::SIMD128 {
            return Level::Simd128(Simd128::here());
        }
        if *machine == Machine::PORTABLE { Level::PORTABLE } else { Level::best(machine.lanes) }
    }
}

/// Returns true if the engine's relaxed instruction rounds a product and a sum once. The specification has every engine choose once for
/// all programs and operands, and it never changes how it rounds.
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
fn is_fused() -> bool {
    use core::arch::wasm32::{f32x4_extract_lane, f32x4_relaxed_madd, f32x4_splat};
    use core::hint::black_box;

    // The square is 1 + 2^-11 + 2^-24, of which the last term is lost if it is rounded.
    let (factor, sum) = (black_box(1.0 + f32::EPSILON * 2048.0), black_box(-1.0 - f32::EPSILON * 4096.0));
    let result = f32x4_relaxed_madd(f32x4_splat(factor), f32x4_splat(factor), f32x4_splat(sum));
    f32x4_extract_lane::<0>(result) != 0.0
}
