//! The target-feature levels that translated kernels are compiled for, as bits of a set.

/// x86-64-v2: SSE4.2.
pub const X86_64_V2: u8 = 1;
/// x86-64-v3: AVX2.
pub const X86_64_V3: u8 = 1 << 1;
/// x86-64-v4: AVX-512. Rust compilers before 1.89 emit no variant for it.
pub const X86_64_V4: u8 = 1 << 2;
