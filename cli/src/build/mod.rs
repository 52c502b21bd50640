//! `incarnate build`: a native program of translated modules.

mod folder;
mod project;
mod sources;
mod target;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::Config;
use incarnate_translator::compiler::Target;

use super::Verdict;
use super::arguments::ProjectArguments;
use super::chat::attached::attach;
use super::console::Console;
use super::models::CompilerArguments;
use crate::tooling::atomic_file;
pub(super) use folder::ProjectFolder;
use project::Project;
pub(super) use sources::Sources;
pub(super) use target::ProgramTarget;

#[derive(Debug, Args)]
pub(super) struct BuildArguments {
    /// Module files, or models to compile. Modules that others import from come first, the program's main module last.
    #[arg(value_name = "FILE", required_unless_present = "module")]
    pub(super) files: Vec<PathBuf>,
    /// A module file before those without a flag, as IREE's tools take it.
    #[arg(long, value_name = "FILE")]
    pub(super) module: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) compiler: CompilerArguments,
    /// The linker for the target of --target=TRIPLE; by default the compiler of that name in PATH, such as
    /// aarch64-linux-gnu-gcc.
    #[arg(long, value_name = "PATH", help_heading = "Programs")]
    pub(super) linker: Option<PathBuf>,
    /// Link the C library, too (musl), so that the program is one file that runs on any Linux. It is compiled for any CPU of the
    /// architecture unless --target-cpu names one.
    #[arg(long = "static", help_heading = "Programs")]
    pub(super) is_static: bool,
    /// The program to write.
    #[arg(short, long, value_name = "EXE")]
    pub(super) output: PathBuf,
    /// Treat the modules as untrusted: loop iterations and calls use the program's --fuel, and each memory access is
    /// checked separately. Loops are slower.
    #[arg(long)]
    pub(super) untrusted: bool,
    /// Allow float reductions in another order than that of the bytecode, such as sums along adjacent elements in partial
    /// sums. Results may differ by rounding, and are the same on every processor.
    #[arg(long)]
    pub(super) reassociate: bool,
    /// Round products and sums of f32 that the compiler fused separately, for machines without an instruction that rounds once.
    /// Results may differ by rounding, and are the same on every processor.
    #[arg(long)]
    pub(super) unfuse: bool,
    /// Put a language model into the program, which is one file that talks then: a .gguf file, or the weights and the tokenizer of a
    /// folder.
    #[arg(long)]
    pub(super) with_weights: bool,
    /// The file or the folder of the language model.
    #[arg(skip)]
    pub(super) weights: Option<PathBuf>,
    #[command(flatten)]
    pub(super) project: ProjectArguments,
}

impl BuildArguments {
    /// Adds the files without a flag to the modules; returns all modules, the main one last.
    pub(super) fn all_modules(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.module.append(&mut self.files);
        self.module.iter_mut()
    }
}

/// How the code of a program is translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    /// See [`Config::untrusted`].
    pub(super) untrusted: bool,
    /// See [`Config::reassociate`].
    pub(super) reassociate: bool,
    /// See [`Config::unfuse`].
    pub(super) unfuse: bool,
}

pub(super) fn build(arguments: &BuildArguments, out: &mut Console) -> Result<Verdict> {
    let BuildArguments { untrusted, reassociate, unfuse, is_static, .. } = *arguments;
    let code = Code { untrusted, reassociate, unfuse };
    let (models, cpu) = (arguments.compiler.target(), arguments.project.target_cpu.as_str());
    let target = ProgramTarget::of(models, cpu, arguments.linker.as_deref(), is_static)?;
    let mut project = arguments.project.clone();
    let is_for_vulkan = matches!(arguments.compiler.target(), Some(Target::Vulkan(_)));
    if is_for_vulkan && !project.feature.iter().any(|feature| feature == "vulkan") {
        project.feature.push("vulkan".to_owned());
    }
    let weights = arguments.weights.as_deref().filter(|_| arguments.with_weights);
    if arguments.with_weights && weights.is_none() {
        return Err(Error::invalid_argument(
            "--with-weights is for a language model: .gguf, or a folder with config.json",
        ));
    }
    let (length, executables) = program(&arguments.module, weights, &arguments.output, &project, &target, code)?;
    writeln!(out, "{} ({length} bytes)", arguments.output.display()).context(|| "writing to standard output")?;
    for line in executables {
        writeln!(out, "{line}").context(|| "writing to standard output")?;
    }
    Ok(Verdict::Success)
}

/// Builds the program of some modules, the main one last, in a file, for a target; `weights` is the file or the folder of a model that it contains. Returns its length in bytes, and notes on the modules'
/// executables.
///
/// # Errors
/// Errors of loading and translating the modules, of cargo and the compiler, and of writing.
pub(super) fn program(
    modules: &[PathBuf],
    weights: Option<&Path>,
    file: &Path,
    arguments: &ProjectArguments,
    target: &ProgramTarget,
    code: Code,
) -> Result<(u64, Vec<String>)> {
    if file.is_dir() {
        return Err(Error::invalid_argument(format!("'{}' is a folder: name the program's file", file.display())));
    }
    let sources = Sources::find(arguments.incarnate_source.as_deref())?;
    // A file that is no module is refused at once: opening the project waits for other builds.
    modules.iter().try_for_each(|module| check_module(module))?;
    let project = Project::open(&sources, target, arguments)?;
    let config = Config::new().prefer(arguments.prefer).untrusted(code.untrusted);
    // A program for one CPU has no variants for others.
    let config = match target.cpu(&arguments.target_cpu) {
        Some(_) => config.target_features(&[]),
        None => config,
    };
    let config = config.reassociate(code.reassociate).unfuse(code.unfuse);
    let config = config.architecture(target.architecture());
    let (built, executables) = project.build(modules, config, &arguments.static_library)?;
    let length = atomic_file::write(file, |temporary| {
        fs::copy(&built, temporary)?;
        weights.map_or(Ok(()), |weights| attach(temporary, weights))?;
        Ok::<_, Error>(fs::metadata(temporary)?.len())
    })?;
    Ok((length, executables))
}

/// Checks that a file is a module.
///
/// # Errors
/// Errors of reading, and those of a file that is damaged or no module.
fn check_module(file: &Path) -> Result<()> {
    let module = Contents::read(file).and_then(|contents| VerifiedModule::load(Arc::new(contents)));
    module.map(|_| ()).context(|| format!("reading '{}'", file.display()))
}
