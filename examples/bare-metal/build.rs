//! Translates the model, and tells the linker which memory the microcontroller has.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

/// A module that needs no device: see the README.
const MODEL: &str = "../../tests/models/digit/inline-static.vmfb";

fn main() -> Result<(), Box<dyn Error>> {
    incarnate_translator::Config::new().no_std().module_name("digit").compile(MODEL)?;

    let memory = format!("memory/{}.x", env::var("CARGO_CFG_TARGET_ARCH")?);
    let folder = env::var("OUT_DIR")?;
    fs::copy(&memory, Path::new(&folder).join("memory.x")).map_err(|error| format!("copying {memory}: {error}"))?;
    println!("cargo::rerun-if-changed={memory}");
    println!("cargo::rustc-link-search={folder}");
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    Ok(())
}
