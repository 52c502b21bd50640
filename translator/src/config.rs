//! Translation in build scripts.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_bytecode::{Contents, VerifiedModule};
use incarnate_bytecode::{Error, Result, ResultExt};
use tempfile::{NamedTempFile, TempPath};

use crate::compiler::{
    CompileOptions, Compiled, Compiler, Event, INSTALL, ImportOptions, ModelFormat, Source, Target, files_of, gguf,
};
use crate::file_error::failed;
use crate::files::File;
use crate::function::LoopRemark;
use crate::names::module_identifier;
use crate::options::{Constants, Options, Prefer, TargetFeatures, rust};
use crate::static_library::{StaticLibrary, is_build_script, link};

/// Translates module files to Rust source files, in build scripts and elsewhere.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// incarnate_translator::Config::new().compile("models/digits.vmfb")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Config {
    options: Options,
    /// Rust that the user wrote; `compile` parses it.
    crate_path: Option<String>,
    type_attributes: Vec<(String, String)>,
    out_dir: Option<PathBuf>,
    module_name: Option<String>,
    /// Object files of kernels, and the query functions to use of each.
    static_libraries: Vec<(PathBuf, Vec<String>)>,
    architecture: Option<String>,
    /// What models are compiled for; portable by default.
    compile_target: Option<Target>,
    import: ImportOptions,
    language_model: gguf::Options,
}

/// The files that a translation wrote, and its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file of the Rust module, which includes the others.
    pub source: PathBuf,
    /// All files, with their lengths in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// How the module's executables are provided: a line for each format.
    pub executables: Vec<String>,
    /// The remarks about loops, including those of translated executables.
    pub loops: Vec<LoopRemark>,
    /// Names of the archives of [static libraries](Config::static_library) beside the source, as the linker takes them.
    pub static_libraries: Vec<String>,
}

impl Config {
    /// The defaults for programs that depend on the crate `incarnate`: files are written to `OUT_DIR`, and the constants
    /// become part of the program.
    pub fn new() -> Config {
        Config::default()
    }

    /// Sets the folder that files are written to; cargo's `OUT_DIR` by default.
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Config {
        self.out_dir = Some(directory.into());
        self
    }

    /// Sets the name of the files and of the Rust module; by default the name of the module file.
    pub fn module_name(mut self, name: impl Into<String>) -> Config {
        self.module_name = Some(name.into());
        self
    }

    /// Sets the path of the crate `incarnate`; `::incarnate` by default.
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

    /// Leaves the constants out of the program, which maps the file at this path when it loads the module. The translation
    /// writes `NAME.constants.bin` beside the source; the user moves it to that path.
    pub fn load_constants_from(mut self, path: impl Into<String>) -> Config {
        self.options.constants = Constants::Loaded(path.into());
        self
    }

    /// Selects the executables to use of a module that holds them in several formats: machine code for the target, which is
    /// the default, or portable ones, which are translated.
    pub fn prefer(mut self, prefer: Prefer) -> Config {
        self.options.prefer = prefer;
        self
    }

    /// Selects the target features for which functions with long loops are multiversioned, in addition to the program's own
    /// target: [`TargetFeatures::DEFAULT`] by default. An empty slice disables multiversioning.
    pub fn target_features(mut self, target_features: &[TargetFeatures]) -> Config {
        self.options.target_features = target_features.to_vec();
        self
    }

    /// Marks the module as untrusted: see [`Options::untrusted`].
    pub fn untrusted(mut self, untrusted: bool) -> Config {
        self.options.untrusted = untrusted;
        self
    }

    /// Allows float reductions in another order than that of the bytecode: see [`Options::reassociate`].
    pub fn reassociate(mut self, reassociate: bool) -> Config {
        self.options.reassociate = reassociate;
        self
    }

    /// Rounds products and sums of `f32` that the compiler fused separately: see [`Options::unfuse`].
    pub fn unfuse(mut self, unfuse: bool) -> Config {
        self.options.unfuse = unfuse;
        self
    }

    /// Links kernels into the program: the object file that the compiler writes beside a module of the format `static`
    /// (`--iree-llvmcpu-link-embedded=false --iree-llvmcpu-link-static --iree-llvmcpu-static-library-output-path=F.o`), or an
    /// archive of several. `queries` are the symbols of its query functions; if it is empty, all query functions of the file
    /// are used.
    ///
    /// The program then runs machine code without loading a library. The generated module `libraries` declares these functions
    /// and contains the only unsafe code: it compiles in crates that deny unsafe code, and not in those that forbid it.
    ///
    /// In a build script, cargo's directives pass the archive to the linker; elsewhere it is only written beside the source.
    pub fn static_library(mut self, object: impl Into<PathBuf>, queries: &[&str]) -> Config {
        self.static_libraries.push((object.into(), queries.iter().map(|name| (*name).to_owned()).collect()));
        self
    }

    /// Accepts executables of any format: the program gives its devices loaders of its own.
    pub fn own_loaders(mut self) -> Config {
        self.options.own_loaders = true;
        self
    }

    /// Translates for a program without `std`, which depends on the crate `incarnate-runtime` with `default-features = false`: see
    /// [`Options::no_std`]. `Module::load` then takes no device. Models must be compiled with
    /// `--iree-execution-model=inline-static`. Call it before methods that set the crate's path or target features.
    pub fn no_std(mut self) -> Config {
        let Options { crate_path, target_features, no_std, .. } = Options::no_std();
        self.options = Options { crate_path, target_features, no_std, ..self.options };
        self
    }

    /// Sets the architecture of the program, as `target_arch` names it, which machine code must have. The default is the target in
    /// a build script, and any architecture elsewhere.
    pub fn architecture(mut self, name: impl Into<String>) -> Config {
        self.architecture = Some(name.into());
        self
    }

    /// Selects what a model in the place of a module is compiled for: [`Target::Portable`] by default, because a program may run
    /// on other machines than the one that builds it.
    pub fn compile_target(mut self, target: Target) -> Config {
        self.compile_target = Some(target);
        self
    }

    /// Fixes an extent that an ONNX model names, such as `batch`.
    pub fn dim(mut self, name: impl Into<String>, extent: i64) -> Config {
        self.import.dims.push((name.into(), extent));
        self
    }

    /// Fixes the shape of an input of an ONNX model.
    pub fn shape(mut self, input: impl Into<String>, shape: &[i64]) -> Config {
        self.import.shapes.push((input.into(), shape.to_vec()));
        self
    }

    /// Takes tensors of an ONNX model by name as its inputs, and leaves out what is before them.
    pub fn inputs(mut self, names: &[&str]) -> Config {
        self.import.inputs = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Takes tensors of an ONNX model by name as its outputs, and leaves out what is behind them.
    pub fn outputs(mut self, names: &[&str]) -> Config {
        self.import.outputs = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Sets the positions of a conversation with the language model of a GGUF file, and the conversations at a time.
    pub fn conversations(mut self, context: u64, slots: u64) -> Config {
        self.language_model = gguf::Options { context: Some(context), slots, ..self.language_model };
        self
    }

    /// Sets whether the module of a GGUF file has the function for embeddings.
    pub fn embeddings(mut self, are_compiled: bool) -> Config {
        self.language_model.embeddings = are_compiled;
        self
    }

    /// Sets how an ONNX model is imported, all at once.
    pub fn import_options(mut self, options: ImportOptions) -> Config {
        self.import = options;
        self
    }

    /// Translates a module file to `NAME.rs` and the files that it includes. A model (`.onnx`, `.gguf`, `.mlir`, `.mlirbc`) is compiled
    /// first, by [IREE's compiler](crate::compiler); where there is none, the module `NAME.vmfb` beside the model is taken, which
    /// `incarnate compile NAME.onnx -o NAME.vmfb` writes, with a warning if it was made of another version of the model.
    ///
    /// In a build script, cargo runs the script again when a file changes that it reads. Files with unchanged contents are not
    /// written. If an error occurs, no file is changed. Relative paths start at the package's folder.
    ///
    /// # Errors
    /// The errors of the module, with its file and the location in it; those of the compiler; errors of writing files.
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
        let compiled = self.compiled(module, || Compiler::find(None))?;
        let module = compiled.as_ref().map_or(module, ModuleFile::path);
        let out_dir = match &self.out_dir {
            Some(directory) => directory.clone(),
            None => std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| {
                Error::failed_precondition(
                    "OUT_DIR is not set: this is not a build script, so set a folder with `out_dir`",
                )
            })?,
        };
        let mut options = self.options()?;
        if let Some(architecture) = &self.architecture {
            options.target = crate::options::Target { architecture: architecture.clone(), is_certain: true };
        }
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
        let chunks = out_dir.join(format!("{stem}.chunks"));
        remove_stale(&chunks, &out_dir, &files)
            .map_err(|error| failed(&format!("removing old files of '{}':", chunks.display()), &error))?;
        let lengths = files.iter().map(|file| (out_dir.join(&file.path), file.contents.len() as u64));
        Ok(Written {
            source: out_dir.join(format!("{stem}.rs")),
            files: lengths.collect(),
            executables,
            loops,
            static_libraries,
        })
    }

    /// Returns the module of a model; `None` for what is a module itself.
    fn compiled(&self, model: &Path, find: impl FnOnce() -> Result<Compiler>) -> Result<Option<ModuleFile>> {
        // A missing file is an error of the translation.
        let Ok(Some(_)) = ModelFormat::of(model) else { return Ok(None) };
        let beside = model.with_extension("vmfb");
        if is_build_script() {
            println!("cargo::rerun-if-env-changed=IREE_COMPILE");
            println!("cargo::rerun-if-changed={}", beside.display());
            for weights in files_of(model)?.iter().skip(1) {
                println!("cargo::rerun-if-changed={}", weights.display());
            }
        }
        let target = self.compile_target.clone().unwrap_or(Target::Portable);
        let (import, language_model) = (self.import.clone(), self.language_model.clone());
        let options = CompileOptions { import, language_model, ..target.into() };
        match find() {
            Ok(compiler) => {
                let warn = |event| match event {
                    Event::TakingF32(float) if is_build_script() => {
                        println!("cargo::warning='{}': {float}", model.display());
                    }
                    Event::LeavingOut(left_out) if is_build_script() => {
                        println!("cargo::warning='{}': {left_out}", model.display());
                    }
                    Event::NotKept(why) if is_build_script() => println!("cargo::warning={why}"),
                    _ => {}
                };
                compiler.compile(model, &options, warn).map(ModuleFile::Compiled).map(Some)
            }
            Err(_) if beside.is_file() => {
                if is_build_script() && !Source::of(model)?.is_of(&beside) {
                    println!(
                        "cargo::warning='{}' was not made of this '{}': `incarnate compile` makes it anew ({INSTALL})",
                        beside.display(),
                        model.display()
                    );
                }
                Ok(Some(ModuleFile::Beside(beside)))
            }
            Err(error) => {
                let instead = format!("and there is no module '{}' to take instead", beside.display());
                Err(error.context(format!("compiling '{}', {instead}", model.display())))
            }
        }
    }

    /// The options, with the Rust that the user wrote parsed.
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

/// The module that a model becomes.
#[derive(Debug)]
enum ModuleFile {
    /// That of a compilation. It may be deleted with this value.
    Compiled(Compiled),
    /// The file beside the model.
    Beside(PathBuf),
}

impl ModuleFile {
    fn path(&self) -> &Path {
        match self {
            ModuleFile::Compiled(compiled) => compiled.path(),
            ModuleFile::Beside(path) => path,
        }
    }
}

fn generate(module: &Path, options: &Options, stem: &str) -> Result<(Vec<File>, Vec<String>, Vec<LoopRemark>)> {
    let verified = VerifiedModule::load(Arc::new(Contents::read(module)?))?;
    let output = crate::generate(&verified, options)?;
    let mut files = output.files(stem)?;
    if matches!(options.constants, Constants::Loaded(_)) {
        files.push(File { path: format!("{stem}.constants.bin").into(), contents: output.constants().to_vec() });
    }
    Ok((files, output.report().to_vec(), output.loops().to_vec()))
}

/// Writes the files whose contents changed: all to temporary names first, and then renames them.
fn write(directory: &Path, files: &[File]) -> Result<()> {
    let mut temporaries: Vec<(TempPath, PathBuf)> = Vec::new();
    for file in files {
        let path = directory.join(&file.path);
        let context = |error: io::Error| failed(&format!("writing '{}':", path.display()), &error);
        if fs::read(&path).is_ok_and(|found| found == file.contents) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(context)?;
        }
        let temporary = temporary_for(&path).and_then(|mut temporary| {
            temporary.write_all(&file.contents)?;
            Ok(temporary.into_temp_path())
        });
        temporaries.push((temporary.map_err(context)?, path));
    }
    // The main file is the first and is renamed last, when all files that it includes exist. Those that are not renamed are removed.
    while let Some((temporary, path)) = temporaries.pop() {
        temporary.persist(&path).map_err(|error| failed(&format!("writing '{}':", path.display()), &error.error))?;
    }
    Ok(())
}

/// Creates a file that can be renamed to `path`, with the permissions of an ordinary new file and a name that no other process has.
fn temporary_for(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".incarnate-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Removes the chunks of an earlier translation that this one does not write.
fn remove_stale(chunks: &Path, directory: &Path, files: &[File]) -> io::Result<()> {
    let paths: HashSet<PathBuf> = files.iter().map(|file| directory.join(&file.path)).collect();
    let entries = match fs::read_dir(chunks) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if !paths.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    if !paths.iter().any(|path| path.starts_with(chunks)) {
        fs::remove_dir(chunks)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn without_a_compiler_the_module_beside_a_model_is_taken() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let path = |found: Option<ModuleFile>| found.map(|found| found.path().to_owned());
        let none = || Err(Error::not_found("no compiler"));
        let (model, beside) = (folder.join("net.onnx"), folder.join("net.vmfb"));
        assert_eq!(path(Config::new().compiled(&model, none).unwrap()), None);
        fs::write(&model, b"model").unwrap();
        let error = Config::new().compiled(&model, none).unwrap_err().to_string();
        assert!(error.contains("net.onnx") && error.contains("net.vmfb") && error.contains("no compiler"), "{error}");
        fs::write(&beside, b"module").unwrap();
        assert_eq!(path(Config::new().compiled(&model, none).unwrap()), Some(beside.clone()));
        assert_eq!(path(Config::new().compiled(&beside, none).unwrap()), None);
        let source = Source::of(&model).unwrap();
        assert!(!source.is_of(&beside));
        fs::write(Source::path_for(&beside), source.text()).unwrap();
        assert!(source.is_of(&beside));
        fs::write(&model, b"another model").unwrap();
        assert!(!Source::of(&model).unwrap().is_of(&beside));
    }
}
