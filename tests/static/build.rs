//! Links kernels into the program: those of a model that is translated here, and those of one that a macro translates.
#![allow(clippy::unwrap_used, reason = "a failure is one of the build")]

fn main() {
    // The objects are for this architecture.
    if std::env::var("CARGO_CFG_TARGET_ARCH").unwrap() != "x86_64"
        || std::env::var("CARGO_CFG_TARGET_OS").unwrap() != "linux"
    {
        return;
    }
    incarnate_translator::Config::new().static_library("kernels.o", &[]).compile("kernels.vmfb").unwrap();
    incarnate_translator::link_static_library("other.o").unwrap();
}
