//! What executables are told of the processor: feature bits in the layout of `iree/schemas/cpu_feature_bits.inl`.
//!
//! Zero means unknown or absent in every field, so an architecture or a system without an implementation reports zeros
//! and kernels take their portable path.

use std::sync::OnceLock;

use super::abi::PROCESSOR_DATA_CAPACITY;

/// The processor data of this host. Read once per process, for the instructions behind it can be slow in virtual
/// machines.
#[must_use]
pub fn processor_data() -> [u64; PROCESSOR_DATA_CAPACITY] {
    static DATA: OnceLock<[u64; PROCESSOR_DATA_CAPACITY]> = OnceLock::new();
    *DATA.get_or_init(|| {
        let mut data = [0; PROCESSOR_DATA_CAPACITY];
        data[0] = host::feature_bits();
        data
    })
}

/// Whether the host's processor has the feature of the name that LLVM gives it, as `hal.device.query` asks; `None` for names
/// that are not known.
pub(crate) fn has_feature(name: &str) -> Option<bool> {
    let bit = host::feature_bit(name)?;
    Some(processor_data()[0] >> bit & 1 == 1)
}

#[cfg(target_arch = "x86_64")]
mod host {
    use core::arch::x86_64::{__cpuid_count, CpuidResult};

    /// Register of a CPUID leaf: leaf, subleaf, and which of the four results.
    #[derive(Clone, Copy)]
    enum Source {
        Leaf1Ecx,
        Leaf7Ebx,
        Leaf7Ecx,
        Leaf7Edx,
        Leaf7Subleaf1Eax,
        ExtendedLeaf1Ecx,
    }

    /// Bits of XCR0 as leaf 13 reports them: states that a feature needs the operating system to save.
    const NO_STATE: u32 = 0;
    const YMM_STATE: u32 = 0x7;
    const ZMM_STATE: u32 = 0xE7;
    const TILE_STATE: u32 = 0x6_0000;

    /// (LLVM's name, bit of data word 0, where CPUID reports it, bit there, states needed), by data bit.
    const FEATURES: [(&str, u32, Source, u32, u32); 27] = [
        ("sse3", 0, Source::Leaf1Ecx, 0, NO_STATE),
        ("ssse3", 1, Source::Leaf1Ecx, 9, NO_STATE),
        ("sse4.1", 2, Source::Leaf1Ecx, 19, NO_STATE),
        ("sse4.2", 3, Source::Leaf1Ecx, 20, NO_STATE),
        ("sse4a", 4, Source::ExtendedLeaf1Ecx, 6, NO_STATE),
        ("avx", 10, Source::Leaf1Ecx, 28, YMM_STATE),
        ("fma", 11, Source::Leaf1Ecx, 12, YMM_STATE),
        ("fma4", 12, Source::ExtendedLeaf1Ecx, 16, YMM_STATE),
        ("xop", 13, Source::ExtendedLeaf1Ecx, 11, YMM_STATE),
        ("f16c", 14, Source::Leaf1Ecx, 29, YMM_STATE),
        ("avx2", 15, Source::Leaf7Ebx, 5, YMM_STATE),
        ("avx512f", 20, Source::Leaf7Ebx, 16, ZMM_STATE),
        ("avx512cd", 21, Source::Leaf7Ebx, 28, ZMM_STATE),
        ("avx512vl", 22, Source::Leaf7Ebx, 31, ZMM_STATE),
        ("avx512dq", 23, Source::Leaf7Ebx, 17, ZMM_STATE),
        ("avx512bw", 24, Source::Leaf7Ebx, 30, ZMM_STATE),
        ("avx512ifma", 25, Source::Leaf7Ebx, 21, ZMM_STATE),
        ("avx512vbmi", 26, Source::Leaf7Ecx, 1, ZMM_STATE),
        ("avx512vpopcntdq", 27, Source::Leaf7Ecx, 14, ZMM_STATE),
        ("avx512vnni", 28, Source::Leaf7Ecx, 11, ZMM_STATE),
        ("avx512vbmi2", 29, Source::Leaf7Ecx, 6, ZMM_STATE),
        ("avx512bitalg", 30, Source::Leaf7Ecx, 12, ZMM_STATE),
        ("avx512bf16", 31, Source::Leaf7Subleaf1Eax, 5, ZMM_STATE),
        ("avx512fp16", 32, Source::Leaf7Edx, 23, ZMM_STATE),
        ("amx-tile", 50, Source::Leaf7Edx, 24, TILE_STATE),
        ("amx-int8", 51, Source::Leaf7Edx, 25, TILE_STATE),
        ("amx-bf16", 52, Source::Leaf7Edx, 22, TILE_STATE),
    ];

    /// CPUID, or zeros where the processor does not have the leaf.
    fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
        #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
        // SAFETY: every x86-64 processor has the instruction.
        let query = |leaf, subleaf| unsafe { __cpuid_count(leaf, subleaf) };
        let absent = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
        let largest_leaf = query(leaf & 0x8000_0000, 0).eax;
        if leaf > largest_leaf || (subleaf > 0 && subleaf > query(leaf, 0).eax) {
            return absent;
        }
        query(leaf, subleaf)
    }

    pub(super) fn feature_bits() -> u64 {
        let (leaf1, leaf7, leaf7_1) = (cpuid(1, 0), cpuid(7, 0), cpuid(7, 1));
        let (states, extended1) = (cpuid(0xD, 0).eax, cpuid(0x8000_0001, 0));
        FEATURES.iter().fold(0, |bits, &(_, data_bit, source, bit, needed)| {
            let word = match source {
                Source::Leaf1Ecx => leaf1.ecx,
                Source::Leaf7Ebx => leaf7.ebx,
                Source::Leaf7Ecx => leaf7.ecx,
                Source::Leaf7Edx => leaf7.edx,
                Source::Leaf7Subleaf1Eax => leaf7_1.eax,
                Source::ExtendedLeaf1Ecx => extended1.ecx,
            };
            let present = word >> bit & 1 == 1 && states & needed == needed;
            bits | u64::from(present) << data_bit
        })
    }

    pub(super) fn feature_bit(name: &str) -> Option<u32> {
        FEATURES.iter().find(|row| row.0 == name).map(|row| row.1)
    }
}

#[cfg(all(target_arch = "aarch64", any(target_os = "linux", target_os = "android")))]
mod host {
    /// (LLVM's name, bit of data word 0, bit of AT_HWCAP), after the kernel's list of arm64 hardware capabilities.
    const HWCAP: [(&str, u32, u32); 6] = [
        ("fp-armv8", 0, 0),
        ("lse", 1, 8),
        ("fullfp16", 10, 10),
        ("fp16fml", 11, 23),
        ("dotprod", 12, 20),
        ("sve", 20, 22),
    ];

    /// (LLVM's name, bit of data word 0, bit of AT_HWCAP2).
    const HWCAP2: [(&str, u32, u32); 14] = [
        ("lse128", 2, 47),
        ("i8mm", 13, 13),
        ("bf16", 14, 14),
        ("sve2", 21, 1),
        ("sve2p1", 22, 36),
        ("sve2-bitperm", 23, 4),
        ("f32mm", 24, 10),
        ("f64mm", 25, 11),
        ("sme", 30, 23),
        ("sme2", 31, 37),
        ("sme2p1", 32, 38),
        ("sme-f16f16", 33, 42),
        ("sme-f64f64", 34, 25),
        ("sme-i16i64", 35, 24),
    ];

    pub(super) fn feature_bits() -> u64 {
        // SAFETY: getauxval has no precondition; it returns zero for an entry that the kernel does not provide.
        let (hwcap, hwcap2) = unsafe { (libc::getauxval(libc::AT_HWCAP), libc::getauxval(libc::AT_HWCAP2)) };
        let gather = |bits: u64, word: u64, table: &[(&str, u32, u32)]| {
            table.iter().fold(bits, |bits, &(_, data_bit, bit)| bits | (word >> bit & 1) << data_bit)
        };
        gather(gather(0, hwcap, &HWCAP), hwcap2, &HWCAP2)
    }

    pub(super) fn feature_bit(name: &str) -> Option<u32> {
        HWCAP.iter().chain(&HWCAP2).find(|row| row.0 == name).map(|row| row.1)
    }
}

#[cfg(all(target_arch = "aarch64", not(any(target_os = "linux", target_os = "android"))))]
mod host {
    use std::arch::is_aarch64_feature_detected as detected;

    /// (LLVM's name, bit of data word 0, whether the host has it).
    fn features() -> [(&'static str, u32, bool); 7] {
        [
            ("fp-armv8", 0, detected!("fp")),
            ("lse", 1, detected!("lse")),
            ("fullfp16", 10, detected!("fp16")),
            ("fp16fml", 11, detected!("fhm")),
            ("dotprod", 12, detected!("dotprod")),
            ("i8mm", 13, detected!("i8mm")),
            ("bf16", 14, detected!("bf16")),
        ]
    }

    pub(super) fn feature_bits() -> u64 {
        features().iter().fold(0, |bits, &(_, bit, present)| bits | u64::from(present) << bit)
    }

    pub(super) fn feature_bit(name: &str) -> Option<u32> {
        features().iter().find(|row| row.0 == name).map(|row| row.1)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod host {
    /// (LLVM's name, bit of data word 0): names that programs ask for; whether the host has them is not known.
    const FEATURES: &[(&str, u32)] = if cfg!(target_arch = "riscv64") {
        &[
            ("v", 0),
            ("zvfhmin", 1),
            ("zvfh", 2),
            ("zvfbfwma", 3),
            ("xsmtvdot", 4),
            ("zvl256b", 5),
            ("zvl1024b", 6),
            ("zvl4096b", 7),
        ]
    } else {
        &[]
    };

    pub(super) fn feature_bits() -> u64 {
        0
    }

    pub(super) fn feature_bit(name: &str) -> Option<u32> {
        FEATURES.iter().find(|row| row.0 == name).map(|row| row.1)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        for (name, present) in [
            ("sse3", is_x86_feature_detected!("sse3")),
            ("ssse3", is_x86_feature_detected!("ssse3")),
            ("sse4.1", is_x86_feature_detected!("sse4.1")),
            ("sse4.2", is_x86_feature_detected!("sse4.2")),
            ("sse4a", is_x86_feature_detected!("sse4a")),
            ("avx", is_x86_feature_detected!("avx")),
            ("fma", is_x86_feature_detected!("fma")),
            ("f16c", is_x86_feature_detected!("f16c")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512cd", is_x86_feature_detected!("avx512cd")),
            ("avx512vl", is_x86_feature_detected!("avx512vl")),
            ("avx512dq", is_x86_feature_detected!("avx512dq")),
            ("avx512bw", is_x86_feature_detected!("avx512bw")),
            ("avx512ifma", is_x86_feature_detected!("avx512ifma")),
            ("avx512vbmi", is_x86_feature_detected!("avx512vbmi")),
            ("avx512vpopcntdq", is_x86_feature_detected!("avx512vpopcntdq")),
            ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
            ("avx512vbmi2", is_x86_feature_detected!("avx512vbmi2")),
            ("avx512bitalg", is_x86_feature_detected!("avx512bitalg")),
            ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ] {
            assert_eq!(has_feature(name), Some(present), "{name}");
        }
        assert_eq!(has_feature("neon"), None);
    }
}
