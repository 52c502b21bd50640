//! `incarnate compile`, which runs IREE's compiler.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::compiler::{self, ModelFormat, Source, Target};

use super::Verdict;
use super::console::Console;
use super::models::{CompilerArguments, NotKeptNote, compile_model};
use crate::tooling::atomic_file;

#[derive(Debug, Args)]
pub(super) struct CompileArguments {
    /// The model: .onnx, .gguf, .mlir, .mlirbc, or a folder of Hugging Face.
    #[arg(value_name = "MODEL", required_unless_present_any = ["setup", "flags"])]
    model: Option<PathBuf>,
    /// The module to write. NAME.source beside it tells build scripts which model it was made of.
    #[arg(short, long, value_name = "FILE.vmfb", required_unless_present = "setup")]
    output: Option<PathBuf>,
    /// Leave the weights of an ONNX model out of the module: they are written to this file, .irpa or .safetensors, which programs name
    /// as --parameters=model=FILE.
    #[arg(long, value_name = "FILE", requires = "output")]
    parameters: Option<PathBuf>,
    /// Print what the import of an ONNX model did.
    #[arg(long)]
    report: bool,
    /// Install the compiler from PyPI in an environment of its own, in the user's cache. It is used where no other compiler is
    /// named or in PATH.
    #[arg(long, conflicts_with_all = ["model", "output", "iree_compile", "target", "flags"])]
    setup: bool,
    #[command(flatten)]
    compiler: CompilerArguments,
    /// Flags for the compiler, after --. The first word there is the model if none stands before.
    #[arg(last = true, value_name = "FLAG")]
    flags: Vec<OsString>,
}

pub(super) fn compile(arguments: &CompileArguments, out: &mut Console) -> Result<Verdict> {
    let Some(output) = &arguments.output else { return set_up(out) };
    let mut words = arguments.flags.iter();
    let model = arguments.model.clone().or_else(|| words.next().map(PathBuf::from));
    let model = &model.ok_or_else(|| Error::invalid_argument("no model is named"))?;
    let text = |word: &OsString| {
        let text = word.clone().into_string();
        text.map_err(|word| Error::invalid_argument(format!("the flag '{}' is not UTF-8", word.display())))
    };
    let flags: Vec<String> = words.map(text).collect::<Result<_>>()?;
    let target = arguments.compiler.target().cloned().unwrap_or(Target::Portable);
    if arguments.report && ModelFormat::of(model)?.is_some_and(|format| format != ModelFormat::Onnx) {
        let model = model.display();
        return Err(Error::invalid_argument(format!(
            "'{model}' is no ONNX model, of whose import --report is: leave it out"
        )));
    }
    // Before the compilation: a model that changes meanwhile is not the source of the module.
    let source = Source::of(model)?;
    let mut options = arguments.compiler.options(target.clone(), flags);
    let weights = arguments.parameters.as_deref().map(weights_beside).transpose()?;
    options.weights = weights.as_ref().map(|file| file.path().to_owned());
    let compiled = compile_model(model, &arguments.compiler, &options, &mut NotKeptNote::default())?;
    if let (Some(weights), Some(path)) = (weights, &arguments.parameters) {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => {
                let kept = weights.persist(path).map_err(|error| error.error);
                drop(kept.context(|| format!("writing '{}'", path.display()))?);
            }
            _ => super::parameters::archive(weights.path(), path)?,
        }
    }
    let length = atomic_file::write(output, |temporary| fs::copy(compiled.path(), temporary))?;
    atomic_file::write(&Source::path_for(output), |temporary| fs::write(temporary, source.text()))?;
    if arguments.report {
        let imported = compiler::onnx::import(&compiler::onnx::Model::open(model)?, &options.import)?;
        let lines: String = imported.report().lines().map(|line| format!("{}\n", Escaped(line))).collect();
        out.write_all(lines.as_bytes()).context(|| "writing to standard output")?;
    }
    writeln!(out, "{} ({length} bytes, for {target})", output.display()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}

/// Creates the file that weights are written to before they become an archive. It stands beside the archive, where there is space for it.
fn weights_beside(archive: &Path) -> Result<tempfile::NamedTempFile> {
    let folder = archive.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::Builder::new().prefix(".weights-").suffix(".safetensors").tempfile_in(folder);
    file.context(|| format!("writing '{}'", archive.display()))
}

/// Creates the managed environment, with a line before each step.
fn set_up(out: &mut Console) -> Result<Verdict> {
    let mut written = Ok(());
    let program = compiler::set_up(|line| {
        if written.is_ok() {
            written = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    })?;
    written.and_then(|()| writeln!(out, "{}", program.display())).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}
