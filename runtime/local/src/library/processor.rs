//! Processor data of executables: feature bits in the layout of `iree/schemas/cpu_feature_bits.inl`.
//!
//! Zero means unknown or absent in every field, so an architecture or a system without an implementation reports zeros
//! and kernels take their portable path.
//!
//! The same table says which features of a [target](ExecutableTarget) this processor lacks, so that its machine code is refused
//! instead of ending the process by an illegal instruction.

use std::sync::OnceLock;

use super::abi::PROCESSOR_DATA_CAPACITY;
use crate::bytecode::ExecutableTarget;

/// A feature of the processor.
struct Feature {
    /// LLVM's name.
    name: &'static str,
    /// Bit of the first word of the processor data; `None` for a feature that executables and programs cannot query.
    bit: Option<u32>,
    /// Whether this processor has the feature and the operating system supports it.
    present: bool,
}

/// Returns the known features. They are detected once per process, because virtual machines intercept CPUID.
fn features() -> &'static [Feature] {
    static FEATURES: OnceLock<Vec<Feature>> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let mut features = Vec::new();
        host::add_queried(&mut features);
        host::add_unqueried(&mut features);
        features
    })
}

/// Adds a feature. A call for each row of the tables is less code than arrays of rows, which are made on the stack and copied.
#[inline(never)]
fn add(features: &mut Vec<Feature>, name: &'static str, bit: Option<u32>, present: bool) {
    features.push(Feature { name, bit, present });
}

/// Returns the processor data of this host.
#[must_use]
pub fn processor_data() -> [u64; PROCESSOR_DATA_CAPACITY] {
    let mut data = [0; PROCESSOR_DATA_CAPACITY];
    let bit = |feature: &Feature| feature.bit.filter(|_| feature.present).map_or(0, |bit| 1 << bit);
    data[0] = features().iter().fold(0, |bits, feature| bits | bit(feature));
    data
}

/// Returns whether the processor has the feature with LLVM's `name`, for `hal.device.query`; `None` for unknown names.
#[must_use]
pub fn has_feature(name: &str) -> Option<bool> {
    features().iter().find(|feature| feature.name == name && feature.bit.is_some()).map(|feature| feature.present)
}

/// Returns the features that machine code for `target` uses and this processor lacks.
///
/// Features without a row in the table are not detected, and those of [`host::UNCERTAIN`] are not required.
pub(crate) fn missing_features(target: &ExecutableTarget<'_>) -> Vec<&'static str> {
    let lacks = |feature: &&Feature| !feature.present && !host::UNCERTAIN.contains(&feature.name);
    features().iter().filter(lacks).map(|feature| feature.name).filter(|name| target.uses(name)).collect()
}

/// Adds features that the standard library detects: LLVM's name, the bit if there is one, the standard library's name if it differs.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! detected {
    ($features:ident, $detected:ident: $($name:tt $bit:literal $(= $std:tt)?),* $(,)?) => {
        $(add($features, $name, Some($bit), detected!(@ $detected $name $($std)?));)*
    };
    ($features:ident, $detected:ident: $($name:tt $(= $std:tt)?),* $(,)?) => {
        $(add($features, $name, None, detected!(@ $detected $name $($std)?));)*
    };
    (@ $detected:ident $name:tt) => { std::arch::$detected!($name) };
    (@ $detected:ident $name:tt $std:tt) => { std::arch::$detected!($std) };
}

#[cfg(target_arch = "x86_64")]
mod host {
    use core::arch::x86_64::{__cpuid_count, CpuidResult};

    use super::{Feature, add};

    /// Bits of XCR0 for the state of AMX's tiles, as leaf 13 reports them.
    const TILE_STATE: u32 = 0x6_0000;
    /// The bit of XCR0 for the further registers of APX.
    const APX_STATE: u32 = 1 << 19;

    /// Features that no machine code is refused for. Only intrinsics make code for tiles, and Linux grants them to processes that
    /// ask, which the compiler's code does not.
    pub(super) const UNCERTAIN: &[&str] = &["amx-tile", "amx-int8", "amx-bf16"];

    /// Returns CPUID's answer, or zeros if the processor does not have the leaf.
    fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
        #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
        // SAFETY: every x86-64 processor has the instruction.
        let query = |leaf, subleaf| unsafe { __cpuid_count(leaf, subleaf) };
        if leaf > query(leaf & 0x8000_0000, 0).eax {
            return CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
        }
        query(leaf, subleaf)
    }

    /// Adds the features that the compiler uses without a query.
    pub(super) fn add_unqueried(features: &mut Vec<Feature>) {
        detected!(features, is_x86_feature_detected:
            "popcnt", "lzcnt", "bmi" = "bmi1", "bmi2", "tbm", "movbe", "adx", "aes", "pclmul" = "pclmulqdq", "sha", "gfni",
            "vaes", "vpclmulqdq", "cx16" = "cmpxchg16b",
        );
        // The standard library of the oldest supported Rust does not detect these.
        let (leaf7, subleaf1) = (cpuid(7, 0), cpuid(7, 1));
        let states = cpuid(0xD, 0).eax;
        let avx = std::arch::is_x86_feature_detected!("avx");
        let avx512 = std::arch::is_x86_feature_detected!("avx512f");
        let apx = states & APX_STATE != 0 && subleaf1.edx >> 21 & 1 == 1;
        let mut row = |name, word: u32, at: u32, state: bool| add(features, name, None, state && word >> at & 1 == 1);
        row("avx512vp2intersect", leaf7.edx, 8, avx512);
        row("avxvnni", subleaf1.eax, 4, avx);
        row("avxifma", subleaf1.eax, 23, avx);
        row("avxvnniint8", subleaf1.edx, 4, avx);
        row("avxneconvert", subleaf1.edx, 5, avx);
        row("avxvnniint16", subleaf1.edx, 10, avx);
        row("avx10.1", subleaf1.edx, 19, avx512);
        for name in ["egpr", "push2pop2", "ppx", "ndd", "ccmp", "nf", "cf", "zu"] {
            add(features, name, None, apx);
        }
    }

    /// Adds the features that executables and programs can query.
    pub(super) fn add_queried(features: &mut Vec<Feature>) {
        detected!(features, is_x86_feature_detected:
            "sse3" 0, "ssse3" 1, "sse4.1" 2, "sse4.2" 3, "sse4a" 4, "avx" 10, "fma" 11, "f16c" 14, "avx2" 15,
            "avx512f" 20, "avx512cd" 21, "avx512vl" 22, "avx512dq" 23, "avx512bw" 24, "avx512ifma" 25,
            "avx512vbmi" 26, "avx512vpopcntdq" 27, "avx512vnni" 28, "avx512vbmi2" 29, "avx512bitalg" 30,
            "avx512bf16" 31,
        );
        // The standard library of the oldest supported Rust does not detect these.
        let (leaf7, extended1) = (cpuid(7, 0).edx, cpuid(0x8000_0001, 0).ecx);
        let avx = std::arch::is_x86_feature_detected!("avx");
        let avx512 = std::arch::is_x86_feature_detected!("avx512f");
        let tiles = cpuid(0xD, 0).eax & TILE_STATE == TILE_STATE;
        let mut row =
            |name, bit, word: u32, at: u32, state: bool| add(features, name, Some(bit), state && word >> at & 1 == 1);
        row("fma4", 12, extended1, 16, avx);
        row("xop", 13, extended1, 11, avx);
        row("avx512fp16", 32, leaf7, 23, avx512);
        row("amx-tile", 50, leaf7, 24, tiles);
        row("amx-int8", 51, leaf7, 25, tiles);
        row("amx-bf16", 52, leaf7, 22, tiles);
    }
}

#[cfg(target_arch = "aarch64")]
mod host {
    use super::{Feature, add};

    /// Features that no machine code is refused for: only Linux says whether the processor has them.
    pub(super) const UNCERTAIN: &[&str] = if cfg!(any(target_os = "linux", target_os = "android")) {
        &[]
    } else {
        &["lse128", "sve2p1", "sme", "sme2", "sme2p1", "sme-f16f16", "sme-f64f64", "sme-i16i64"]
    };

    /// Adds the features that the compiler uses without a query.
    pub(super) fn add_unqueried(features: &mut Vec<Feature>) {
        detected!(features, is_aarch64_feature_detected:
            "aes", "sha2", "sha3", "sm4", "crc", "rdm", "jsconv", "complxnum" = "fcma", "rcpc", "bti", "pauth" = "paca",
        );
    }

    /// Adds the features that executables and programs can query.
    pub(super) fn add_queried(features: &mut Vec<Feature>) {
        detected!(features, is_aarch64_feature_detected:
            "fp-armv8" 0 = "fp", "lse" 1, "fullfp16" 10 = "fp16", "fp16fml" 11 = "fhm", "dotprod" 12, "i8mm" 13,
            "bf16" 14, "sve" 20, "sve2" 21, "sve2-bitperm" 23, "f32mm" 24, "f64mm" 25,
        );
        for (name, bit, present) in undetected() {
            add(features, name, Some(bit), present);
        }
    }

    /// The key of the list of features among the kernel's auxiliary values.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const AT_HWCAP2: u64 = 26;

    /// Returns the features that the standard library of the oldest supported Rust does not detect, by their bits of
    /// AT_HWCAP2 in the kernel's list of arm64 hardware capabilities.
    fn undetected() -> impl Iterator<Item = (&'static str, u32, bool)> {
        const HWCAP2: [(&str, u32, u32); 8] = [
            ("lse128", 2, 47),
            ("sve2p1", 22, 36),
            ("sme", 30, 23),
            ("sme2", 31, 37),
            ("sme2p1", 32, 38),
            ("sme-f16f16", 33, 42),
            ("sme-f64f64", 34, 25),
            ("sme-i16i64", 35, 24),
        ];
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let hwcap2 = auxiliary(AT_HWCAP2);
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let hwcap2 = 0u64;
        HWCAP2.into_iter().map(move |(name, bit, at)| (name, bit, hwcap2 >> at & 1 == 1))
    }

    /// Returns an entry of the process's auxiliary vector, pairs of a key and a value; 0 where there is none.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn auxiliary(key: u64) -> u64 {
        let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let mut entries = vector.chunks_exact(16).map(|entry| (number(&entry[..8]), number(&entry[8..])));
        entries.find(|entry| entry.0 == key).map_or(0, |entry| entry.1)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod host {
    use super::{Feature, add};

    /// The names that programs may query, by bit.
    const NAMES: &[&str] = if cfg!(target_arch = "riscv64") {
        &["v", "zvfhmin", "zvfh", "zvfbfwma", "xsmtvdot", "zvl256b", "zvl1024b", "zvl4096b"]
    } else {
        &[]
    };

    /// Features that no machine code is refused for: none is detected.
    pub(super) const UNCERTAIN: &[&str] = NAMES;

    /// Adds the names that programs may query, all reported as absent.
    pub(super) fn add_queried(features: &mut Vec<Feature>) {
        for (name, bit) in NAMES.iter().zip(0..) {
            add(features, name, Some(bit), false);
        }
    }

    /// Adds no feature.
    pub(super) fn add_unqueried(_: &mut Vec<Feature>) {}
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_kernel() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags")).unwrap();
        let flags: Vec<&str> = flags.split_whitespace().collect();
        // The kernel's names that differ from LLVM's.
        const NAMES: [(&str, &str); 19] = [
            ("bmi", "bmi1"),
            ("lzcnt", "abm"),
            ("pclmul", "pclmulqdq"),
            ("sha", "sha_ni"),
            ("avxvnni", "avx_vnni"),
            ("avxifma", "avx_ifma"),
            ("avxvnniint8", "avx_vnni_int8"),
            ("avxvnniint16", "avx_vnni_int16"),
            ("avxneconvert", "avx_ne_convert"),
            ("sse3", "pni"),
            ("avx512vbmi2", "avx512_vbmi2"),
            ("avx512vnni", "avx512_vnni"),
            ("avx512bitalg", "avx512_bitalg"),
            ("avx512vpopcntdq", "avx512_vpopcntdq"),
            ("avx512bf16", "avx512_bf16"),
            ("avx512fp16", "avx512_fp16"),
            ("avx512vp2intersect", "avx512_vp2intersect"),
            ("sse4.1", "sse4_1"),
            ("sse4.2", "sse4_2"),
        ];
        assert_eq!(features().iter().filter(|feature| feature.bit.is_some()).count(), 27);
        for feature in features() {
            let renamed = NAMES.iter().find(|names| names.0 == feature.name).map(|names| names.1.to_owned());
            let flag = renamed.unwrap_or_else(|| feature.name.replace('-', "_"));
            // The kernel has one flag for all of APX, and no flag for AVX10.1.
            let is_flag = ["avx", "bmi"].iter().any(|prefix| feature.name.starts_with(prefix));
            if feature.bit.is_some() || is_flag && feature.name != "avx10.1" {
                assert_eq!(feature.present, flags.contains(&flag.as_str()), "{flag}");
            }
            if let Some(bit) = feature.bit {
                assert_eq!(has_feature(feature.name), Some(feature.present), "{flag}");
                assert_eq!(processor_data()[0] >> bit & 1 == 1, feature.present, "{flag}");
            }
        }
        assert_eq!((has_feature("neon"), has_feature("bmi2")), (None, None));
    }

    #[test]
    fn missing_features_are_those_that_the_target_uses() {
        let target =
            |features| ExecutableTarget { backend: "llvm-cpu", format: "embedded-elf-x86_64", cpu: "", features };
        assert!(missing_features(&target("+sse3,+reserve-x18,+amx-tile")).is_empty());
        // No processor has both FMA4 and APX.
        let missing = missing_features(&target("+sse3,+fma4,+egpr,+xop,-xop"));
        assert!(!missing.is_empty() && missing.iter().all(|name| ["fma4", "egpr"].contains(name)), "{missing:?}");
    }
}
