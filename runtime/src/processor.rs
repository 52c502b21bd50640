//! Function multiversioning: code that is compiled for several sets of target features. The program selects the best variant
//! that the processor supports at run time.
//!
//! Programs are compiled for the baseline of their target by default. [`multiversioned`] compiles further variants of code that
//! consists of inlined functions and closures. All variants compute the same results, bit for bit: those of `vm::semantics`.

pub use crate::vm::kernels::products::IntegerProducts;
pub use crate::vm::kernels::proof::of_program;
pub use incarnate_bytecode::target_features::{X86_64_V2, X86_64_V3, X86_64_V4};

/// The number of 32-bit elements in a strip: two of the widest vector registers, so that four rows fit into all registers.
pub const LANES: usize = if cfg!(target_feature = "avx512f") {
    32
} else if cfg!(any(target_feature = "avx", not(any(target_arch = "x86", target_arch = "x86_64")))) {
    16
} else {
    8
};

/// Code that can be multiversioned.
pub trait Multiversion {
    /// The result.
    type Output;
    /// Runs the code. `LANES` is [`LANES`] for the variant's target features, and `products` multiplies integers with them.
    ///
    /// The implementation, and every function that it calls and that is to be multiversioned, must be `#[inline(always)]`.
    fn run<const LANES: usize>(self, products: impl IntegerProducts) -> Self::Output;
}

/// Runs the best variant of the code that this processor supports, among those for `TARGET_FEATURES` and the program's own
/// target.
///
/// The code is compiled once for each variant, so it should be the hot part only.
#[inline(always)]
pub fn multiversioned<const TARGET_FEATURES: u8, C: Multiversion>(code: C) -> C::Output {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    return x86_64::multiversioned::<TARGET_FEATURES, C>(code);
    #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
    code.run::<LANES>(of_program())
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod x86_64 {
    use incarnate_bytecode::target_features::of_processor;

    use super::{LANES, Multiversion, X86_64_V2, X86_64_V3, X86_64_V4, of_program};
    use crate::vm::kernels::proof::V3;

    /// The levels that the whole program is compiled for.
    const PROGRAM: u8 = {
        let v2 = cfg!(all(target_feature = "sse4.2", target_feature = "popcnt"));
        let v3 = v2 && cfg!(all(target_feature = "avx2", target_feature = "fma", target_feature = "bmi2"));
        let v4 = v3
            && cfg!(all(
                target_feature = "avx512f",
                target_feature = "avx512bw",
                target_feature = "avx512cd",
                target_feature = "avx512dq",
                target_feature = "avx512vl"
            ));
        (if v2 { X86_64_V2 } else { 0 }) | (if v3 { X86_64_V3 } else { 0 }) | (if v4 { X86_64_V4 } else { 0 })
    };

    /// Whether a level has a variant: it is requested, and the program is not compiled for it.
    const fn has(wanted: u8, level: u8) -> bool {
        wanted & level != 0 && level > PROGRAM
    }

    #[inline(always)]
    pub(super) fn multiversioned<const TARGET_FEATURES: u8, C: Multiversion>(code: C) -> C::Output {
        if const { !has(TARGET_FEATURES, X86_64_V2) && !has(TARGET_FEATURES, X86_64_V3) && !has(TARGET_FEATURES, X86_64_V4) }
        {
            return code.run::<LANES>(of_program());
        }
        let levels = of_processor();
        #[cfg(avx512)]
        if const { has(TARGET_FEATURES, X86_64_V4) } && levels & X86_64_V4 != 0 {
            // SAFETY: `of_processor` found the processor to have all features of the level.
            return unsafe { v4(code) };
        }
        if const { has(TARGET_FEATURES, X86_64_V3) } && levels & X86_64_V3 != 0 {
            // SAFETY: as above.
            return unsafe { v3(code) };
        }
        if const { has(TARGET_FEATURES, X86_64_V2) } && levels & X86_64_V2 != 0 {
            // SAFETY: as above.
            return unsafe { v2(code) };
        }
        code.run::<LANES>(of_program())
    }

    #[target_feature(enable = "popcnt,sse3,ssse3,sse4.1,sse4.2")]
    fn v2<C: Multiversion>(code: C) -> C::Output {
        code.run::<8>(of_program())
    }

    #[target_feature(enable = "popcnt,sse3,ssse3,sse4.1,sse4.2,avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe")]
    fn v3<C: Multiversion>(code: C) -> C::Output {
        code.run::<16>(V3::here())
    }

    #[cfg(avx512)]
    #[target_feature(
        enable = "popcnt,sse3,ssse3,sse4.1,sse4.2,avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
    )]
    fn v4<C: Multiversion>(code: C) -> C::Output {
        code.run::<32>(V3::here())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u32]);

    impl Multiversion for Sum<'_> {
        type Output = (u32, usize);

        #[inline(always)]
        fn run<const LANES: usize>(self, _: impl IntegerProducts) -> (u32, usize) {
            (self.0.iter().sum(), LANES)
        }
    }

    #[test]
    fn the_best_variant_is_selected() {
        let numbers: [u32; 100] = core::array::from_fn(|index| index as u32);
        assert_eq!(multiversioned::<0, _>(Sum(&numbers)), (4950, LANES));
        let all = multiversioned::<{ X86_64_V2 | X86_64_V3 | X86_64_V4 }, _>(Sum(&numbers));
        let each = [
            multiversioned::<X86_64_V2, _>(Sum(&numbers)),
            multiversioned::<X86_64_V3, _>(Sum(&numbers)),
            multiversioned::<X86_64_V4, _>(Sum(&numbers)),
        ];
        assert!(each.iter().all(|result| result.0 == 4950), "{each:?}");
        assert_eq!(Some(&all), each.iter().max());
    }
}
