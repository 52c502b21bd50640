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

/// Runs code, in the best version for this processor among those of some levels and that of the program's own target.
///
/// The code is compiled as often: it should be what takes the time. It, and all that it calls and that is to be in versions,
/// has to be `#[inline(always)]`.
#[inline(always)]
pub fn versions<const LEVELS: u8, R>(code: impl FnOnce() -> R) -> R {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    return x86_64::versions::<LEVELS, R>(code);
    #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
    code()
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod x86_64 {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::{X86_64_V2, X86_64_V3, X86_64_V4};

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
    pub(super) fn versions<const LEVELS: u8, R>(code: impl FnOnce() -> R) -> R {
        if const { !has(LEVELS, X86_64_V2) && !has(LEVELS, X86_64_V3) && !has(LEVELS, X86_64_V4) } {
            return code();
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
        code()
    }

    #[target_feature(enable = "popcnt,sse3,ssse3,sse4.1,sse4.2")]
    fn v2<R>(code: impl FnOnce() -> R) -> R {
        code()
    }

    #[target_feature(enable = "popcnt,sse3,ssse3,sse4.1,sse4.2,avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe")]
    fn v3<R>(code: impl FnOnce() -> R) -> R {
        code()
    }

    #[cfg(avx512)]
    #[target_feature(
        enable = "popcnt,sse3,ssse3,sse4.1,sse4.2,avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
    )]
    fn v4<R>(code: impl FnOnce() -> R) -> R {
        code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_run_once_and_give_the_result() {
        fn sum<const LEVELS: u8>(numbers: &[u32], count: &mut u32) -> u32 {
            versions::<LEVELS, _>(
                #[inline(always)]
                || {
                    *count += 1;
                    numbers.iter().sum()
                },
            )
        }
        let numbers: [u32; 100] = core::array::from_fn(|index| index as u32);
        let mut count = 0;
        let sums = [
            sum::<0>(&numbers, &mut count),
            sum::<X86_64_V2>(&numbers, &mut count),
            sum::<X86_64_V3>(&numbers, &mut count),
            sum::<X86_64_V4>(&numbers, &mut count),
            sum::<{ X86_64_V2 | X86_64_V3 | X86_64_V4 }>(&numbers, &mut count),
        ];
        assert_eq!((sums, count), ([4950; 5], 5));
    }
}
