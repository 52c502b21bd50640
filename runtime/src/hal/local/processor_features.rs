//! Processor features by the names that LLVM gives them, as `hal.device.query` asks for them.

use super::library::processor_data;

/// Names and their bits in word 0 of the processor data, from `iree/schemas/cpu_feature_bits.inl`.
#[cfg(target_arch = "x86_64")]
const FEATURES: &[(&str, u32)] = &[
    ("sse3", 0),
    ("ssse3", 1),
    ("sse4.1", 2),
    ("sse4.2", 3),
    ("sse4a", 4),
    ("avx", 10),
    ("fma", 11),
    ("fma4", 12),
    ("xop", 13),
    ("f16c", 14),
    ("avx2", 15),
    ("avx512f", 20),
    ("avx512cd", 21),
    ("avx512vl", 22),
    ("avx512dq", 23),
    ("avx512bw", 24),
    ("avx512ifma", 25),
    ("avx512vbmi", 26),
    ("avx512vpopcntdq", 27),
    ("avx512vnni", 28),
    ("avx512vbmi2", 29),
    ("avx512bitalg", 30),
    ("avx512bf16", 31),
    ("avx512fp16", 32),
    ("amx-tile", 50),
    ("amx-int8", 51),
    ("amx-bf16", 52),
];

#[cfg(target_arch = "aarch64")]
const FEATURES: &[(&str, u32)] = &[
    ("fp-armv8", 0),
    ("lse", 1),
    ("lse128", 2),
    ("fullfp16", 10),
    ("fp16fml", 11),
    ("dotprod", 12),
    ("i8mm", 13),
    ("bf16", 14),
    ("sve", 20),
    ("sve2", 21),
    ("sve2p1", 22),
    ("sve2-bitperm", 23),
    ("f32mm", 24),
    ("f64mm", 25),
    ("sme", 30),
    ("sme2", 31),
    ("sme2p1", 32),
    ("sme-f16f16", 33),
    ("sme-f64f64", 34),
    ("sme-i16i64", 35),
];

#[cfg(target_arch = "riscv64")]
const FEATURES: &[(&str, u32)] = &[
    ("v", 0),
    ("zvfhmin", 1),
    ("zvfh", 2),
    ("zvfbfwma", 3),
    ("xsmtvdot", 4),
    ("zvl256b", 5),
    ("zvl1024b", 6),
    ("zvl4096b", 7),
];

/// No features are known of other processors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const FEATURES: &[(&str, u32)] = &[];

/// Whether the host's processor has the feature of the given name; `None` for names that are not known.
pub(in crate::hal) fn has_feature(name: &str) -> Option<bool> {
    let (_, bit) = FEATURES.iter().find(|(known, _)| *known == name)?;
    Some(processor_data().first().is_some_and(|word| word >> bit & 1 == 1))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn answers_agree_with_the_standard_library() {
        assert_eq!(has_feature("avx2"), Some(std::arch::is_x86_feature_detected!("avx2")));
        assert_eq!(has_feature("sse4.1"), Some(std::arch::is_x86_feature_detected!("sse4.1")));
        assert_eq!(has_feature("avx512vnni"), Some(std::arch::is_x86_feature_detected!("avx512vnni")));
        assert_eq!(has_feature("neon"), None);
    }
}
