//! The program of a language model, which is built once and kept.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

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
    let mut project = arguments.project.clone();
    project.feature.push(O::COMMAND.to_owned());
    let (program, temporary) = program_of(model, &compiler, &project)?;
    let mut command = Command::new(&program);
    command.arg(O::COMMAND).args(arguments.options.words()).arg("--").arg(model);
    match temporary {
        None => run(&mut command, &program),
        // The folder is deleted behind the program's end.
        Some(_folder) => wait_for(&mut command, &program),
    }
}

/// A program, and its folder where that is temporary.
type Program = (PathBuf, Option<TempDir>);

/// Returns the program of a model. In the user's cache it has two names, of which that of the model is found without an import: models with other
/// metadata can have the same module.
fn program_of(model: &Path, compiler: &CompilerArguments, project: &ProjectArguments) -> Result<Program> {
    let target = compiler.target().cloned().unwrap_or(Target::Portable);
    let options = compiler.options(target, Vec::new());
    let of_model = compiler
        .find_compiler()
        .and_then(|compiler| compiler.key_of_language_model(model, &options))
        .and_then(|key| cached(&key, model, project));
    if let Ok(path) = &of_model
        && path.is_file()
    {
        return Ok((path.clone(), None));
    }
    let compiled = compile_model(model, compiler, &options, &mut NotKeptNote::default())?;
    let (program, temporary) = program_of_module(compiled.path(), model, project)?;
    if let (Ok(path), None) = (of_model, &temporary) {
        // Without the name, the model is imported at the next start.
        let _ = create_folder_of(&path).and_then(|()| fs::hard_link(&program, &path));
    }
    Ok((program, temporary))
}

/// Returns the program of a module, which is built unless it is in the user's cache; where there is no cache, in a temporary folder.
fn program_of_module(module: &Path, model: &Path, project: &ProjectArguments) -> Result<Program> {
    let place = Source::of(module).and_then(|module| {
        let path = cached(module.text().split_whitespace().next().unwrap_or_default(), model, project)?;
        create_folder_of(&path).context(|| format!("creating the folder of '{}'", path.display()))?;
        Ok(path)
    });
    let (path, temporary) = match place {
        Ok(path) if path.is_file() => return Ok((path, None)),
        Ok(path) => (path, None),
        Err(_) => {
            let folder = tempfile::tempdir().context(|| "creating a temporary folder")?;
            (folder.path().join(name_of(model)), Some(folder))
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

/// The name of a model's program.
fn name_of(model: &Path) -> &OsStr {
    let name = if model.is_dir() { model.file_name() } else { model.file_stem() };
    name.unwrap_or("chat".as_ref())
}

fn create_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Returns the path of a model's program in the user's cache. A program depends on a hash, its options, the processor, and this command line,
/// which has the translator.
fn cached(hash: &str, model: &Path, project: &ProjectArguments) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (format!("{project:?}"), processor_identity()).hash(&mut hasher);
    let own = std::env::current_exe().and_then(|path| Ok((fs::metadata(&path)?, path)));
    if let Ok((metadata, path)) = own {
        (path, metadata.len(), metadata.modified().ok()).hash(&mut hasher);
    }
    let folder = format!("{hash}-{:016x}", hasher.finish());
    Ok(cache_folder()?.join("programs").join(folder).join(name_of(model)))
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
