//! Models in the place of modules, which IREE's compiler compiles.

use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::Prefer;
use incarnate_translator::compiler::{
    CompileOptions, Compiled, Compiler, Event, ImportOptions, ModelFormat, Target, gguf, kind_of,
};
use indicatif::ProgressBar;

/// How models are compiled.
#[derive(Clone, Debug, Args)]
pub(super) struct CompilerArguments {
    /// The compiler, iree-compile; also as IREE_COMPILE, or in PATH.
    #[arg(long = "iree-compile", visible_alias = "iree_compile", value_name = "PATH", help_heading = "Models")]
    iree_compile: Option<PathBuf>,
    /// What a model is compiled for: portable (bytecode for every machine, fastest where it is translated), native (machine code for this
    /// processor), both (in one file), vulkan[:ARCHITECTURE] (for GPUs), or TRIPLE[:CPU]. The default is portable. `build` builds the
    /// program for TRIPLE[:CPU], too.
    #[arg(long, value_name = "TARGET", help_heading = "Models")]
    target: Option<Target>,
    /// Fix an extent that an ONNX model names: batch=1.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension, help_heading = "Models")]
    dims: Vec<(String, i64)>,
    /// Fix the shape of an input of an ONNX model: image=1x3x320x320.
    #[arg(long = "shape", value_name = "INPUT=SHAPE", value_parser = shape, help_heading = "Models")]
    shapes: Vec<(String, Vec<i64>)>,
    /// Take tensors of an ONNX model by name as its inputs, and leave out the nodes before them.
    #[arg(long = "inputs", value_name = "NAME,...", value_delimiter = ',', help_heading = "Models")]
    inputs: Vec<String>,
    /// Take tensors of an ONNX model by name as its outputs, and leave out the nodes behind them.
    #[arg(long = "outputs", value_name = "NAME,...", value_delimiter = ',', help_heading = "Models")]
    outputs: Vec<String>,
    /// The positions of a conversation with a language model; at most 4096 and the model's own by default.
    #[arg(long, value_name = "N", help_heading = "Models")]
    context: Option<u64>,
    /// The conversations that a language model holds at a time: 1 by default, and 4 for `serve`.
    #[arg(long, value_name = "N", help_heading = "Models")]
    slots: Option<u64>,
    /// Round vectors before they are multiplied with quantised weights of a language model: to integers of 14 bits (i16) or 8 (i8), instead of
    /// f32. It writes faster then; llama.cpp rounds to 8 bits.
    #[arg(long, value_name = "TYPE", default_value_t, help_heading = "Models")]
    activations: gguf::Activations,
    /// Compile the function for embeddings of a language model, too; `serve` does.
    #[arg(long, help_heading = "Models")]
    embeddings: bool,
}

/// Parses `NAME=N`; a name may have equals signs.
fn dimension(text: &str) -> core::result::Result<(String, i64), String> {
    let (name, extent) = text.rsplit_once('=').ok_or("NAME=N is expected, such as batch=1")?;
    match extent.parse() {
        Ok(extent) if extent >= 0 => Ok((name.to_owned(), extent)),
        _ => Err(format!("`{extent}` is no extent")),
    }
}

/// Parses `INPUT=1x3x320x320`; `INPUT=` has no dimensions.
fn shape(text: &str) -> core::result::Result<(String, Vec<i64>), String> {
    let (name, shape) = text.rsplit_once('=').ok_or("INPUT=SHAPE is expected, such as image=1x3x320x320")?;
    let extents = shape.split('x').filter(|_| !shape.is_empty());
    let extents: core::result::Result<Vec<i64>, _> = extents.map(str::parse).collect();
    match extents {
        Ok(extents) if extents.iter().all(|extent| *extent >= 0) => Ok((name.to_owned(), extents)),
        _ => Err(format!("`{shape}` is no shape")),
    }
}

impl CompilerArguments {
    /// Finds the compiler.
    pub(super) fn find_compiler(&self) -> Result<Compiler> {
        Compiler::find(self.iree_compile.as_deref())
    }

    /// Returns what models are compiled for, if the command line names it.
    pub(super) fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// Sets the conversations of a language model, unless the command line names them.
    pub(super) fn with_slots(mut self, slots: u64) -> CompilerArguments {
        self.slots.get_or_insert(slots);
        self
    }

    /// Compiles the function for embeddings, too, if a command needs it.
    pub(super) fn with_embeddings(mut self, are_needed: bool) -> CompilerArguments {
        self.embeddings |= are_needed;
        self
    }

    /// Returns an option of the command line that only ONNX models have.
    fn option_of_onnx(&self) -> Option<&'static str> {
        let CompilerArguments { dims, shapes, inputs, outputs, .. } = self;
        let given = [
            (!dims.is_empty(), "--dim"),
            (!shapes.is_empty(), "--shape"),
            (!inputs.is_empty(), "--inputs"),
            (!outputs.is_empty(), "--outputs"),
        ];
        given.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
    }

    /// Returns how a model is compiled for a target.
    pub(super) fn options(&self, target: Target, flags: Vec<String>) -> CompileOptions {
        let CompilerArguments { dims, shapes, inputs, outputs, .. } = self.clone();
        let import = ImportOptions { dims, shapes, inputs, outputs, ..ImportOptions::default() };
        let language_model = gguf::Options {
            context: self.context,
            slots: self.slots.unwrap_or(1),
            embeddings: self.embeddings,
            activations: self.activations,
            ..gguf::Options::default()
        };
        CompileOptions { flags, import, language_model, ..target.into() }
    }
}

/// Whether the user knows that compiled models are not kept: a note for each of them says no more.
#[derive(Debug, Default)]
pub(super) struct NotKeptNote {
    is_written: bool,
}

/// Compiles a model, with a line on the terminal for as long as the compiler runs.
pub(super) fn compile_model(
    model: &Path,
    arguments: &CompilerArguments,
    options: &CompileOptions,
    not_kept: &mut NotKeptNote,
) -> Result<Compiled> {
    let target = &options.target;
    let compiler = arguments.find_compiler().context(|| format!("compiling '{}'", model.display()))?;
    let line = ProgressBar::new_spinner();
    let compiled = compiler.compile(model, options, |event| match event {
        Event::Starting => show(&line, format!("compiling {} for {target} ...", model.display())),
        Event::TakingF32(float) => line.suspend(|| {
            // Without standard error, the note is lost and the module is not.
            let _ = writeln!(stderr(), "note: {}: {float}", Escaped(&model.display().to_string()));
        }),
        Event::LeavingOut(left_out) => line.suspend(|| {
            let _ = writeln!(stderr(), "note: {}: {left_out}", Escaped(&model.display().to_string()));
        }),
        Event::NotKept(_) if core::mem::replace(&mut not_kept.is_written, true) => {}
        Event::NotKept(why) => line.suspend(|| {
            let _ = writeln!(stderr(), "note: {}", Escaped(&why.to_string()));
        }),
    });
    line.finish_and_clear();
    compiled
}

/// Shows a line on the terminal, if there is one, for as long as work takes.
pub(super) fn show(line: &ProgressBar, message: String) {
    if stderr().is_terminal() {
        line.set_message(message);
        line.enable_steady_tick(Duration::from_millis(100));
    }
}

/// Compiles the models among the files of a command and puts their modules in their place, which are there as long as the result
/// is. `prefer` is what a program that is built prefers.
pub(super) fn compile_models(
    compiler: &CompilerArguments,
    mut files: Vec<&mut PathBuf>,
    prefer: Option<Prefer>,
) -> Result<Vec<Compiled>> {
    let target = match (compiler.target.clone(), prefer) {
        // The triple is that of the program.
        (Some(Target::Triple(..)), Some(Prefer::Portable)) => Target::Portable,
        (Some(target), _) => target,
        (None, _) => Target::Portable,
    };
    let other = |file: &&mut PathBuf| kind_of(file).map(|kind| format!(": '{}' is {kind}", file.display()));
    let other = files.iter().find_map(other).unwrap_or_default();
    // What cannot be read is an error of the command.
    files.retain(|file| matches!(ModelFormat::of(file), Ok(Some(_))));
    let is_of_program = prefer.is_some() && matches!(compiler.target, Some(Target::Triple(..)));
    let refused = |option: String| Err(Error::invalid_argument(format!("{option}, and no file is one{other}")));
    if let (Some(target), [], false) = (&compiler.target, &*files, is_of_program) {
        return refused(format!("--target={target} is for models"));
    }
    if let (Some(option), []) = (compiler.option_of_onnx(), &*files) {
        return refused(format!("{option} is for ONNX models"));
    }
    let mut not_kept = NotKeptNote::default();
    let mut all = Vec::new();
    for file in files {
        let options = compiler.options(target.clone(), Vec::new());
        let compiled = compile_model(file, compiler, &options, &mut not_kept)?;
        *file = compiled.path().to_owned();
        all.push(compiled);
    }
    Ok(all)
}
