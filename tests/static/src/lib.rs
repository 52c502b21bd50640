//! Models whose kernels are linked into the program.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![deny(unsafe_code)]

/// Translated and linked by the build script.
pub mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

#[cfg(target_arch = "x86_64")]
incarnate::include_module!(other = "other.vmfb", static_library = "square_dispatch_0_library_query");
#[cfg(target_arch = "aarch64")]
incarnate::include_module!(other = "other_arm_64.vmfb", static_library = "square_dispatch_0_library_query");
