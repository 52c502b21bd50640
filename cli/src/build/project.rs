//! The cargo project of programs, one for each set of sources and target CPU: the programs' common dependencies are compiled once for
//! each target.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::Config;

use super::super::arguments::ProjectArguments;
use super::super::static_library::StaticLibraryFile;
use super::folder::ProjectFolder;
use super::sources::Sources;
use super::target::ProgramTarget;

/// Name of the project's package, and of its program.
const PACKAGE: &str = "incarnate-program";
/// Separates the flags in `CARGO_ENCODED_RUSTFLAGS`.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// A project, locked against other processes while this value lives.
#[derive(Debug)]
pub(super) struct Project {
    folder: ProjectFolder,
    target: ProgramTarget,
    flags: String,
}

impl Project {
    /// Opens the project for a set of sources, a target, and the CPU and the features that the command line names, and waits for other processes that
    /// use it.
    ///
    /// # Errors
    /// Errors of creating its folder and files.
    pub(super) fn open(sources: &Sources, target: &ProgramTarget, arguments: &ProjectArguments) -> Result<Project> {
        let target_cpu = arguments.target_cpu.as_str();
        let flags = flags(target.flags(target_cpu));
        let folder = ProjectFolder::open("build", &(format!("{sources:?}"), &flags, &arguments.feature))?;
        folder.replace("Cargo.toml", manifest(sources, &arguments.feature).as_bytes())?;
        if let Some(lock) = sources.lock() {
            // Keeps the versions that cargo adds for the program until the sources' lock file changes.
            let versions = fs::read(&lock).context(|| format!("reading '{}'", lock.display()))?;
            let is_known = fs::read(folder.path().join("sources.lock")).is_ok_and(|known| known == versions);
            if !is_known || !folder.path().join("Cargo.lock").exists() {
                folder.replace("Cargo.lock", &versions)?;
                folder.replace("sources.lock", &versions)?;
            }
        }
        Ok(Project { folder, target: target.clone(), flags })
    }

    /// Builds the program of some modules, the main one last, translated by `config` and linked with the kernels of
    /// some objects. Returns its path, and notes on the modules' executables.
    ///
    /// # Errors
    /// Errors of loading and translating a module; NOT_FOUND without cargo; INTERNAL if the generated code does not
    /// compile.
    pub(super) fn build(
        &self,
        modules: &[PathBuf],
        config: Config,
        objects: &[StaticLibraryFile],
    ) -> Result<(PathBuf, Vec<String>)> {
        let source = self.folder.path().join("src");
        let mut main = String::from("//! A program of translated modules.\n\n");
        let mut added = String::new();
        let (mut executables, mut libraries) = (Vec::new(), Vec::new());
        for (index, module) in modules.iter().enumerate() {
            let name = format!("module_{index}");
            let config = config.clone().out_dir(&source).module_name(&name);
            let config = StaticLibraryFile::add_to(objects, config);
            let written = config.compile(module)?;
            executables.extend(written.executables);
            // The archives are common to all modules, and each module may refer to any of them.
            libraries = written.static_libraries;
            main.push_str(&format!("mod {name};\n"));
            added.push_str(&format!(".module({name}::module())"));
        }
        main.push_str(&format!(
            "\nfn main() -> std::process::ExitCode {{\n    \
                 incarnate::cli::program_main(std::env::args_os(), |builder| builder{added})\n}}\n"
        ));
        self.folder.replace("src/main.rs", main.as_bytes())?;
        self.compile(&libraries)?;
        Ok((self.target.program(&self.folder.path().join("target"), PACKAGE), executables))
    }

    /// Compiles the project, with archives in its source folder.
    fn compile(&self, libraries: &[String]) -> Result<()> {
        // Downloaded packages need no network; a network access would fail without one.
        let mut offline = self.cargo("metadata");
        let offline = offline.args(["--offline", "--format-version=1"]).output().map_err(no_cargo)?.status.success();
        let mut build = self.cargo("rustc");
        build.args(["--release", "--quiet"]).arg("--target-dir").arg(self.folder.path().join("target"));
        self.target.apply(&mut build);
        if offline {
            build.arg("--offline");
        }
        // The flags apply only to the program, so that the common dependencies are not rebuilt.
        build.arg("--").arg(format!("-Lnative={}", self.folder.path().join("src").display()));
        build.args(libraries.iter().map(|library| format!("-lstatic={library}")));
        // The compiler's messages go directly to standard error.
        let status = build.status().map_err(no_cargo)?;
        match status.success() {
            true => Ok(()),
            false => {
                let root = self.folder.path().display();
                Err(Error::internal(format!("cargo could not build '{root}' ({status})")))
            }
        }
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let root = self.folder.path();
        cargo.arg(command).arg("--manifest-path").arg(root.join("Cargo.toml")).current_dir(root);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", &self.flags).env_remove("RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
        cargo
    }
}

/// Returns the compiler's flags: those of the environment, and those of the target CPU.
fn flags(of_cpu: Vec<String>) -> String {
    let encoded = env::var("CARGO_ENCODED_RUSTFLAGS").ok();
    let plain = || Some(env::var("RUSTFLAGS").ok()?.split_whitespace().collect::<Vec<_>>().join(FLAG_SEPARATOR));
    let given = encoded.or_else(plain).filter(|flags| !flags.is_empty());
    given.into_iter().chain(of_cpu).collect::<Vec<_>>().join(FLAG_SEPARATOR)
}

/// The runtime, which all programs share, is compiled whole: calls are faster, and programs smaller.
fn manifest(sources: &Sources, features: &[String]) -> String {
    let features: Vec<&str> = std::iter::once("program").chain(features.iter().map(String::as_str)).collect();
    format!(
        "[package]\nname = \"{PACKAGE}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
         [dependencies]\n{}\n\n\
         [profile.release]\ncodegen-units = 16\nlto = \"off\"\ndebug = false\nstrip = \"debuginfo\"\n\n\
         [profile.release.package.\"*\"]\ncodegen-units = 1\n\n\
         [workspace]\n",
        sources.dependency(&features)
    )
}

fn no_cargo(error: std::io::Error) -> Error {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let cargo: &OsStr = &cargo;
    Error::not_found(format!(
        "cannot run '{}' ({error}): programs are built by Rust's tools, see https://rustup.rs",
        cargo.display()
    ))
}
