//! Models whose kernels are linked into the program.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![deny(unsafe_code)]

/// Translated and linked by the build script.
pub mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

incarnate::include_module!(other = "other.vmfb", static_library = "square_dispatch_0_library_query");
