//! Links kernels into the program: those of a model that is translated here, and those of one that a macro translates.
#![allow(clippy::unwrap_used, reason = "a failure is one of the build")]

fn main() {
    // The end of the files' names.
    let suffix = match std::env::var("CARGO_CFG_TARGET_ARCH").unwrap().as_str() {
        "x86_64" => "",
        "aarch64" => "_arm_64",
        _ => return,
    };
    if std::env::var("CARGO_CFG_TARGET_OS").unwrap() != "linux" {
        return;
    }
    incarnate_translator::Config::new()
        .module_name("kernels")
        .static_library(format!("kernels{suffix}.o"), &[])
        .compile(format!("kernels{suffix}.vmfb"))
        .unwrap();
    incarnate_translator::link_static_library(format!("other{suffix}.o")).unwrap();
}
