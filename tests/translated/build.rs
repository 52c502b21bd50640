//! Translates every module of tests/models, and lists them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure is one of the build")]

mod kernels;
#[path = "../support/native.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod native;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use incarnate_bytecode::executable_format::{ARCHITECTURES, system_prefix};
use incarnate_translator::{Prefer, TargetFeatures};

/// The sets of target features to multiversion for, one at a time, and none.
const VARIANTS: [Option<TargetFeatures>; 4] =
    [None, Some(TargetFeatures::X86_64V2), Some(TargetFeatures::X86_64V3), Some(TargetFeatures::X86_64V4)];

/// Modules that are also translated so that float reductions may be in any order.
const REASSOCIATED: [&str; 2] = ["attention/vmvx.vmfb", "several_results/vmvx.vmfb"];

fn main() {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let out_dir = PathBuf::from(std::env::var("OUT_DIR").unwrap());
    let models = manifest.join("../models").canonicalize().unwrap();
    println!("cargo::rerun-if-changed={}", models.display());
    println!("cargo::rerun-if-env-changed=INCARNATE_TEST_MODELS");
    hostile(&manifest, &out_dir);
    let keeping = assembled(&manifest, &out_dir, "keeping");
    incarnate_translator::Config::new().module_name("keeping").compile(&keeping).unwrap();
    for name in ["accumulating", "dividing", "jamming", "pairing"] {
        let module = assembled(&manifest.join("../../translator/tests/golden"), &out_dir, name);
        incarnate_translator::Config::new().module_name(name).compile(&module).unwrap();
    }
    kernels::translate(&manifest.join("kernels"), &out_dir);
    let mut examples = references(&manifest, &out_dir);
    several_formats(&models);
    let reassociated = reassociated(&models, &out_dir);
    // The models of `sweep` are too many for multiversioning.
    let (models, target_features) = match std::env::var_os("INCARNATE_TEST_MODELS") {
        Some(folder) => (PathBuf::from(folder), [].as_slice()),
        None => (models, &TargetFeatures::DEFAULT[..]),
    };
    let mut list = String::new();
    let mut table = String::new();
    let mut nested = 0;
    let mut other = String::new();
    for path in modules(&models) {
        let folder = path.parent().and_then(Path::file_name).unwrap().to_string_lossy();
        // Modules with machine code have the same names on every architecture.
        let stem = path.file_stem().unwrap().to_string_lossy();
        let stem = stem.strip_suffix("_arm_64").unwrap_or(&stem);
        let name = format!("{folder}_{stem}").replace(['-', '.'], "_");
        let written = match incarnate_translator::Config::new()
            .module_name(&name)
            .target_features(target_features)
            .compile(&path)
        {
            Ok(written) => written,
            Err(error) => panic!("{error}"),
        };
        let is_open = folder == "several_formats";
        for line in written.executables.iter().filter(|line| line.contains("vmvx") && !is_open) {
            assert!(line.ends_with(": translated"), "{}: {line}", path.display());
            nested += 1;
        }
        let source = out_dir.join(format!("{name}.rs"));
        examples += &examples_of(&name, &fs::read_to_string(&source).unwrap());
        writeln!(list, "/// `{folder}`.\npub mod {name} {{ include!({:?}); }}", source.display().to_string()).unwrap();
        let key = path.strip_prefix(&models).unwrap().display().to_string();
        writeln!(table, "    ({key:?}, || {name}::module()),").unwrap();
        // These kernels are loops in the module's own functions.
        for variant in VARIANTS.iter().filter(|_| !target_features.is_empty() && key.contains("/inline-")) {
            let (level, target_features) =
                variant.map_or(("own", vec![]), |features| (features.name(), vec![features]));
            let name = format!("{name}_{}", level.replace('-', "_"));
            incarnate_translator::Config::new()
                .module_name(&name)
                .target_features(&target_features)
                .compile(&path)
                .unwrap();
            let source = out_dir.join(format!("{name}.rs"));
            let source = source.display().to_string();
            writeln!(list, "/// `{folder}` for {level} alone.\npub mod {name} {{ include!({source:?}); }}").unwrap();
            writeln!(other, "    ({key:?}, {level:?}, || {name}::module()),").unwrap();
        }
    }
    fs::write(out_dir.join("examples.rs"), examples).unwrap();
    assert!(nested >= 5, "only {nested} modules have VMVX executables");
    fs::write(
        out_dir.join("models.rs"),
        format!(
            "{list}\n/// Makes a translated module.\npub type Make = fn() -> std::sync::Arc<dyn incarnate::Module>;\n\
             \n/// Each module file, by its path within tests/models, translated.\n\
             pub const MODULES: &[(&str, Make)] = &[\n{table}];\n\
             \n/// Modules with loops in their own functions, by path and by the set of target features that they are\n\
             /// multiversioned for, `own` for none.\n\
             pub const VARIANTS: &[(&str, &str, Make)] = &[\n{other}];\n{reassociated}"
        ),
    )
    .unwrap();
}

/// Returns the examples in the documentation of a translated module's methods, each as a function.
fn examples_of(name: &str, source: &str) -> String {
    let mut functions = String::new();
    let blocks = source.split("/// ```ignore\n").skip(1).filter_map(|rest| rest.split("/// ```\n").next());
    for (number, block) in blocks.enumerate() {
        let lines: String = block.lines().map(|line| format!("{}\n", line.trim().trim_start_matches("///"))).collect();
        writeln!(
            functions,
            "pub async fn {name}_{number}() -> incarnate::Result<()> {{\nuse crate::{name}::Module;\n{lines}Ok(())\n}}"
        )
        .unwrap();
    }
    functions
}

/// Assembles the module of a text file beside this one.
fn assembled(manifest: &Path, out_dir: &Path, name: &str) -> PathBuf {
    let source = manifest.join(name).with_extension("vmasm");
    println!("cargo::rerun-if-changed={}", source.display());
    let module = out_dir.join(name).with_extension("vmfb");
    fs::write(&module, incarnate_bytecode::assemble(&fs::read_to_string(source).unwrap()).unwrap()).unwrap();
    module
}

/// Translates the module with unusual names, with options that no other module uses.
fn hostile(manifest: &Path, out_dir: &Path) {
    let module = assembled(manifest, out_dir, "hostile");
    let config = incarnate_translator::Config::new()
        .crate_path("crate::renamed::incarnate")
        .derive("NamedResults", "PartialEq, Eq")
        .type_attribute(".", "#[non_exhaustive]");
    config.module_name("hostile").compile(&module).unwrap();
}

/// Translates the module whose functions take and return references, and returns the examples of its documentation.
fn references(manifest: &Path, out_dir: &Path) -> String {
    let module = manifest.join("references.vmfb");
    println!("cargo::rerun-if-changed={}", module.display());
    incarnate_translator::Config::new().module_name("references").compile(&module).unwrap();
    examples_of("references", &fs::read_to_string(out_dir.join("references.rs")).unwrap())
}

/// Translates the module with an executable in two formats, once for each.
fn several_formats(models: &Path) {
    let module = models.join("several_formats/vmvx-and-llvm-cpu.vmfb");
    let of = |format: &str, fate: &str| format!("1 executable of format {format}: {fate}");
    let left_out = |kind: &str| format!("left out, as {kind} executables are preferred");
    let (vmvx, elf) = ("vmvx-bytecode-fb", "embedded-elf-x86_64");
    // There is no machine code for another target to prefer.
    let is_native = architecture() == "x86_64";
    let vmvx_fate = if is_native { left_out("native") } else { "translated".to_owned() };
    for (prefer, name, lines) in [
        (Prefer::Native, "native", [of(elf, "loaded by the program"), of(vmvx, &vmvx_fate)]),
        (Prefer::Portable, "portable", [of(elf, &left_out("portable")), of(vmvx, "translated")]),
    ] {
        let config = incarnate_translator::Config::new().prefer(prefer).module_name(format!("formats_{name}"));
        assert_eq!(config.compile(&module).unwrap().executables, lines);
    }
}

/// Translates modules so that float reductions may be in any order, and returns their list.
fn reassociated(models: &Path, out_dir: &Path) -> String {
    let (mut list, mut table, mut reduced) = (String::new(), String::new(), 0);
    for key in REASSOCIATED {
        let name = format!("reassociated_{}", key.replace(['/', '.'], "_"));
        let config = incarnate_translator::Config::new().reassociate(true).module_name(&name);
        let written = config.compile(models.join(key)).unwrap();
        reduced += written.loops.iter().filter(|found| found.to_string().contains("partial sums")).count();
        let source = out_dir.join(format!("{name}.rs")).display().to_string();
        writeln!(list, "/// `{key}` with float reductions in any order.\npub mod {name} {{ include!({source:?}); }}")
            .unwrap();
        writeln!(table, "    ({key:?}, || {name}::module()),").unwrap();
    }
    assert!(reduced >= 1, "no loop has partial sums");
    format!(
        "{list}\n/// Modules with float reductions in any order, by path.\n\
         pub const REASSOCIATED: &[(&str, Make)] = &[\n{table}];\n"
    )
}

/// Returns the name of the program's architecture in formats of machine code; none if no format names it.
fn architecture() -> &'static str {
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    ARCHITECTURES.iter().find(|row| row.0 == target).map_or("", |row| row.1)
}

/// Returns the prefix of formats of the target's system libraries.
fn system_libraries() -> &'static str {
    let is_apple = std::env::var("CARGO_CFG_TARGET_VENDOR").is_ok_and(|vendor| vendor == "apple");
    system_prefix(is_apple, std::env::var_os("CARGO_CFG_WINDOWS").is_some())
}

/// Returns the module files of all models that programs for the target can run.
fn modules(models: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for model in fs::read_dir(models).unwrap() {
        let model = model.unwrap().path();
        if model.is_dir() {
            let files = fs::read_dir(model).unwrap().map(|file| file.unwrap().path());
            let files = files.filter(|path| path.extension().is_some_and(|e| e == "vmfb"));
            let is_foreign = |path: &PathBuf| {
                native::foreign_formats(&fs::read(path).unwrap(), architecture(), system_libraries()).is_some()
            };
            found.extend(files.filter(|path| !is_foreign(path)));
        }
    }
    found.sort();
    found
}
