//! IREE's compiler: from a model to a module.
//!
//! `iree-compile` is a program of the Python package `iree-base-compiler`. It is found and run here; what it compiles is kept in the user's
//! cache, by all that the module depends on. Without a cache it is compiled every time. ONNX models and language models are
//! imported first: [`incarnate_onnx`], [`incarnate_gguf`].

mod cache;
mod casts;
mod core_text;
mod environment;
mod failure;
mod format;
mod globals;
mod hash;
mod import;
mod key;
mod prepare;
mod process;
mod processor;
mod source;
mod target;

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use incarnate_bytecode::{DECLARATION, Error, Result};

use crate::file_error::failed;
use cache::{Cache, Scratch};
use core_text::{Changes, Wanted};
use failure::Subject;
use key::Inputs;
use prepare::Prepared;
use process::{as_argument, in_path, run};

pub use cache::cache_folder;
pub use environment::{PACKAGES, set_up};
pub use format::{ModelFormat, kind_of};
pub use incarnate_gguf as gguf;
pub use incarnate_onnx as onnx;
pub use incarnate_onnx::Options as ImportOptions;
pub use processor::identity as processor_identity;
pub use source::Source;
pub(crate) use source::files_of;
pub use target::{LackingFloat, Target};

/// Environment variable that names the compiler.
const VARIABLE: &str = "IREE_COMPILE";
/// The name of the compiler's program.
const PROGRAM: &str = "iree-compile";
/// What to type if there is no compiler.
pub(crate) const INSTALL: &str = "`incarnate compile --setup` installs it";

/// The name of the program that prints MLIR bytecode as text, in the same package.
const PRINTER: &str = "iree-opt";
/// The most bytes of a model in MLIR bytecode that is printed as text for the names of its inputs; the text of weights has twice the
/// bytes.
const PRINTED: u64 = 64 << 20;

/// An installed compiler.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
}

/// How a model is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// What it is compiled for.
    pub target: Target,
    /// Flags for IREE's compiler.
    pub flags: Vec<String>,
    /// How an ONNX model is imported.
    pub import: ImportOptions,
    /// How a language model is imported.
    pub language_model: gguf::Options,
    /// A file that the weights of an ONNX model are written to, as safetensors. The module has no weights then: they are its
    /// parameters, of the scope [`onnx::SCOPE`].
    pub weights: Option<PathBuf>,
}

impl From<Target> for CompileOptions {
    fn from(target: Target) -> CompileOptions {
        CompileOptions {
            target,
            flags: Vec::new(),
            import: ImportOptions::default(),
            language_model: gguf::Options::default(),
            weights: None,
        }
    }
}

/// What happens in a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The compiler starts, which takes from a second to minutes.
    Starting,
    /// The compiler lacks operations on a type of floats for the target, and starts again with f32 for all of them.
    TakingF32(LackingFloat),
    /// The module has the language model alone of a model of several modalities.
    LeavingOut(LeftOut),
    /// The module is not kept for the next time.
    NotKept(NotKept),
}

/// What a module of a language model is without. Its text is a note for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut(String);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} are left out: the module has the language model alone", self.0)
    }
}

/// Why a module is not kept in the user's cache. Its text is a note for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotKept(String);

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compiled models are not kept: {}", self.0)
    }
}

/// The module of a model.
#[derive(Debug)]
pub struct Compiled {
    path: PathBuf,
    /// The folder of a module that is not in the cache.
    scratch: Option<Scratch>,
}

impl Compiled {
    /// Returns the path of the module. If it [is kept](Compiled::is_kept), the file stays as it is for as long as it is not
    /// deleted; else it is deleted with this value.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the module is in the user's cache.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.scratch.is_none()
    }

    /// Moves the module to the cache; after an error it is where it was.
    fn kept(self, cache: &Cache, key: &str, name: &str) -> (Compiled, Option<Error>) {
        let kept = self.scratch.as_ref().map(|scratch| cache.keep(scratch, &self.path, key, name));
        match kept {
            Some(Ok(path)) => (Compiled { path, scratch: None }, None),
            Some(Err(error)) => (self, Some(error)),
            None => (self, None),
        }
    }
}

/// One compilation.
#[derive(Clone, Copy)]
struct Job<'a> {
    model: &'a Path,
    format: ModelFormat,
    /// The flags of the target and those of the user.
    arguments: &'a [String],
    import: &'a ImportOptions,
    /// A language model as MLIR.
    imported: Option<&'a str>,
    /// What it is without.
    left_out: Option<&'a LeftOut>,
    weights: Option<&'a Path>,
    /// Whether flags or the model may name files, whose relative paths start at the current folder.
    names_files: bool,
}

impl Compiler {
    /// Finds the compiler: the named program, or that of the variable `IREE_COMPILE`, or `iree-compile` in `PATH`, or that of the
    /// [managed environment](set_up).
    ///
    /// # Errors
    /// NOT_FOUND if there is none; the message says how to install it.
    pub fn find(named: Option<&Path>) -> Result<Compiler> {
        let variable = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(program) = named.map(Path::to_owned).or(variable) {
            return match in_path(program.as_os_str()) {
                Some(program) => Ok(Compiler { program }),
                None => Err(Error::not_found(format!("there is no compiler '{}': {INSTALL}", program.display()))),
            };
        }
        match in_path(PROGRAM.as_ref()).or_else(environment::compiler) {
            Some(program) => Ok(Compiler { program }),
            None => Err(Error::not_found(format!("{PROGRAM}, which compiles models, is not in PATH: {INSTALL}"))),
        }
    }

    /// Returns the path of the program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns a hash of all that [`compile`](Compiler::compile) makes the module of a language model of, apart from this library: the header of
    /// its file, the options and the compiler. The model is not imported for it.
    ///
    /// # Errors
    /// Errors of reading the model.
    pub fn key_of_language_model(&self, model: &Path, options: &CompileOptions) -> Result<String> {
        let arguments = [options.target.flags(), vec![format!("{options:?}")]].concat();
        Inputs::new(&import::name_of(model), &arguments, &[self.program()]).key(model)
    }

    /// Compiles a model, or finds the result of an earlier compilation in the user's cache. `notify` is told what happens, unless
    /// the result is in the cache. Where there is no cache, or none that can be written, the module goes to a temporary folder.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the file is not a model; the compiler's first error as INVALID_ARGUMENT, with the line of the model
    /// that it is about; INTERNAL if the compiler crashes; errors of reading and writing files.
    pub fn compile(&self, model: &Path, options: &CompileOptions, mut notify: impl FnMut(Event)) -> Result<Compiled> {
        let CompileOptions { target, flags, import, language_model, weights } = options;
        let format = ModelFormat::of(model)?.ok_or_else(|| format::not_a_model(model))?;
        let is_onnx = format == ModelFormat::Onnx;
        if !is_onnx && (weights.is_some() || *import != ImportOptions::default()) {
            return Err(Error::invalid_argument(format!(
                "'{}' is no ONNX model, and --dim, --shape, --inputs, --outputs and --parameters are for the import of those: leave them out",
                model.display()
            )));
        }
        if !format.is_language_model() && *language_model != gguf::Options::default() {
            return Err(Error::invalid_argument(format!(
                "'{}' is no language model, and --context, --slots, --activations and --embeddings are for the import of those: leave them out",
                model.display()
            )));
        }
        let import = &ImportOptions { is_portable: is_onnx && *target == Target::Portable, ..import.clone() };
        let arguments: Vec<String> = target.flags().into_iter().chain(flags.iter().cloned()).collect();
        let names_files = weights.is_some()
            || key::flags_name_files(flags)
            || !format.is_imported() && with_path(key::model_names_files(model), "reading", model)?;
        let is_portable = format.is_language_model() && *target == Target::Portable;
        let language_model = &gguf::Options { is_portable, ..language_model.clone() };
        let (text, left_out) = match format.is_language_model() {
            true => {
                let imported =
                    import::language_model(model, language_model).map_err(|error| refused(model, format, error))?;
                (Some(imported.0), imported.1)
            }
            false => (None, None),
        };
        let (weights, imported, left_out) = (weights.as_deref(), text.as_deref(), left_out.as_ref());
        let job = Job { model, format, arguments: &arguments, import, imported, left_out, weights, names_files };
        let name = &*import::name_of(model);
        if job.names_files {
            // The flags and the model are the user's: a note would say nothing new.
            notify(Event::Starting);
            return self.compile_into(Scratch::temporary()?, &job, &mut notify);
        }
        let reader = (format == ModelFormat::MlirBytecode).then(|| self.beside(PRINTER));
        let programs: Vec<&Path> = [Some(self.program()), reader.as_deref()].into_iter().flatten().collect();
        // Options of the import are inputs as flags are.
        let mut keyed = arguments.clone();
        if *import != ImportOptions::default() {
            keyed.push(format!("{import:?}"));
        }
        let current_key = || {
            let inputs = Inputs::new(name, &keyed, &programs);
            // A language model is what its import makes of it: its weights do not change the module.
            match imported {
                Some(text) => Ok(inputs.key_of_text(text)),
                None => inputs.key(model),
            }
        };
        let key = current_key()?;
        let cache = Cache::open();
        if let Some(path) = cache.as_ref().ok().and_then(|cache| cache.find(&key, name)) {
            return Ok(Compiled { path, scratch: None });
        }
        let opened = cache.and_then(|cache| Ok((cache.scratch()?, cache)));
        notify(Event::Starting);
        let not_kept = match opened {
            Ok((scratch, cache)) => match self.compile_into(scratch, &job, &mut notify) {
                // A model or a compiler that was replaced meanwhile may be what was compiled or run.
                Ok(compiled) if current_key().ok().as_ref() != Some(&key) => return Ok(compiled),
                Ok(compiled) => {
                    let (compiled, error) = compiled.kept(&cache, &key, name);
                    error.into_iter().for_each(|error| notify(Event::NotKept(NotKept(error.to_string()))));
                    return Ok(compiled);
                }
                // The folder of temporary files may have space.
                Err(error) if failure::is_full_disk(&error) && cache::probe(&env::temp_dir()).is_ok() => {
                    cache.probe().err().unwrap_or(error)
                }
                Err(error) => return Err(error),
            },
            Err(error) => error,
        };
        notify(Event::NotKept(NotKept(not_kept.to_string())));
        self.compile_into(Scratch::temporary()?, &job, &mut notify)
    }

    /// Compiles in a folder, which the result keeps.
    fn compile_into(&self, scratch: Scratch, job: &Job<'_>, notify: &mut dyn FnMut(Event)) -> Result<Compiled> {
        let path = self.compiled_in(&scratch, job, notify).map_err(|error| refused(job.model, job.format, error))?;
        Ok(Compiled { path, scratch: Some(scratch) })
    }

    fn compiled_in(&self, scratch: &Scratch, job: &Job<'_>, notify: &mut dyn FnMut(Event)) -> Result<PathBuf> {
        let output = scratch.path("model.vmfb");
        job.left_out.into_iter().for_each(|left_out| notify(Event::LeavingOut(left_out.clone())));
        let mut arguments = job.arguments.to_vec();
        let imported = match (job.imported, job.format) {
            (Some(text), _) => Some(import::written(scratch, job.model, text)?),
            (None, ModelFormat::Onnx) => Some(import::imported_onnx(scratch, job.model, job.import, job.weights)?),
            (None, _) => None,
        };
        let generated = match &imported {
            Some(imported) => {
                arguments.extend(imported.flags.iter().cloned());
                Some(imported.mlir.clone())
            }
            None => self.prepared(scratch, job),
        };
        let mut source =
            generated.map_or_else(|| Input::Model(job.model.to_owned()), |path| Input::generated(path, job));
        let mut copies = 0;
        if let Some((changed, changes)) = self.with_changed_text(scratch, &source, job) {
            arguments.push(format!("--compile-from={}", core_text::PHASE));
            let done = self.attempt(scratch, &Input::generated(changed, job), &output, &mut arguments, notify)?;
            if done.status.success() && output.exists() {
                return Ok(output);
            }
            // Errors are about the model as it is.
            arguments.pop();
            copies = changes.copies;
        }
        let mut done = self.attempt(scratch, &source, &output, &mut arguments, notify)?;
        if failure::is_refusal(&done) && !job.format.is_imported() && source.path() != job.model {
            // The changes are no reason to fail, and errors are about the model as it is. So a model that the compiler refuses for
            // another reason is compiled twice.
            source = Input::Model(job.model.to_owned());
            done = self.attempt(scratch, &source, &output, &mut arguments, notify)?;
        }
        if done.status.success() && output.exists() {
            return if copies == 0 { Ok(output) } else { Err(shared_globals()) };
        }
        let dynamic = imported.map(|imported| imported.dynamic).unwrap_or_default();
        let subject = Subject { source: source.path(), named: &source.named(), format: job.format, dynamic: &dynamic };
        Err(failure::of_compiler(&done, &subject))
    }

    /// Runs the compiler, again with f32 for each type of floats that it lacks operations on.
    fn attempt(
        &self,
        scratch: &Scratch,
        source: &Input,
        output: &Path,
        arguments: &mut Vec<String>,
        notify: &mut dyn FnMut(Event),
    ) -> Result<Output> {
        loop {
            let mut compile = Command::new(&self.program);
            source.pass_to(&mut compile, scratch)?;
            let done = run(compile.arg("-o").arg(output).args(&*arguments))?;
            let lacking = if done.status.success() { None } else { LackingFloat::of(&done.stderr, arguments) };
            let Some(float) = lacking else { return Ok(done) };
            notify(Event::TakingF32(float));
            float.take_f32(arguments);
        }
    }

    /// Writes a model as [core dialects with changes](core_text); `None` if there is nothing to change.
    fn with_changed_text(&self, scratch: &Scratch, source: &Input, job: &Job<'_>) -> Option<(PathBuf, Changes)> {
        if job.format.is_imported() || job.arguments.iter().any(|argument| argument.starts_with("--compile-")) {
            return None;
        }
        let wanted = Wanted::of(source.path(), job.arguments)?;
        let (core, changed) = (scratch.path("core.mlir"), scratch.path("changed.mlir"));
        let mut convert = Command::new(&self.program);
        source.pass_to(&mut convert, scratch).ok()?;
        let phase = format!("--compile-to={}", core_text::PHASE);
        let done =
            run(convert.args(job.arguments).arg(phase).arg("--mlir-print-debuginfo").arg("-o").arg(&core)).ok()?;
        let changes = if done.status.success() { wanted.write(&core, &changed).ok()? } else { Changes::default() };
        (changes != Changes::default()).then_some((changed, changes))
    }

    /// Writes the text of a model as it is compiled; `None` if there is nothing to change.
    fn prepared(&self, scratch: &Scratch, job: &Job<'_>) -> Option<PathBuf> {
        let model = job.model;
        let path = scratch.path(&format!("{}.mlir", model.file_stem()?.to_string_lossy()));
        let text = match job.format {
            ModelFormat::MlirBytecode => self.printed(scratch, model)?,
            ModelFormat::Mlir => fs::read(model).ok()?,
            ModelFormat::Onnx | ModelFormat::Gguf | ModelFormat::HuggingFace => return None,
        };
        let prepared = Prepared::of(&text)?;
        let mut file = BufWriter::new(File::create(&path).ok()?);
        prepared.write(&mut file).and_then(|()| file.flush()).ok()?;
        Some(path)
    }

    /// Prints a model in MLIR bytecode as text; `None` if it has a declaration, many bytes, or operations of a later version.
    fn printed(&self, scratch: &Scratch, model: &Path) -> Option<Vec<u8>> {
        fs::metadata(model).ok().filter(|metadata| metadata.len() <= PRINTED)?;
        let bytes = fs::read(model).ok()?;
        let declaration = DECLARATION.as_bytes();
        if bytes.windows(declaration.len()).any(|window| window == declaration) {
            return None;
        }
        let text = scratch.path("printed.mlir");
        let mut print = Command::new(self.beside(PRINTER));
        print.arg(as_argument(model)).args(["--mlir-print-debuginfo", "-o"]).arg(&text);
        run(&mut print).ok().filter(|done| done.status.success())?;
        fs::read(&text).ok()
    }

    /// Returns the path of another program of the compiler's package.
    fn beside(&self, program: &str) -> PathBuf {
        self.program.with_file_name(format!("{program}{}", env::consts::EXE_SUFFIX))
    }
}

/// What the compiler reads.
#[derive(Clone, Debug)]
enum Input {
    /// The model's file, or one in the scratch folder whose path is passed as a whole.
    Model(PathBuf),
    /// A file in the scratch folder, where the compiler runs, so that locations have the file's name alone.
    InFolder(PathBuf),
    /// A file in the scratch folder as the standard input of the compiler, which runs in the current folder.
    Piped(PathBuf),
}

impl Input {
    /// A file in the scratch folder. Where flags may name files, the compiler runs in the current folder.
    fn generated(path: PathBuf, job: &Job<'_>) -> Input {
        match (job.names_files, job.format) {
            (false, _) => Input::InFolder(path),
            (true, ModelFormat::Onnx | ModelFormat::Gguf | ModelFormat::HuggingFace) => Input::Model(path),
            (true, ModelFormat::Mlir | ModelFormat::MlirBytecode) => Input::Piped(path),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Input::Model(path) | Input::InFolder(path) | Input::Piped(path) => path,
        }
    }

    /// Returns the file's name as the compiler is given it.
    fn named(&self) -> PathBuf {
        match self {
            Input::Model(path) => as_argument(path),
            Input::InFolder(path) => as_argument(path.file_name().unwrap_or_default().as_ref()),
            Input::Piped(_) => PathBuf::from("-"),
        }
    }

    fn pass_to(&self, compile: &mut Command, scratch: &Scratch) -> Result<()> {
        compile.arg(self.named());
        match self {
            Input::Model(_) => {}
            Input::InFolder(_) => drop(compile.current_dir(scratch.folder())),
            Input::Piped(path) => drop(compile.stdin(with_path(File::open(path), "reading", path)?)),
        }
        Ok(())
    }
}

/// The error of a model that does not compile: what it is, if that is something else than its name says.
#[cold]
fn refused(model: &Path, format: ModelFormat, error: Error) -> Error {
    format::explain_refused(model, format, error).context(format!("compiling '{}'", model.display()))
}

/// A module that would be wrong.
#[cold]
fn shared_globals() -> Error {
    Error::unimplemented(
        "several globals get one value, and the compiler would give them one buffer, so that a change of one changes the others: give \
         each a value of its own, or join them in one global",
    )
}

/// The error of a file operation, as [`io::Error`] with a path.
fn with_path<T>(result: io::Result<T>, what: &str, path: &Path) -> Result<T> {
    result.map_err(|error| failed(&format!("{what} '{}':", path.display()), &error))
}
