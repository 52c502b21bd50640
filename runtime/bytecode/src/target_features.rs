//! The target-feature levels that kernels are compiled for, as bits of a set. This module alone says which features a level has, and
//! which levels the processor supports.

/// x86-64-v2: SSE4.2.
pub const X86_64_V2: u8 = 1;
/// x86-64-v3: AVX2.
pub const X86_64_V3: u8 = 1 << 1;
/// x86-64-v4: AVX-512. Rust compilers before 1.89 emit no variant for it.
pub const X86_64_V4: u8 = 1 << 2;

/// Returns the levels that this processor supports: none on other architectures, and without the feature `std`.
#[inline]
#[must_use]
pub fn of_processor() -> u8 {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    return x86_64::of_processor();
    #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
    0
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod x86_64 {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::{X86_64_V2, X86_64_V3, X86_64_V4};

    /// The bit that says that the levels have been detected.
    const KNOWN: u8 = 1 << 7;

    static LEVELS: AtomicU8 = AtomicU8::new(0);

    #[inline]
    pub(super) fn of_processor() -> u8 {
        match LEVELS.load(Ordering::Relaxed) {
            0 => detect(),
            known => known & !KNOWN,
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
        let levels = level(v2, X86_64_V2) | level(v3, X86_64_V3) | level(v4, X86_64_V4);
        LEVELS.store(KNOWN | levels, Ordering::Relaxed);
        levels
    }
}
