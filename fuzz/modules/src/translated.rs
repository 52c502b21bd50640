//! Cases translated as untrusted, compiled into one program, and run in both modes.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::vm::Module;
use incarnate_translator::{File, Options, generate};

use crate::case::{self, Outcome};
use crate::supervisor;

/// Creates a translated module.
pub type Make = fn() -> Arc<dyn Module>;
/// The seed of a case, its text, and its translated module.
pub type Translated = (u64, &'static str, Make);

/// Runs the cases that the supervisor asks for. The program's `main` calls it.
pub fn main(cases: &[Translated]) {
    let run = |seed: u64, _: &str| match cases.iter().find(|case| case.0 == seed) {
        Some((_, text, make)) => compare(text, *make),
        None => Outcome { findings: vec!["not compiled".to_owned()], ..Outcome::default() },
    };
    if let Err(error) = supervisor::serve(&run) {
        eprintln!("{error}");
    }
}

/// Runs a case translated, and interpreted where both must do the same.
fn compare(text: &str, make: Make) -> Outcome {
    let mut found = case::run(text, Some(make()));
    found.findings.iter_mut().for_each(|finding| finding.insert_str(0, "translated: "));
    // Threads, and the workers of a device, interleave in other ways each time.
    if !found.is_limited && found.calls.len() == 1 && text.contains("// device local-sync\n") {
        let expected = case::run(text, None);
        // Translated programs have a loader of their own.
        let without_loaders = |line: &str| line.split("; loaders: ").next().unwrap_or_default().to_owned();
        let mut lines = found.calls.iter().flatten().zip(expected.calls.iter().flatten());
        let differs = lines.find(|(a, b)| without_loaders(a) != without_loaders(b));
        if let Some((found_line, line)) = differs.filter(|_| !expected.is_limited) {
            let text = format!("differs: translated {found_line}, interpreted {line}");
            found.findings.push(text);
        }
    }
    found
}

/// Translates and compiles cases into a program in a folder; returns its path, and the seeds of its cases. The translator
/// refuses cases whose executables are none.
///
/// # Errors
/// Errors of the file system; what the compiler says.
pub fn compile(folder: &Path, cases: &[(u64, String)]) -> io::Result<(PathBuf, Vec<u64>)> {
    let sources = folder.join("src");
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources)?;
    let here = env!("CARGO_MANIFEST_DIR");
    let manifest = format!(
        "[package]\nname = \"batch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
        incarnate-module-fuzz = {{ path = \"{here}\", default-features = false }}\n\
        incarnate = {{ path = \"{here}/../..\", default-features = false }}\n\
        [profile.dev]\nopt-level = 1\ndebug = false\nincremental = false\ncodegen-units = 64\n\
        [profile.dev.package.batch]\nopt-level = 0\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let lock = Path::new(here).join("../../Cargo.lock");
    if lock.exists() && !folder.join("Cargo.lock").exists() {
        fs::copy(lock, folder.join("Cargo.lock"))?;
    }
    let mut main = String::from("#![forbid(unsafe_code)]\n");
    let (mut table, mut seeds) = (String::new(), Vec::new());
    for (seed, text) in cases {
        let name = format!("p{seed}");
        let Ok(files) = translate(&name, text) else { continue };
        seeds.push(*seed);
        for file in files {
            let path = sources.join(&file.path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, &file.contents)?;
        }
        fs::write(sources.join(format!("{name}.vmasm")), text)?;
        let _ = writeln!(main, "mod {name};");
        let _ = writeln!(table, "    ({seed}, include_str!(\"{name}.vmasm\"), || {name}::module()),");
    }
    let _ = write!(
        main,
        "\nfn main() {{\n    incarnate_module_fuzz::translated::main(CASES);\n}}\n\n\
        static CASES: &[incarnate_module_fuzz::translated::Translated] = &[\n{table}];\n"
    );
    fs::write(sources.join("main.rs"), main)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).args(["build", "--quiet", "--offline"]).env("RUSTFLAGS", "-Awarnings");
    let output = cargo.env("CARGO_TARGET_DIR", folder.join("target")).output()?;
    match output.status.success() {
        true => Ok((folder.join("target/debug/batch"), seeds)),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Translates the module of a text as untrusted.
fn translate(name: &str, text: &str) -> Result<Vec<File>> {
    let module = VerifiedModule::load(Arc::new(Contents::copy_from(&case::module(text)?)))?;
    generate(&module, &Options { untrusted: true, ..Options::default() })?.files(name)
}
