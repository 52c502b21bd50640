//! The program of a language model, which is built once and kept.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_translator::compiler::{ModelFormat, Source, Target, cache_folder, kind_of, processor_identity};
use indicatif::ProgressBar;
use tempfile::TempDir;

use crate::Verdict;
use crate::arguments::ProjectArguments;
use crate::build::{Code, ProgramTarget, program};
use crate::models::{CompilerArguments, NotKeptNote, compile_model, show};

/// A command of the programs of models, which this command line passes on.
#[derive(Debug, Args)]
pub(crate) struct ModelCommand<O: Args> {
    /// The language model: a .gguf file, or a folder with config.json, weights and tokenizer in the layout of Hugging Face.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    #[command(flatten)]
    options: O,
    #[command(flatten)]
    compiler: CompilerArguments,
    #[command(flatten)]
    project: ProjectArguments,
}

/// Options of a command of the programs of models.
pub(crate) trait ModelOptions: Args {
    /// The command, and the feature of programs that have it.
    const COMMAND: &'static str;
    /// Conversations at a time, unless the command line names another number.
    const SLOTS: u64;
    /// Whether the command needs embeddings.
    const EMBEDDINGS: bool = false;

    /// Returns the words of a command line that has these options.
    fn words(&self) -> Vec<OsString>;
}

/// Runs a command of the program of a model, which is compiled and built if it is not in the user's cache.
///
/// # Errors
/// INVALID_ARGUMENT for a file of another format; errors of compiling, building and starting.
pub(crate) fn run_model<O: ModelOptions>(arguments: &ModelCommand<O>) -> Result<Verdict> {
    let model = &arguments.model;
    if !ModelFormat::of(model)?.is_some_and(ModelFormat::is_language_model) {
        let what =
            kind_of(model).map_or(": .gguf, or a folder with config.json".to_owned(), |kind| format!(" but {kind}"));
        return Err(Error::invalid_argument(format!("'{}' is no language model{what}", model.display())));
    }
    let compiler = arguments.compiler.clone().with_slots(O::SLOTS).with_embeddings(O::EMBEDDINGS);
    let target = compiler.target().cloned().unwrap_or(Target::Portable);
    let options = compiler.options(target, Vec::new());
    let compiled = compile_model(model, &compiler, &options, &mut NotKeptNote::default())?;
    let mut project = arguments.project.clone();
    project.feature.push(O::COMMAND.to_owned());
    let (program, temporary) = program_of(compiled.path(), model, &project)?;
    let mut command = Command::new(&program);
    command.arg(O::COMMAND).args(arguments.options.words()).arg("--").arg(model);
    match temporary {
        None => run(&mut command, &program),
        // The folder is deleted behind the program's end.
        Some(_folder) => wait_for(&mut command, &program),
    }
}

/// Returns the program of a module, which is built unless it is in the user's cache; where there is no cache, in a temporary folder.
fn program_of(module: &Path, model: &Path, project: &ProjectArguments) -> Result<(PathBuf, Option<TempDir>)> {
    let name = if model.is_dir() { model.file_name() } else { model.file_stem() };
    let name = name.unwrap_or("chat".as_ref());
    let cached = cache_folder().and_then(|cache| {
        let folder = cache.join("programs").join(key(module, project)?);
        fs::create_dir_all(&folder).context(|| format!("creating '{}'", folder.display()))?;
        Ok(folder.join(name))
    });
    let (path, temporary) = match cached {
        Ok(path) if path.is_file() => return Ok((path, None)),
        Ok(path) => (path, None),
        Err(_) => {
            let folder = tempfile::tempdir().context(|| "creating a temporary folder")?;
            (folder.path().join(name), Some(folder))
        }
    };
    let line = ProgressBar::new_spinner();
    show(&line, format!("building the program of {} ...", model.display()));
    let target = ProgramTarget::of(None, &project.target_cpu, None, false)?;
    let code = Code { untrusted: false, reassociate: false, unfuse: false };
    let built = program(&[module.to_owned()], None, &path, project, &target, code);
    line.finish_and_clear();
    built.map(|_| (path, temporary))
}

/// What a program depends on: the module, its options, the processor, and this command line, which has the translator.
fn key(module: &Path, project: &ProjectArguments) -> Result<String> {
    let module = Source::of(module)?.text();
    let mut hasher = DefaultHasher::new();
    (format!("{project:?}"), processor_identity()).hash(&mut hasher);
    let own = std::env::current_exe().and_then(|path| Ok((fs::metadata(&path)?, path)));
    if let Ok((metadata, path)) = own {
        (path, metadata.len(), metadata.modified().ok()).hash(&mut hasher);
    }
    let hash = module.split_whitespace().next().unwrap_or_default();
    Ok(format!("{hash}-{:016x}", hasher.finish()))
}

/// Runs a program in the place of this one, where the system can.
fn run(command: &mut Command, program: &Path) -> Result<Verdict> {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        let error = command.exec();
        Err(Error::internal(format!("running '{}': {error}", program.display())))
    }
    #[cfg(not(unix))]
    wait_for(command, program)
}

/// Runs a program to its end. Its errors are those that it has printed.
fn wait_for(command: &mut Command, program: &Path) -> Result<Verdict> {
    let status = command.status().context(|| format!("running '{}'", program.display()))?;
    match status.success() {
        true => Ok(Verdict::Success),
        false => Ok(Verdict::Failure(format!("'{}' ended with {status}", program.display()))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(crate) mod tests {
    use std::fmt::Debug;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line<O: Args> {
        #[command(flatten)]
        options: O,
    }

    /// The options of a command line.
    pub(crate) fn options<O: ModelOptions>(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> O {
        let words = words.into_iter().map(Into::into);
        Line::try_parse_from([OsString::from(O::COMMAND)].into_iter().chain(words)).unwrap().options
    }

    /// Checks that a program gets the options of a command line as they are.
    pub(crate) fn check_passed_on<O: ModelOptions + Debug + PartialEq>(line: &[&str]) {
        let given: O = options(line.iter().copied());
        assert_eq!(options::<O>(given.words()), given, "{line:?}");
    }
}
