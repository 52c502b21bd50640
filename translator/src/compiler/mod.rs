//! IREE's compiler: from a model to a module.
//!
//! `iree-compile` and `iree-import-onnx` are programs of the Python package `iree-base-compiler`. They are found and run here;
//! what they compile is kept in the user's cache, by the contents of the model, the target and the compiler.

mod cache;
mod environment;
mod format;
mod onnx;
mod prepare;
mod source;
mod target;

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::UNIX_EPOCH;

use incarnate_bytecode::{DECLARATION, Error, Result, ResultExt};

use crate::config::failed;
use cache::{Cache, Scratch};
use prepare::Prepared;

pub use cache::cache_folder;
pub use environment::{PACKAGES, set_up};
pub use format::ModelFormat;
pub use source::Source;
pub(crate) use source::files_of;
pub use target::{LackingFloat, Target};

/// Environment variable that names the compiler.
const VARIABLE: &str = "IREE_COMPILE";
/// The name of the compiler's program.
const PROGRAM: &str = "iree-compile";
/// The name of the program that imports ONNX models, in the same package.
const IMPORTER: &str = "iree-import-onnx";
/// What to type if there is no compiler.
pub(crate) const INSTALL: &str = "`incarnate compile --setup` installs it";
/// The name of the program that prints MLIR bytecode as text, in the same package.
const PRINTER: &str = "iree-opt";
/// What is done to a model before it is compiled, as a part of the key of the result: changes with `prepare`.
const PREPARATION: &str = "prepared 1";
/// The most bytes of a model in MLIR bytecode that is printed as text for the names of its inputs; the text of weights has twice the
/// bytes.
const PRINTED: u64 = 64 << 20;

/// An installed compiler.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
}

/// What happens in a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The compiler starts, which takes from a second to minutes.
    Starting,
    /// The compiler lacks operations on a type of floats for the target, and starts again with f32 for all of them.
    TakingF32(LackingFloat),
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

    /// Compiles a model, or finds the result of an earlier compilation in the user's cache. Returns the path of the module there,
    /// which stays as it is for as long as it is not deleted. `notify` is told what happens, unless the result is in the cache.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the file is not a model; the compiler's first error as INVALID_ARGUMENT, with the line of the model
    /// that it is about; INTERNAL if the compiler crashes; errors of reading and writing files.
    pub fn compile(
        &self,
        model: &Path,
        target: &Target,
        flags: &[String],
        mut notify: impl FnMut(Event),
    ) -> Result<PathBuf> {
        let format = ModelFormat::of(model)?.ok_or_else(|| {
            Error::invalid_argument(format!("'{}' is not a model: .onnx, .mlir or .mlirbc", model.display()))
        })?;
        let cache = Cache::open()?;
        let arguments: Vec<String> = target.flags().into_iter().chain(flags.iter().cloned()).collect();
        let key = cache::key(model, &[&arguments.join("\n"), &self.identity(), PREPARATION])?;
        let name = model.file_stem().and_then(OsStr::to_str).unwrap_or("model");
        if let Some(module) = cache.find(&key, name) {
            return Ok(module);
        }
        notify(Event::Starting);
        let scratch = cache.scratch()?;
        let compiled = self.compile_into(&scratch, model, format, arguments, flags.is_empty(), &mut notify);
        let compiled = compiled.map_err(|error| format::explain_refused(model, error));
        let compiled = compiled.context(|| format!("compiling '{}'", model.display()))?;
        cache.keep(&compiled, &key, name)
    }

    /// Returns what tells a compiler from other versions of it: a version's installation writes the program anew.
    fn identity(&self) -> String {
        let metadata = fs::metadata(&self.program).ok();
        let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        let modified = modified.and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()));
        format!("{} {:?} {:?}", self.program.display(), metadata.map(|metadata| metadata.len()), modified)
    }

    /// `is_plain` says that no flag of the user's names files relative to the current folder.
    fn compile_into(
        &self,
        scratch: &Scratch,
        model: &Path,
        format: ModelFormat,
        mut arguments: Vec<String>,
        is_plain: bool,
        notify: &mut dyn FnMut(Event),
    ) -> Result<PathBuf> {
        let output = scratch.path("model.vmfb");
        let mut source = match format {
            ModelFormat::Onnx => Input::InFolder(self.import(scratch, model)?),
            ModelFormat::Mlir | ModelFormat::MlirBytecode => match self.prepared(scratch, model, format) {
                Some(prepared) if is_plain => Input::InFolder(prepared),
                Some(prepared) => Input::Piped(prepared),
                None => Input::Model(model.to_owned()),
            },
        };
        let mut done = self.attempt(scratch, &source, &output, &mut arguments, notify)?;
        if !done.status.success() && format != ModelFormat::Onnx && source.path() != model {
            // The changes are no reason to fail, and errors are about the model as it is.
            source = Input::Model(model.to_owned());
            done = self.attempt(scratch, &source, &output, &mut arguments, notify)?;
        }
        if done.status.success() && output.exists() {
            return Ok(output);
        }
        let nodes = match format {
            ModelFormat::Onnx => fs::read(model).map(|bytes| onnx::nodes(&bytes)).unwrap_or_default(),
            _ => Vec::new(),
        };
        Err(compile_error(&done, source.path(), format, &nodes))
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

    /// Writes the text of a model as it is compiled; `None` if there is nothing to change.
    fn prepared(&self, scratch: &Scratch, model: &Path, format: ModelFormat) -> Option<PathBuf> {
        let path = scratch.path(&format!("{}.mlir", model.file_stem()?.to_string_lossy()));
        let text = match format {
            ModelFormat::MlirBytecode => self.printed(scratch, model)?,
            ModelFormat::Mlir | ModelFormat::Onnx => fs::read(model).ok()?,
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
        let printer = self.program.with_file_name(format!("{PRINTER}{}", env::consts::EXE_SUFFIX));
        let text = scratch.path("printed.mlir");
        let mut print = Command::new(printer);
        print.arg(model).args(["--mlir-print-debuginfo", "-o"]).arg(&text);
        run(&mut print).ok().filter(|done| done.status.success())?;
        fs::read(&text).ok()
    }

    /// Imports an ONNX model as MLIR text that declares its names and types.
    fn import(&self, scratch: &Scratch, model: &Path) -> Result<PathBuf> {
        let beside = self.program.with_file_name(format!("{IMPORTER}{}", env::consts::EXE_SUFFIX));
        let importer = if beside.is_file() { Some(beside) } else { in_path(IMPORTER.as_ref()) };
        let importer = importer.ok_or_else(|| {
            Error::not_found(format!(
                "{IMPORTER}, which reads ONNX, is neither beside {PROGRAM} nor in PATH: {INSTALL}"
            ))
        })?;
        // Locations in the module name the file.
        let name = model.file_stem().unwrap_or("model".as_ref());
        let imported = scratch.path(&format!("{}.mlir", name.to_string_lossy()));
        let done = run(Command::new(importer).arg(model).arg("-o").arg(&imported))?;
        if !done.status.success() {
            return Err(import_error(&done));
        }
        let text = with_path(fs::read(&imported), "reading", &imported)?;
        let names = onnx::names(&with_path(fs::read(model), "reading", model)?);
        if let Some(declared) = onnx::declare(&text, &names) {
            with_path(fs::write(&imported, declared), "writing", &imported)?;
        }
        Ok(imported)
    }
}

/// What the compiler reads.
#[derive(Clone, Debug)]
enum Input {
    /// The model's file.
    Model(PathBuf),
    /// A file in the scratch folder, where the compiler runs, so that locations have the file's name alone.
    InFolder(PathBuf),
    /// A file in the scratch folder as the standard input of the compiler, which runs in the current folder.
    Piped(PathBuf),
}

impl Input {
    fn path(&self) -> &Path {
        match self {
            Input::Model(path) | Input::InFolder(path) | Input::Piped(path) => path,
        }
    }

    fn pass_to(&self, compile: &mut Command, scratch: &Scratch) -> Result<()> {
        match self {
            Input::Model(path) => compile.arg(path),
            Input::InFolder(path) => {
                let name = Path::new(path.file_name().unwrap_or_default());
                // A name that begins with a hyphen would be a flag.
                let is_flag = name.as_os_str().as_encoded_bytes().starts_with(b"-");
                let name = if is_flag { Path::new(".").join(name) } else { name.to_owned() };
                compile.arg(name).current_dir(scratch.folder())
            }
            Input::Piped(path) => compile.arg("-").stdin(with_path(File::open(path), "reading", path)?),
        };
        Ok(())
    }
}

/// Finds a program by its path, or by its name in `PATH`.
fn in_path(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        // Programs run in other folders.
        return std::path::absolute(path).ok().filter(|path| path.is_file());
    }
    let folders = env::var_os("PATH")?;
    let file = |folder: PathBuf| {
        let path = folder.join(program);
        let with_suffix = path.with_extension(env::consts::EXE_EXTENSION);
        [path, with_suffix].into_iter().find(|path| path.is_file())
    };
    env::split_paths(&folders).find_map(file)
}

fn run(command: &mut Command) -> Result<Output> {
    let name = Path::new(command.get_program()).display().to_string();
    command.output().map_err(|error| failed(&format!("running '{name}':"), &error))
}

/// Finds the first error among the compiler's messages, `FILE:LINE:COLUMN: error: TEXT`, and the line or the node of the model.
fn compile_error(done: &Output, source: &Path, format: ModelFormat, nodes: &[onnx::Node]) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    let Some((place, message)) = text.lines().find_map(|line| line.split_once(" error: ")) else {
        let is_crash = done.status.code().is_none() || text.contains("Stack dump:");
        let first = shortened(text.lines().next().unwrap_or("without a message"), SHOWN_OF_MESSAGE);
        let why = if is_crash { "a bug of the compiler that this model provokes" } else { &first };
        return Error::internal(format!("{PROGRAM} ended with {}: {why}", done.status));
    };
    let message = shortened(message, SHOWN_OF_MESSAGE);
    let mut numbers = place.trim_end_matches(':').rsplit(':').map(str::parse::<usize>);
    let line = match (numbers.next(), numbers.next()) {
        (Some(Ok(_column)), Some(Ok(line))) if line > 0 => line,
        _ => return Error::invalid_argument(format!("{PROGRAM}: {message}")),
    };
    let all = fs::read_to_string(source).unwrap_or_default();
    let of_source = all.lines().nth(line - 1).map(str::trim);
    let operator = of_source.and_then(onnx::operator);
    Error::invalid_argument(match (format, operator, of_source) {
        (ModelFormat::Onnx, Some(operator), _) => match onnx::node_at(&all, line, nodes) {
            Some(name) => format!("the node `{name}` (ONNX operator {operator}): {message}"),
            None => format!("the ONNX operator {operator}: {message}"),
        },
        (ModelFormat::Mlir, _, Some(text)) => format!("line {line} (`{}`): {message}", shortened(text, SHOWN_OF_LINE)),
        _ => format!("line {line}: {message}"),
    })
}

/// The most letters of a model's line that an error shows.
const SHOWN_OF_LINE: usize = 120;
/// The most letters of a compiler's message that an error shows.
const SHOWN_OF_MESSAGE: usize = 500;

/// The start of a text that may hold megabytes of weights.
fn shortened(text: &str, shown: usize) -> String {
    match text.char_indices().nth(shown) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The last line of a Python traceback says what is wrong.
fn import_error(done: &Output) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    if text.contains("No module named 'onnx'") {
        return Error::failed_precondition(format!("{IMPORTER} needs the Python package onnx: `pip install onnx`"));
    }
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message");
    Error::invalid_argument(format!("{IMPORTER}: {}", shortened(last, SHOWN_OF_MESSAGE)))
}

/// The error of a file operation, as [`io::Error`] with a path.
fn with_path<T>(result: io::Result<T>, what: &str, path: &Path) -> Result<T> {
    result.map_err(|error| failed(&format!("{what} '{}':", path.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_with_weights_are_shortened() {
        let weights = "0.5, ".repeat(100_000);
        let done = |text: String| Output { status: Default::default(), stdout: Vec::new(), stderr: text.into_bytes() };
        let error =
            |text: String| compile_error(&done(text), Path::new("missing.mlir"), ModelFormat::Mlir, &[]).to_string();
        for text in [format!("net.mlir:3:1: error: failed [{weights}]"), format!("fatal [{weights}]")] {
            let error = error(text);
            assert!(error.contains("[0.5, ") && error.ends_with("...") && error.len() < 1000, "{error}");
        }
    }
}
