//! Translates every module of tests/models, and lists them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure is one of the build")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let out_dir = PathBuf::from(std::env::var("OUT_DIR").unwrap());
    let models = manifest.join("../models").canonicalize().unwrap();
    println!("cargo::rerun-if-changed={}", models.display());
    hostile(&manifest, &out_dir);
    let mut list = String::new();
    let mut table = String::new();
    for path in modules(&models) {
        let folder = path.parent().and_then(Path::file_name).unwrap().to_string_lossy();
        let name = format!("{folder}_{}", path.file_stem().unwrap().to_string_lossy()).replace(['-', '.'], "_");
        if let Err(error) = incarnate_translator::Config::new().module_name(&name).compile(&path) {
            panic!("{error}");
        }
        let source = out_dir.join(format!("{name}.rs"));
        writeln!(list, "/// `{folder}`.\npub mod {name} {{ include!({:?}); }}", source.display().to_string()).unwrap();
        let key = path.strip_prefix(&models).unwrap().display().to_string();
        writeln!(table, "    ({key:?}, || {name}::module()),").unwrap();
    }
    fs::write(
        out_dir.join("models.rs"),
        format!(
            "{list}\n/// Makes a translated module.\npub type Make = fn() -> std::sync::Arc<dyn incarnate::Module>;\n\
             \n/// Each module file, by its path within tests/models, translated.\n\
             pub const MODULES: &[(&str, Make)] = &[\n{table}];\n"
        ),
    )
    .unwrap();
}

/// Translates the module whose names are no identifiers, with the options that no other module is translated with.
fn hostile(manifest: &Path, out_dir: &Path) {
    let source = manifest.join("hostile.vmasm");
    println!("cargo::rerun-if-changed={}", source.display());
    let module = out_dir.join("hostile.vmfb");
    fs::write(&module, incarnate_runtime::bytecode::assemble(&fs::read_to_string(source).unwrap()).unwrap()).unwrap();
    let config = incarnate_translator::Config::new()
        .crate_path("crate::renamed::incarnate")
        .derive("NamedResults", "PartialEq, Eq")
        .type_attribute(".", "#[non_exhaustive]");
    config.module_name("hostile").compile(&module).unwrap();
}

/// The module files of all models.
fn modules(models: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for model in fs::read_dir(models).unwrap() {
        let model = model.unwrap().path();
        if model.is_dir() {
            let files = fs::read_dir(model).unwrap().map(|file| file.unwrap().path());
            found.extend(files.filter(|path| path.extension().is_some_and(|e| e == "vmfb" || e == "module")));
        }
    }
    found.sort();
    found
}
