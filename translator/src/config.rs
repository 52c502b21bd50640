//! Translation in build scripts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::{Error, Result, ResultExt};

use crate::files::File;
use crate::function::LoopReport;
use crate::names::module_identifier;
use crate::options::{Constants, Options, Prefer, Version, rust};
use crate::static_library::{StaticLibrary, is_build_script, link};

/// Translates module files in a build script, or wherever files are wanted.
///
/// ```no_run
/// # fn main() -> incarnate_runtime::Result<()> {
/// incarnate_translator::Config::new().compile("models/digits.vmfb")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Config {
    options: Options,
    /// Rust that the user gave, which is read when it is used.
    crate_path: Option<String>,
    type_attributes: Vec<(String, String)>,
    out_dir: Option<PathBuf>,
    module_name: Option<String>,
    /// Object files of kernels, and the query functions that are wanted of each.
    static_libraries: Vec<(PathBuf, Vec<String>)>,
    architecture: Option<String>,
}

/// What a translation wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The Rust module's file, which takes in the others.
    pub source: PathBuf,
    /// All files, with their lengths in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// What became of the module's executables, a line for each format.
    pub executables: Vec<String>,
    /// What became of the loops, those of translated executables among them.
    pub loops: Vec<LoopReport>,
    /// Names of the archives of [static libraries](Config::static_library) beside the source, as linkers take them.
    pub static_libraries: Vec<String>,
}

impl Config {
    /// Settings for programs that depend on the crate `incarnate`: files go to `OUT_DIR`, and the constants become part of
    /// the program.
    pub fn new() -> Config {
        Config::default()
    }

    /// The folder that files are written to; cargo's `OUT_DIR` by default.
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Config {
        self.out_dir = Some(directory.into());
        self
    }

    /// The name of the files, and so of the Rust module; that of the module file by default.
    pub fn module_name(mut self, name: impl Into<String>) -> Config {
        self.module_name = Some(name.into());
        self
    }

    /// The path of the crate `incarnate`, where the program knows it by another one than `::incarnate`.
    pub fn crate_path(mut self, path: impl Into<String>) -> Config {
        self.crate_path = Some(path.into());
        self
    }

    /// Adds an attribute, such as `#[derive(PartialEq)]`, to a generated type: to `Module`, to the struct of a function's
    /// results by its name, or to all of them for `.`.
    pub fn type_attribute(mut self, type_name: impl Into<String>, attribute: impl Into<String>) -> Config {
        self.type_attributes.push((type_name.into(), attribute.into()));
        self
    }

    /// Adds a derive to a generated type; see [`Config::type_attribute`].
    pub fn derive(self, type_name: impl Into<String>, traits: &str) -> Config {
        self.type_attribute(type_name, format!("#[derive({traits})]"))
    }

    /// Leaves the constants out of the program: it maps the file of this path when it loads the module. The translation
    /// writes it as `NAME.constants.bin` beside the source, from where it must be brought there.
    pub fn load_constants_from(mut self, path: impl Into<String>) -> Config {
        self.options.constants = Constants::Loaded(path.into());
        self
    }

    /// Which executables are used where the module holds them in several formats: machine code for the target, the default,
    /// or portable ones, which are translated.
    pub fn prefer(mut self, prefer: Prefer) -> Config {
        self.options.prefer = prefer;
        self
    }

    /// Processors that there are versions of long loops for, beside that which the program is compiled for: by default
    /// [`Version::DEFAULT`], and none for none.
    pub fn versions(mut self, versions: &[Version]) -> Config {
        self.options.versions = versions.to_vec();
        self
    }

    /// For modules that anyone may have made: see [`Options::untrusted`].
    pub fn untrusted(mut self, untrusted: bool) -> Config {
        self.options.untrusted = untrusted;
        self
    }

    /// Links kernels into the program: the object file that the compiler writes beside a module of the format `static`
    /// (`--iree-llvmcpu-link-embedded=false --iree-llvmcpu-link-static --iree-llvmcpu-static-library-output-path=F.o`), or an
    /// archive of several. `queries` are the symbols of its query functions; without any, those that the file has are taken.
    ///
    /// The program then runs machine code without loading any. The generated code has a module `libraries`, which declares these
    /// functions and is the only unsafe code in it: it fits into crates that deny unsafe code, and not into those that
    /// forbid it, which can have it in a crate of its own.
    ///
    /// In a build script the linker is told by cargo's directives; elsewhere the archive is only written, beside the source.
    pub fn static_library(mut self, object: impl Into<PathBuf>, queries: &[&str]) -> Config {
        self.static_libraries.push((object.into(), queries.iter().map(|name| (*name).to_owned()).collect()));
        self
    }

    /// The architecture that objects of kernels must be for, as `target_arch` names it; by default that which a build script
    /// builds for, and elsewhere any.
    pub fn architecture(mut self, name: impl Into<String>) -> Config {
        self.architecture = Some(name.into());
        self
    }

    /// Translates a module file to `NAME.rs`, with files beside it that it takes in.
    ///
    /// In a build script, cargo is told to run it again when the module file changes. Files whose contents stay are not
    /// written, and where anything fails none is. A relative path is one from the package's folder.
    ///
    /// # Errors
    /// What is wrong with the module, with its file and place; what writing gives.
    pub fn compile(&self, module: impl AsRef<Path>) -> Result<Written> {
        let module = module.as_ref();
        if is_build_script() {
            let libraries = self.static_libraries.iter().map(|library| library.0.as_path());
            libraries.chain([module]).for_each(|file| println!("cargo::rerun-if-changed={}", file.display()));
        }
        let stem = match &self.module_name {
            Some(name) => name.clone(),
            None => module_identifier(module),
        };
        let out_dir = match &self.out_dir {
            Some(directory) => directory.clone(),
            None => std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| {
                Error::failed_precondition("OUT_DIR is not set: this is no build script, so name a folder by `out_dir`")
            })?,
        };
        let mut options = self.options()?;
        let mut libraries = Vec::new();
        for (path, queries) in &self.static_libraries {
            let library = StaticLibrary::read(path, self.architecture.as_deref())?;
            options.static_libraries.extend(library.queries(queries)?);
            libraries.push(library);
        }
        let (files, executables, loops) =
            generate(module, &options, &stem).context(|| format!("translating '{}'", module.display()))?;
        write(&out_dir, &files)?;
        let libraries = libraries.iter().enumerate();
        let static_libraries = libraries
            .map(|(index, library)| link(library, &out_dir, &format!("{stem}_{index}")))
            .collect::<Result<_>>()?;
        let parts = out_dir.join(format!("{stem}.parts"));
        remove_stale(&parts, &out_dir, &files)
            .map_err(|error| failed(&format!("removing old files of '{}':", parts.display()), &error))?;
        let lengths = files.iter().map(|file| (out_dir.join(&file.path), file.contents.len() as u64));
        Ok(Written {
            source: out_dir.join(format!("{stem}.rs")),
            files: lengths.collect(),
            executables,
            loops,
            static_libraries,
        })
    }

    /// The options, with what the user gave as text.
    fn options(&self) -> Result<Options> {
        let mut options = self.options.clone();
        if let Some(path) = &self.crate_path {
            syn::parse_str::<syn::Path>(path)
                .map_err(|error| Error::invalid_argument(format!("crate path `{path}`: {error}")))?;
            options.crate_path = rust("crate path", path)?;
        }
        for (name, attribute) in &self.type_attributes {
            options.type_attributes.push((name.clone(), rust("attribute", attribute)?));
        }
        Ok(options)
    }
}

fn generate(module: &Path, options: &Options, stem: &str) -> Result<(Vec<File>, Vec<String>, Vec<LoopReport>)> {
    let bytes = fs::read(module).map_err(|error| failed("reading it:", &error))?;
    let verified = VerifiedModule::load(Arc::new(Contents::from_vec(bytes)))?;
    let output = crate::generate(&verified, options)?;
    let mut files = output.files(stem)?;
    if matches!(options.constants, Constants::Loaded(_)) {
        files.push(File { path: format!("{stem}.constants.bin").into(), contents: output.constants().to_vec() });
    }
    Ok((files, output.report().to_vec(), output.loops().to_vec()))
}

/// The error of a file operation.
pub(crate) fn failed(what: &str, error: &io::Error) -> Error {
    let make = match error.kind() {
        io::ErrorKind::NotFound => Error::not_found,
        io::ErrorKind::PermissionDenied => Error::permission_denied,
        io::ErrorKind::StorageFull => Error::resource_exhausted,
        _ => Error::failed_precondition,
    };
    make(format!("{what} {error}"))
}

/// Writes files that are not as they should be: all under other names first, which they change for their own when all are
/// there.
fn write(directory: &Path, files: &[File]) -> Result<()> {
    let mut temporaries = Temporaries(Vec::new());
    for file in files {
        let path = directory.join(&file.path);
        let context = |error: io::Error| failed(&format!("writing '{}':", path.display()), &error);
        if fs::read(&path).is_ok_and(|found| found == file.contents) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(context)?;
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let temporary = path.with_file_name(name);
        temporaries.0.push((temporary.clone(), path.clone()));
        fs::write(&temporary, &file.contents).map_err(context)?;
    }
    // The main file is first, and takes in what must be there before.
    while let Some((temporary, path)) = temporaries.0.pop() {
        fs::rename(&temporary, &path).map_err(|error| failed(&format!("writing '{}':", path.display()), &error))?;
    }
    Ok(())
}

/// Files that are removed unless they get their names.
struct Temporaries(Vec<(PathBuf, PathBuf)>);

impl Drop for Temporaries {
    fn drop(&mut self) {
        for (temporary, _) in &self.0 {
            // One that could not be made is not there.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Removes parts that an earlier translation left and that this one does not have.
fn remove_stale(parts: &Path, directory: &Path, files: &[File]) -> io::Result<()> {
    let entries = match fs::read_dir(parts) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if !files.iter().any(|file| directory.join(&file.path) == path) {
            fs::remove_file(path)?;
        }
    }
    if !files.iter().any(|file| directory.join(&file.path).starts_with(parts)) {
        fs::remove_dir(parts)?;
    }
    Ok(())
}
