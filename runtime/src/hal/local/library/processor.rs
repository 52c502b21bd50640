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

    /// (bit of data word 0, where CPUID reports it, bit there, states needed), by data bit.
    const FEATURES: [(u32, Source, u32, u32); 27] = [
        (0, Source::Leaf1Ecx, 0, NO_STATE),            // SSE3
        (1, Source::Leaf1Ecx, 9, NO_STATE),            // SSSE3
        (2, Source::Leaf1Ecx, 19, NO_STATE),           // SSE4.1
        (3, Source::Leaf1Ecx, 20, NO_STATE),           // SSE4.2
        (4, Source::ExtendedLeaf1Ecx, 6, NO_STATE),    // SSE4a
        (10, Source::Leaf1Ecx, 28, YMM_STATE),         // AVX
        (11, Source::Leaf1Ecx, 12, YMM_STATE),         // FMA
        (12, Source::ExtendedLeaf1Ecx, 16, YMM_STATE), // FMA4
        (13, Source::ExtendedLeaf1Ecx, 11, YMM_STATE), // XOP
        (14, Source::Leaf1Ecx, 29, YMM_STATE),         // F16C
        (15, Source::Leaf7Ebx, 5, YMM_STATE),          // AVX2
        (20, Source::Leaf7Ebx, 16, ZMM_STATE),         // AVX-512 F
        (21, Source::Leaf7Ebx, 28, ZMM_STATE),         // AVX-512 CD
        (22, Source::Leaf7Ebx, 31, ZMM_STATE),         // AVX-512 VL
        (23, Source::Leaf7Ebx, 17, ZMM_STATE),         // AVX-512 DQ
        (24, Source::Leaf7Ebx, 30, ZMM_STATE),         // AVX-512 BW
        (25, Source::Leaf7Ebx, 21, ZMM_STATE),         // AVX-512 IFMA
        (26, Source::Leaf7Ecx, 1, ZMM_STATE),          // AVX-512 VBMI
        (27, Source::Leaf7Ecx, 14, ZMM_STATE),         // AVX-512 VPOPCNTDQ
        (28, Source::Leaf7Ecx, 11, ZMM_STATE),         // AVX-512 VNNI
        (29, Source::Leaf7Ecx, 6, ZMM_STATE),          // AVX-512 VBMI2
        (30, Source::Leaf7Ecx, 12, ZMM_STATE),         // AVX-512 BITALG
        (31, Source::Leaf7Subleaf1Eax, 5, ZMM_STATE),  // AVX-512 BF16
        (32, Source::Leaf7Edx, 23, ZMM_STATE),         // AVX-512 FP16
        (50, Source::Leaf7Edx, 24, TILE_STATE),        // AMX tile
        (51, Source::Leaf7Edx, 25, TILE_STATE),        // AMX int8
        (52, Source::Leaf7Edx, 22, TILE_STATE),        // AMX bf16
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
        FEATURES.iter().fold(0, |bits, &(data_bit, source, bit, needed)| {
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
}

#[cfg(all(target_arch = "aarch64", any(target_os = "linux", target_os = "android")))]
mod host {
    /// (bit of data word 0, bit of AT_HWCAP), after the kernel's list of arm64 hardware capabilities.
    const HWCAP: [(u32, u32); 6] = [
        (0, 0),   // floating point
        (1, 8),   // LSE atomics
        (10, 10), // half-precision arithmetic
        (11, 23), // half-precision multiply to single
        (12, 20), // dot product
        (20, 22), // SVE
    ];

    /// (bit of data word 0, bit of AT_HWCAP2).
    const HWCAP2: [(u32, u32); 13] = [
        (13, 13), // int8 matrix multiply
        (14, 14), // bfloat16
        (21, 1),  // SVE2
        (22, 36), // SVE2.1
        (23, 4),  // SVE2 bit permute
        (24, 10), // SVE f32 matrix multiply
        (25, 11), // SVE f64 matrix multiply
        (30, 23), // SME
        (31, 37), // SME2
        (32, 38), // SME2.1
        (33, 42), // SME f16
        (34, 25), // SME f64
        (35, 24), // SME i16 to i64
    ];

    pub(super) fn feature_bits() -> u64 {
        // SAFETY: getauxval has no precondition; it returns zero for an entry that the kernel does not provide.
        let (hwcap, hwcap2) = unsafe { (libc::getauxval(libc::AT_HWCAP), libc::getauxval(libc::AT_HWCAP2)) };
        let gather = |bits: u64, word: u64, table: &[(u32, u32)]| {
            table.iter().fold(bits, |bits, &(data_bit, bit)| bits | (word >> bit & 1) << data_bit)
        };
        gather(gather(0, hwcap, &HWCAP), hwcap2, &HWCAP2)
    }
}

#[cfg(all(target_arch = "aarch64", not(any(target_os = "linux", target_os = "android"))))]
mod host {
    use std::arch::is_aarch64_feature_detected as detected;

    pub(super) fn feature_bits() -> u64 {
        [
            (0, detected!("fp")),
            (1, detected!("lse")),
            (10, detected!("fp16")),
            (11, detected!("fhm")),
            (12, detected!("dotprod")),
            (13, detected!("i8mm")),
            (14, detected!("bf16")),
        ]
        .iter()
        .fold(0, |bits, &(bit, present)| bits | u64::from(present) << bit)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod host {
    pub(super) fn feature_bits() -> u64 {
        0
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        let bits = processor_data()[0];
        for (bit, present) in [
            (0, is_x86_feature_detected!("sse3")),
            (1, is_x86_feature_detected!("ssse3")),
            (2, is_x86_feature_detected!("sse4.1")),
            (3, is_x86_feature_detected!("sse4.2")),
            (4, is_x86_feature_detected!("sse4a")),
            (10, is_x86_feature_detected!("avx")),
            (11, is_x86_feature_detected!("fma")),
            (14, is_x86_feature_detected!("f16c")),
            (15, is_x86_feature_detected!("avx2")),
            (20, is_x86_feature_detected!("avx512f")),
            (21, is_x86_feature_detected!("avx512cd")),
            (22, is_x86_feature_detected!("avx512vl")),
            (23, is_x86_feature_detected!("avx512dq")),
            (24, is_x86_feature_detected!("avx512bw")),
            (25, is_x86_feature_detected!("avx512ifma")),
            (26, is_x86_feature_detected!("avx512vbmi")),
            (27, is_x86_feature_detected!("avx512vpopcntdq")),
            (28, is_x86_feature_detected!("avx512vnni")),
            (29, is_x86_feature_detected!("avx512vbmi2")),
            (30, is_x86_feature_detected!("avx512bitalg")),
            (31, is_x86_feature_detected!("avx512bf16")),
        ] {
            assert_eq!(bits >> bit & 1 == 1, present, "bit {bit} of {bits:#x}");
        }
    }
}
