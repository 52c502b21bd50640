//! Finds out whether the compiler knows AVX-512 as a feature of functions, which it does since Rust 1.89.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(avx512)");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(output) = Command::new(compiler).arg("--version").output() else { return };
    // `rustc 1.89.0 (..)`; what is not understood is taken for old.
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().nth(1).into_iter().flat_map(|version| version.split('.'));
    let mut number = || numbers.next()?.parse::<u32>().ok();
    if number().zip(number()).is_some_and(|version| version >= (1, 89)) {
        println!("cargo::rustc-cfg=avx512");
    }
}
