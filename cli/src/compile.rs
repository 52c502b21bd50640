//! `incarnate compile`, and models in the place of modules: both run IREE's compiler.

use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::Prefer;
use incarnate_translator::compiler::{self, Compiled, Compiler, Event, ModelFormat, Source, Target};
use indicatif::ProgressBar;

use super::Verdict;
use super::console::Console;
use crate::tooling::atomic_file;

/// How models are compiled.
#[derive(Clone, Debug, Args)]
pub(super) struct CompilerArguments {
    /// The compiler, iree-compile; also as IREE_COMPILE, or in PATH.
    #[arg(long = "iree-compile", visible_alias = "iree_compile", value_name = "PATH", help_heading = "Models")]
    iree_compile: Option<PathBuf>,
    /// What a model is compiled for: native (machine code for this processor), portable (bytecode for every machine, fast where
    /// it is translated), both (in one file), vulkan[:ARCHITECTURE] (for GPUs), or TRIPLE[:CPU]. The default is native, and portable
    /// with --untrusted. `build` builds the program for TRIPLE[:CPU], too.
    #[arg(long, value_name = "TARGET", help_heading = "Models")]
    target: Option<Target>,
}

impl CompilerArguments {
    /// Returns what models are compiled for, if the command line names it.
    pub(super) fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }
}

#[derive(Debug, Args)]
pub(super) struct CompileArguments {
    /// The model: .onnx, .mlir or .mlirbc.
    #[arg(value_name = "MODEL", required_unless_present_any = ["setup", "flags"])]
    model: Option<PathBuf>,
    /// The module to write. NAME.source beside it tells build scripts which model it was made of.
    #[arg(short, long, value_name = "FILE.vmfb", required_unless_present = "setup")]
    output: Option<PathBuf>,
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
    let target = arguments.compiler.target.clone().unwrap_or(Target::Native);
    // Before the compilation: a model that changes meanwhile is not the source of the module.
    let source = Source::of(model)?;
    let compiled = compile_model(model, &arguments.compiler, &target, &flags, &mut NotKeptNote::default())?;
    let length = atomic_file::write(output, |temporary| fs::copy(compiled.path(), temporary))?;
    atomic_file::write(&Source::path_for(output), |temporary| fs::write(temporary, source.text()))?;
    writeln!(out, "{} ({length} bytes, for {target})", output.display()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
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

/// Whether the user knows that compiled models are not kept: a note for each of them says no more.
#[derive(Debug, Default)]
struct NotKeptNote {
    is_written: bool,
}

/// Compiles a model, with a line on the terminal for as long as the compiler runs.
fn compile_model(
    model: &Path,
    arguments: &CompilerArguments,
    target: &Target,
    flags: &[String],
    not_kept: &mut NotKeptNote,
) -> Result<Compiled> {
    let compiler =
        Compiler::find(arguments.iree_compile.as_deref()).context(|| format!("compiling '{}'", model.display()))?;
    let line = ProgressBar::new_spinner();
    let compiled = compiler.compile(model, target, flags, |event| match event {
        Event::Starting if stderr().is_terminal() => {
            line.set_message(format!("compiling {} for {target} ...", model.display()));
            line.enable_steady_tick(Duration::from_millis(100));
        }
        Event::Starting => {}
        Event::TakingF32(float) => line.suspend(|| {
            // Without standard error, the note is lost and the module is not.
            let _ = writeln!(stderr(), "note: {}: {float}", Escaped(&model.display().to_string()));
        }),
        Event::NotKept(_) if core::mem::replace(&mut not_kept.is_written, true) => {}
        Event::NotKept(why) => line.suspend(|| {
            let _ = writeln!(stderr(), "note: {}", Escaped(&why.to_string()));
        }),
    });
    line.finish_and_clear();
    compiled
}

/// Compiles the models among the files of a command and puts their modules in their place, which are there as long as the result
/// is. `prefer` is what a program that is built prefers; `is_portable` says what models are compiled for if the command line does
/// not.
pub(super) fn compile_models(
    compiler: &CompilerArguments,
    mut files: Vec<&mut PathBuf>,
    prefer: Option<Prefer>,
    is_portable: bool,
) -> Result<Vec<Compiled>> {
    let target = match (compiler.target.clone(), prefer) {
        // The triple is that of the program.
        (Some(Target::Triple(..)), Some(Prefer::Portable)) => Target::Portable,
        (Some(target), _) => target,
        (None, _) if is_portable => Target::Portable,
        (None, _) => Target::Native,
    };
    // What cannot be read is an error of the command.
    files.retain(|file| matches!(ModelFormat::of(file), Ok(Some(_))));
    let is_of_program = prefer.is_some() && matches!(compiler.target, Some(Target::Triple(..)));
    if let (Some(target), [], false) = (&compiler.target, &*files, is_of_program) {
        return Err(Error::invalid_argument(format!("--target={target} is for models, and no file is one")));
    }
    let mut not_kept = NotKeptNote::default();
    let mut all = Vec::new();
    for file in files {
        let compiled = compile_model(file, compiler, &target, &[], &mut not_kept)?;
        *file = compiled.path().to_owned();
        all.push(compiled);
    }
    Ok(all)
}
