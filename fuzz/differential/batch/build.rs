//! Names the generated source, which `incarnate-differential` writes: without it there are no programs.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=INCARNATE_BATCH");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("none");
    let folder = std::env::var_os("INCARNATE_BATCH").map_or(folder, PathBuf::from);
    println!("cargo::rustc-env=INCARNATE_BATCH_SOURCE={}", folder.join("batch.rs").display());
}
