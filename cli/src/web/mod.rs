//! `incarnate web`: a translated model as a package of JavaScript modules and a WebAssembly program.

mod package;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::{Config, Prefer};

use super::Verdict;
use super::build::{ProjectFolder, Sources};
use super::console::Console;
use super::models::CompilerArguments;
use crate::tooling::atomic_file;

const TARGET: &str = "wasm32-unknown-unknown";

#[derive(Debug, Args)]
pub(super) struct WebArguments {
    /// The module file, or the model to compile.
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) compiler: CompilerArguments,
    /// The folder to write; its name is that of the package.
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Round fused products and sums once, as native programs do. Engines have no instruction for it: matrix products are some 20
    /// times slower.
    #[arg(long)]
    fused: bool,
    /// Refused: LLVM selects the greater of two numbers by a relaxed vector instruction then, which may return NaN where one of them is.
    #[arg(long, hide = true)]
    relaxed_simd: bool,
    /// Use no vector instructions, for browsers from before 2023.
    #[arg(long, conflicts_with = "relaxed_simd")]
    no_simd: bool,
    /// Allow float reductions in another order than that of the bytecode. Results may differ by rounding.
    #[arg(long)]
    reassociate: bool,
    /// The workspace of Incarnate to build with, also as INCARNATE_SOURCE; by default the one that this command was built from, or the
    /// registry.
    #[arg(long, value_name = "FOLDER")]
    incarnate_source: Option<PathBuf>,
}

impl WebArguments {
    fn target_features(&self) -> &'static str {
        if self.no_simd { "" } else { "+simd128" }
    }
}

pub(super) fn web(arguments: &WebArguments, out: &mut Console) -> Result<Verdict> {
    if arguments.relaxed_simd {
        // Up to LLVM 22. Softmax of IREE's compiler begins its maxima with NaN.
        return Err(Error::unimplemented(
            "--relaxed-simd: LLVM selects the greater of two numbers by a relaxed instruction, which may return NaN where one of them is, as in \
             softmax; leave it out",
        ));
    }
    let name = arguments.output.file_name().and_then(|name| name.to_str());
    let is_name = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
    };
    let name = name.filter(is_name).ok_or_else(|| {
        let place = arguments.output.display();
        Error::invalid_argument(format!("'{place}' is no name of a package: use lower-case letters, digits, - and _"))
    })?;
    let functions = package::functions(&arguments.file)?;
    let program = compile(arguments)?;
    let write = |file: &str, contents: &[u8]| {
        atomic_file::write(&arguments.output.join(file), |temporary| fs::write(temporary, contents)).map(|_| ())
    };
    fs::create_dir_all(&arguments.output).context(|| format!("creating '{}'", arguments.output.display()))?;
    for (file, text) in package::files(name, &functions) {
        write(&file, text.as_bytes())?;
    }
    let file = format!("{name}.wasm");
    write(&file, &program)?;
    let place = arguments.output.join(file);
    writeln!(out, "{} ({} bytes)", place.display(), program.len()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}

/// Builds the program in a cargo project, one for each set of sources and options, so that dependencies are compiled once. Returns it.
fn compile(arguments: &WebArguments) -> Result<Vec<u8>> {
    let sources = Sources::find(arguments.incarnate_source.as_deref())?;
    let features = arguments.target_features();
    let folder = ProjectFolder::open("web", &(format!("{sources:?}"), features))?;
    let root = folder.path();
    folder.replace("Cargo.toml", manifest(&sources).as_bytes())?;
    if let Some(lock) = sources.lock().filter(|_| !root.join("Cargo.lock").exists()) {
        fs::copy(lock, root.join("Cargo.lock")).context(|| format!("creating the project '{}'", root.display()))?;
    }
    let config = Config::new().out_dir(root.join("src")).module_name("model").prefer(Prefer::Portable);
    let config = config.target_features(&[]).reassociate(arguments.reassociate).unfuse(!arguments.fused);
    config.architecture("wasm32").compile(&arguments.file)?;
    let main = "//! A translated model.\n\nmod model;\n\nincarnate::web_program!(crate::model);\n";
    folder.replace("src/lib.rs", main.as_bytes())?;
    cargo(root, features)?;
    let program = root.join("target").join(TARGET).join("release/incarnate_web_program.wasm");
    fs::read(&program).context(|| format!("reading '{}'", program.display()))
}

fn cargo(root: &Path, features: &str) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = |offline: bool| {
        let mut command = Command::new(&cargo);
        command.args(["build", "--release", "--quiet", "--target", TARGET]).current_dir(root);
        command.args(offline.then_some("--offline"));
        command.env("CARGO_TARGET_DIR", root.join("target")).env_remove("CARGO_BUILD_TARGET");
        let flags = if features.is_empty() { String::new() } else { format!("-Ctarget-feature={features}") };
        command.env("CARGO_ENCODED_RUSTFLAGS", flags).env_remove("RUSTFLAGS");
        command
    };
    let unavailable = |error: std::io::Error| {
        Error::not_found(format!(
            "cannot run cargo ({error}): programs are built by Rust's tools, see https://rustup.rs"
        ))
    };
    // Downloaded packages need no network.
    let mut metadata = Command::new(&cargo);
    metadata.args(["metadata", "--offline", "--format-version=1"]).current_dir(root);
    let offline = metadata.output().map_err(unavailable)?.status.success();
    let status = build(offline).status().map_err(unavailable)?;
    if !status.success() {
        return Err(Error::internal(format!(
            "cargo could not build '{}' ({status}); if the target is missing, `rustup target add {TARGET}` installs it",
            root.display()
        )));
    }
    Ok(())
}

fn manifest(sources: &Sources) -> String {
    format!(
        "[package]\nname = \"incarnate-web-program\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
         [lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\n{}\n\n\
         [profile.release]\nlto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"\nstrip = true\n\n[workspace]\n",
        sources.dependency(&["web"])
    )
}
