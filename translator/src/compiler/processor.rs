//! What the compiler knows of this machine's processor when it compiles for `host`.

use std::fs;

/// The fields of `/proc/cpuinfo` from which LLVM derives the name of a processor and its features, on x86, 64-bit ARM, RISC-V,
/// POWER and Z.
const FIELDS: [&str; 15] = [
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "Features",
    "isa",
    "uarch",
    "mvendorid",
    "cpu",
    "machine",
    "features",
];

/// Returns a text that is equal on processors of one kind with the same features.
pub fn identity() -> String {
    let of_linux = fs::read_to_string("/proc/cpuinfo").map(|text| fields(&text)).unwrap_or_default();
    let of_windows = ["PROCESSOR_IDENTIFIER", "PROCESSOR_REVISION"].map(|name| std::env::var(name).unwrap_or_default());
    [&of_linux, &of_windows.join(" "), &detected(), &of_macos()].map(|text| text.trim().to_owned()).join("\n")
}

/// Returns the different values of each of [`FIELDS`]: a machine may have processors of several kinds.
fn fields(cpuinfo: &str) -> String {
    let rows = cpuinfo.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.trim(), value.trim()));
    let mut found: Vec<String> =
        rows.filter(|(name, _)| FIELDS.contains(name)).map(|(name, value)| format!("{name}: {value}")).collect();
    found.sort();
    found.dedup();
    found.join("\n")
}

/// Returns the features that the standard library detects, which no system's file has to list.
fn detected() -> String {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    macro_rules! list {
        ($detect:ident: $($feature:tt)*) => {
            [$(($feature, std::arch::$detect!($feature))),*].iter().filter(|row| row.1).map(|row| row.0).collect()
        };
    }
    #[cfg(target_arch = "x86_64")]
    let features: Vec<&str> = list!(is_x86_feature_detected:
        "sse4.1" "sse4.2" "popcnt" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "avx512f" "avx512bw" "avx512cd" "avx512dq"
        "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16" "avx512vbmi" "avx512vbmi2" "avx512bitalg" "avx512vpopcntdq" "avxvnni"
        "gfni" "vaes" "vpclmulqdq" "aes" "sha");
    #[cfg(target_arch = "aarch64")]
    let features: Vec<&str> = list!(is_aarch64_feature_detected:
        "neon" "dotprod" "fp16" "fhm" "i8mm" "bf16" "sve" "sve2" "lse" "lse2" "rdm" "crc" "aes" "sha2" "sha3" "fcma" "jsconv" "rcpc");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let features: Vec<&str> = Vec::new();
    features.join(" ")
}

/// Returns the name of an Apple processor.
fn of_macos() -> String {
    if !cfg!(target_os = "macos") {
        return String::new();
    }
    let name = std::process::Command::new("/usr/sbin/sysctl").args(["-n", "machdep.cpu.brand_string"]).output();
    name.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_differ_by_features_and_not_by_clock() {
        let of = |name: &str, flags: &str, clock: &str| {
            let one = |number| {
                format!(
                    "processor\t: {number}\nvendor_id\t: X\nmodel\t\t: {name}\ncpu MHz\t\t: {clock}\nflags\t\t: {flags}\n\n"
                )
            };
            fields(&(one(0) + &one(1)))
        };
        assert_eq!(of("1", "sse avx", "100"), of("1", "sse avx", "200"));
        assert_ne!(of("1", "sse avx", "100"), of("1", "sse", "100"));
        assert_ne!(of("1", "sse", "100"), of("2", "sse", "100"));
        assert_eq!(of("1", "sse", "100"), "flags: sse\nmodel: 1\nvendor_id: X");
        // The kinds of cores of one ARM processor.
        assert_eq!(fields("CPU part : 0xd05\n\nCPU part : 0xd0b\n"), "CPU part: 0xd05\nCPU part: 0xd0b");
    }
}
