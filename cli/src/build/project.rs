//! The cargo project of programs in the user's cache, one for each set of sources and target CPU: the programs' common
//! dependencies are compiled once for each target.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::Config;
use incarnate_translator::compiler::cache_folder;

use super::super::arguments::ProjectArguments;
use super::super::static_library::StaticLibraryFile;
use super::sources::Sources;
use super::target::ProgramTarget;

/// Name of the project's package, and of its program.
const PACKAGE: &str = "incarnate-program";
/// Separates the flags in `CARGO_ENCODED_RUSTFLAGS`.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// A project, locked against other processes while this value lives.
#[derive(Debug)]
pub(super) struct Project {
    root: PathBuf,
    target: ProgramTarget,
    flags: String,
    /// The open lock file.
    _lock: File,
}

impl Project {
    /// Opens the project for a set of sources, a target, and the CPU and the features that the command line names, and waits for other processes that
    /// use it.
    ///
    /// # Errors
    /// Errors of creating its folder and files.
    pub(super) fn open(sources: &Sources, target: &ProgramTarget, arguments: &ProjectArguments) -> Result<Project> {
        let target_cpu = arguments.target_cpu.as_str();
        let cpu = target.cpu(target_cpu);
        if cpu.is_some_and(str::is_empty) || target_cpu.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Error::invalid_argument(format!("'{target_cpu}' is not the name of a CPU")));
        }
        let flags = flags(target.flags(target_cpu)?);
        let root = project_folder("build", &(format!("{sources:?}"), &flags, &arguments.feature))?;
        let make = || {
            fs::create_dir_all(root.join("src"))?;
            let lock = locked(&root)?;
            replace(&root.join("Cargo.toml"), manifest(sources, &arguments.feature).as_bytes())?;
            if let Some(lock) = sources.lock() {
                // Keeps the versions that cargo adds for the program until the sources' lock file changes.
                let (copy, versions) = (root.join("sources.lock"), fs::read(lock)?);
                if fs::read(&copy).ok().as_ref() != Some(&versions) || !root.join("Cargo.lock").exists() {
                    fs::write(root.join("Cargo.lock"), &versions)?;
                    fs::write(&copy, &versions)?;
                }
            }
            Ok(lock)
        };
        let lock = make().map_err(|error: std::io::Error| Error::from(error));
        let lock = lock.context(|| format!("creating the project '{}'", root.display()))?;
        Ok(Project { root, target: target.clone(), flags, _lock: lock })
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
        let source = self.root.join("src");
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
        replace(&source.join("main.rs"), main.as_bytes()).context(|| format!("writing to '{}'", source.display()))?;
        self.compile(&libraries)?;
        Ok((self.target.program(&self.root.join("target"), PACKAGE), executables))
    }

    /// Compiles the project, with archives in its source folder.
    fn compile(&self, libraries: &[String]) -> Result<()> {
        // Downloaded packages need no network; a network access would fail without one.
        let mut offline = self.cargo("metadata");
        let offline = offline.args(["--offline", "--format-version=1"]).output().map_err(no_cargo)?.status.success();
        let mut build = self.cargo("rustc");
        build.args(["--release", "--quiet"]).arg("--target-dir").arg(self.root.join("target"));
        self.target.apply(&mut build);
        if offline {
            build.arg("--offline");
        }
        // The flags apply only to the program, so that the common dependencies are not rebuilt.
        build.arg("--").arg(format!("-Lnative={}", self.root.join("src").display()));
        build.args(libraries.iter().map(|library| format!("-lstatic={library}")));
        // The compiler's messages go directly to standard error.
        let status = build.status().map_err(no_cargo)?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::internal(format!("cargo could not build '{}' ({status})", self.root.display()))),
        }
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.arg(command).arg("--manifest-path").arg(self.root.join("Cargo.toml")).current_dir(&self.root);
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

/// Returns the folder in the user's cache of the projects of a kind with equal options.
pub(in super::super) fn project_folder(kind: &str, options: &impl Hash) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (options, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    Ok(cache_folder()?.join(kind).join(format!("{:016x}", hasher.finish())))
}

/// Locks a project against other processes while the file is open.
pub(in super::super) fn locked(root: &Path) -> std::io::Result<File> {
    let lock = File::create(root.join("lock"))?;
    wait_for(&lock)?;
    Ok(lock)
}

/// Writes a file unless it is unchanged, because cargo compares modification times.
pub(in super::super) fn replace(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == contents) {
        return Ok(());
    }
    let mut file = File::create(path)?;
    file.write_all(contents)
}

fn no_cargo(error: std::io::Error) -> Error {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let cargo: &OsStr = &cargo;
    Error::not_found(format!(
        "cannot run '{}' ({error}): programs are built by Rust's tools, see https://rustup.rs",
        cargo.display()
    ))
}

/// Waits until no other process holds the lock.
#[cfg(unix)]
fn wait_for(lock: &File) -> std::io::Result<()> {
    Ok(rustix::fs::flock(lock, rustix::fs::FlockOperation::LockExclusive)?)
}

/// Two concurrent builds of programs exclude each other here.
#[cfg(not(unix))]
fn wait_for(_: &File) -> std::io::Result<()> {
    Ok(())
}
