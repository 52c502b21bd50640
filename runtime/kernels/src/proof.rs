//! Proofs that this processor has a level.
//!
//! A proof is a value of no size. Only this module creates one: where the level was detected, or where the compiler was told that the
//! processor has it, for a function or for the whole program. Functions that need the level take the proof.

/// Defines proofs.
macro_rules! proofs {
    ($($(#[$doc:meta])* $name:ident $(, $features:literal)?;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// Returns the proof, in functions and programs that are compiled for the features: only processors with them run these.
            ///
            /// # Safety
            /// Elsewhere, the processor must have the features.
            $(#[target_feature(enable = $features)])?
            #[inline]
            #[must_use]
            pub const fn here() -> $name {
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
    pub(crate) const fn v3(self) -> V3 {
        V3(())
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
impl DotProduct {
    /// Returns the proof, if this processor has the instructions. Without `std`, only if the program is compiled for them.
    pub(crate) fn detected() -> Option<DotProduct> {
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

/// The proof for the level that the whole program is compiled for.
#[cfg(all(feature = "std", target_arch = "x86_64", target_feature = "avx2", target_feature = "fma"))]
pub type OfProgram = V3;
/// The proof for the level that the whole program is compiled for.
#[cfg(not(all(feature = "std", target_arch = "x86_64", target_feature = "avx2", target_feature = "fma")))]
pub type OfProgram = Portable;

/// Returns the proof for the level that the whole program is compiled for.
#[must_use]
pub const fn of_program() -> OfProgram {
    #[cfg(all(feature = "std", target_arch = "x86_64", target_feature = "avx2", target_feature = "fma"))]
    return V3(());
    #[cfg(not(all(feature = "std", target_arch = "x86_64", target_feature = "avx2", target_feature = "fma")))]
    Portable(())
}
