//! `incarnate translate`: the Rust source of a module.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::{Config, LoopRemark, Prefer, TargetFeatures, Written};

use super::Verdict;
use super::arguments::ModuleFile;
use super::console::Console;
use super::models::CompilerArguments;
use super::static_library::StaticLibraryFile;

#[derive(Debug, Args)]
pub(super) struct TranslateArguments {
    #[command(flatten)]
    pub(super) file: ModuleFile,
    #[command(flatten)]
    pub(super) compiler: CompilerArguments,
    /// The Rust file to write; files that it includes go beside it, with its name as a prefix.
    #[arg(short, long, value_name = "OUT.rs")]
    pub(super) output: PathBuf,
    /// Path of the crate `incarnate` in the program, if it is not `::incarnate`.
    #[arg(long, value_name = "PATH")]
    pub(super) crate_path: Option<String>,
    /// Map the module's constants from this file, which is written beside OUT.rs, instead of including them.
    #[arg(long, value_name = "FILE")]
    pub(super) load_constants_from: Option<String>,
    /// Target features for which functions with long loops are multiversioned, in addition to the program's own target:
    /// x86-64-v2, x86-64-v3, x86-64-v4, or nothing.
    #[arg(long, value_name = "NAMES", default_value = "x86-64-v3,x86-64-v4")]
    pub(super) target_features: TargetFeatureSets,
    /// The executables to use of a module that contains several formats: native or portable.
    #[arg(long, value_name = "KIND", default_value = "native")]
    pub(super) prefer: Prefer,
    /// An object file of kernels to link, as in `build`; an archive of it for the linker is written beside OUT.rs.
    #[arg(long, value_name = "OBJECT[=SYMBOL,...]")]
    pub(super) static_library: Vec<StaticLibraryFile>,
    /// Treat the module as untrusted: refuse machine code, limit memory, objects, steps and time. Loop iterations and calls count
    /// as steps, and each memory access is checked separately, so that loops are slower.
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
    /// Print for each loop what runs in its place, or what prevented it.
    #[arg(long)]
    pub(super) remarks: bool,
}

/// A list of target-feature levels, possibly empty.
#[derive(Clone, Debug)]
pub(super) struct TargetFeatureSets(pub(super) Vec<TargetFeatures>);

impl FromStr for TargetFeatureSets {
    type Err = incarnate_runtime::Error;

    fn from_str(text: &str) -> Result<TargetFeatureSets, incarnate_runtime::Error> {
        let names = text.split(',').filter(|name| !name.is_empty());
        Ok(TargetFeatureSets(names.map(str::parse).collect::<Result<_, _>>()?))
    }
}

pub(super) fn translate(arguments: &TranslateArguments, out: &mut Console) -> Result<Verdict> {
    let target = &arguments.output;
    let wrong =
        || Error::invalid_argument(format!("'{}' is not a Rust file: its name must end with .rs", target.display()));
    let stem = target.file_stem().filter(|_| target.extension().is_some_and(|extension| extension == "rs"));
    let stem = stem.and_then(|stem| stem.to_str()).ok_or_else(wrong)?;
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut config = Config::new()
        .out_dir(directory)
        .module_name(stem)
        .prefer(arguments.prefer)
        .target_features(&arguments.target_features.0);
    config = config.untrusted(arguments.untrusted).reassociate(arguments.reassociate).unfuse(arguments.unfuse);
    if let Some(path) = &arguments.crate_path {
        config = config.crate_path(path);
    }
    if let Some(path) = &arguments.load_constants_from {
        config = config.load_constants_from(path);
    }
    let config = StaticLibraryFile::add_to(&arguments.static_library, config);
    let Written { files, executables, loops, static_libraries, .. } = config.compile(&*arguments.file)?;
    for (path, length) in files {
        writeln!(out, "{} ({length} bytes)", Escaped(&path.display().to_string()))
            .context(|| "writing to standard output")?;
    }
    for name in static_libraries {
        let folder = directory.display();
        writeln!(out, "{name}: an archive of kernels, to be linked by rustc -L native={folder} -l static={name}")
            .context(|| "writing to standard output")?;
    }
    for line in executables {
        writeln!(out, "{}", Escaped(&line)).context(|| "writing to standard output")?;
    }
    if !loops.is_empty() {
        writeln!(out, "{}", LoopRemark::summary(&loops)).context(|| "writing to standard output")?;
    }
    for found in loops.iter().filter(|_| arguments.remarks) {
        writeln!(out, "{}", Escaped(&found.to_string())).context(|| "writing to standard output")?;
    }
    Ok(Verdict::Success)
}
