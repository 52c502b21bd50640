//! Code in versions for levels of processors: the best that the processor has is picked when the program runs.
//!
//! Programs are compiled for the least processor of their target unless they say otherwise. [`versions`] makes further versions
//! of code that consists of functions and closures which are always inlined. What the versions compute is the same, bit for
//! bit: what the compiler may use differs, not what it has to compute; whether `fma` rounds once is decided by the features
//! that the whole program is compiled for (`vm::semantics`), hence the same in all versions, and in the interpreter.

/// x86-64-v2: SSE4.2.
pub const X86_64_V2: u8 = 1;
/// x86-64-v3: AVX2.
pub const X86_64_V3: u8 = 1 << 1;
/// x86-64-v4: AVX-512. Compilers before Rust 1.89 make none.
pub const X86_64_V4: u8 = 1 << 2;

/// How many elements of 32 bits loops hold side by side: two of the widest registers that the program is compiled for, so that
/// four rows of them fit into all registers.
pub const LANES: usize = if cfg!(target_feature = "avx512f") {
    32
} else if cfg!(any(target_feature = "avx", not(any(target_arch = "x86", target_arch = "x86_64")))) {
    16
} else {
    8
};

/// Code that can be compiled in versions.
pub trait Code {
    /// What it gives.
    type Output;
    /// Runs it. `LANES` is [`LANES`] for the version's processor.
    ///
    /// This, and all that it calls and that is to be in versions, has to be `#[inline(always)]`.
    fn run<const LANES: usize>(self) -> Self::Output;
}

/// Runs code, in the best version for this processor among those of some levels and that of the program's own target.
///
/// The code is compiled as often: it should be what takes the time.
#[inline(always)]
pub fn versions<const LEVELS: u8, C: Code>(code: C) -> C::Output {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    return x86_64::versions::<LEVELS, C>(code);
    #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
    code.run::<LANES>()
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod x86_64 {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::{Code, LANES, X86_64_V2, X86_64_V3, X86_64_V4};

    /// Levels that the whole program is compiled for.
    const OWN: u8 = {
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

    /// Set where the processor's levels are known.
    const KNOWN: u8 = 1 << 7;

    static LEVELS_OF_PROCESSOR: AtomicU8 = AtomicU8::new(0);

    /// The levels that the processor has.
    #[inline]
    fn levels() -> u8 {
        match LEVELS_OF_PROCESSOR.load(Ordering::Relaxed) {
            0 => detect(),
            levels => levels,
        }
    }

    #[cold]
    fn detect() -> u8 {
        macro_rules! all {
            ($($feature:tt)*) => { true $(&& std::arch::is_x86_feature_detected!($feature))* };
        }
        let v2 = all!("popcnt" "sse3" "ssse3" "sse4.1" "sse4.2");
        let v3 = v2 && all!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe");
        let v4 = v3 && all!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
        let level = |has: bool, level: u8| if has { level } else { 0 };
        let levels = KNOWN | level(v2, X86_64_V2) | level(v3, X86_64_V3) | level(v4, X86_64_V4);
        LEVELS_OF_PROCESSOR.store(levels, Ordering::Relaxed);
        levels
    }

    /// Whether there is a version for a level: it is asked for, and the program itself is not compiled for it.
    const fn has(wanted: u8, level: u8) -> bool {
        wanted & level != 0 && OWN & level == 0
    }

    #[inline(always)]
    pub(super) fn versions<const LEVELS: u8, C: Code>(code: C) -> C::Output {
        if const { !has(LEVELS, X86_64_V2) && !has(LEVELS, X86_64_V3) && !has(LEVELS, X86_64_V4) } {
            return code.run::<LANES>();
        }
        let levels = levels();
        #[cfg(avx512)]
        if const { has(LEVELS, X86_64_V4) } && levels & X86_64_V4 != 0 {
            // SAFETY: `detect` found the processor to have all features of the level.
            return unsafe { v4(code) };
        }
        if const { has(LEVELS, X86_64_V3) } && levels & X86_64_V3 != 0 {
            // SAFETY: as above.
            return unsafe { v3(code) };
        }
        if const { has(LEVELS, X86_64_V2) } && levels & X86_64_V2 != 0 {
            // SAFETY: as above.
            return unsafe { v2(code) };
        }
        code.run::<LANES>()
    }

    #[target_feature(enable = "popcnt,sse3,ssse3,sse4.1,sse4.2")]
    fn v2<C: Code>(code: C) -> C::Output {
        code.run::<8>()
    }

    #[target_feature(enable = "popcnt,sse3,ssse3,sse4.1,sse4.2,avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe")]
    fn v3<C: Code>(code: C) -> C::Output {
        code.run::<16>()
    }

    #[cfg(avx512)]
    #[target_feature(
        enable = "popcnt,sse3,ssse3,sse4.1,sse4.2,avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
    )]
    fn v4<C: Code>(code: C) -> C::Output {
        code.run::<32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u32], &'a mut usize);

    impl Code for Sum<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<const LANES: usize>(self) -> u32 {
            *self.1 += LANES;
            self.0.iter().sum()
        }
    }

    #[test]
    fn versions_run_once_and_give_the_result() {
        let numbers: [u32; 100] = core::array::from_fn(|index| index as u32);
        let mut lanes = 0;
        assert_eq!(versions::<0, _>(Sum(&numbers, &mut lanes)), 4950);
        assert_eq!(lanes, LANES);
        let mut run = |code: fn(Sum<'_>) -> u32| {
            lanes = 0;
            assert_eq!(code(Sum(&numbers, &mut lanes)), 4950);
            assert!([LANES, 8, 16, 32].contains(&lanes), "{lanes}");
            lanes
        };
        let each = [
            run(versions::<X86_64_V2, _>),
            run(versions::<X86_64_V3, _>),
            run(versions::<X86_64_V4, _>),
            run(versions::<{ X86_64_V2 | X86_64_V3 | X86_64_V4 }, _>),
        ];
        assert_eq!(each.iter().max(), each.last(), "the best version is picked");
    }
}
