//! Levels of processors, which of them this one is, and proofs that the processor has a level.
//!
//! A proof is a value of no size. Only this module creates one: where the level was detected, or where the compiler was told that the
//! processor has it, for a function or for the whole program. Functions that need the level take the proof.

use super::machine::Machine;

/// Defines proofs.
macro_rules! proofs {
    ($($(#[$doc:meta])* $name:ident $(, $features:literal)?;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(());

        impl $name {
            /// Returns the proof, in functions and programs that are compiled for the features: only processors with them run these.
            $(#[target_feature(enable = $features)])?
            #[inline]
            pub(crate) fn here() -> $name {
                $name(())
            }
        }
    )* };
}

proofs! {
    /// Any processor.
    Portable;
}
#[cfg(all(feature = "std", target_arch = "x86_64"))]
proofs! {
    /// A processor of x86-64-v3, with AVX2 and FMA.
    V3, "avx2,fma";
    /// A processor of x86-64-v4, with AVX-512.
    V4, "avx512f,avx2,fma";
}
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
proofs! {
    /// A processor with NEON: the program is compiled for it.
    Neon;
    /// A processor with the instructions for products of bytes.
    DotProduct, "dotprod";
}
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
proofs! {
    /// An engine with vectors: the program is compiled for them.
    Simd128;
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
impl V3 {
    /// Returns the proof, if this processor is of x86-64-v3.
    pub(crate) fn detected() -> Option<V3> {
        use incarnate_bytecode::target_features::{X86_64_V3, of_processor};

        (of_processor() & X86_64_V3 != 0).then_some(V3(()))
    }
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
impl V4 {
    /// Returns the proof, if this processor is of x86-64-v4.
    pub(crate) fn detected() -> Option<V4> {
        use incarnate_bytecode::target_features::{X86_64_V4, of_processor};

        (of_processor() & X86_64_V4 != 0).then_some(V4(()))
    }

    /// Returns the proof of x86-64-v3, which x86-64-v4 contains.
    pub(super) const fn v3(self) -> V3 {
        V3(())
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
impl DotProduct {
    /// Returns the proof, if this processor has the instructions. Without `std`, only if the program is compiled for them.
    pub(super) fn detected() -> Option<DotProduct> {
        #[cfg(feature = "std")]
        let has_instructions = std::arch::is_aarch64_feature_detected!("dotprod");
        #[cfg(not(feature = "std"))]
        let has_instructions = cfg!(target_feature = "dotprod");
        has_instructions.then_some(DotProduct(()))
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
impl From<DotProduct> for Neon {
    fn from(_: DotProduct) -> Neon {
        Neon::here()
    }
}

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
    pub(super) const PORTABLE: Level = Level::Portable(Portable(()));

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
