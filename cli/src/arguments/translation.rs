//! Arguments of the commands that assemble, translate and build modules.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use incarnate_translator::{Config, Prefer, TargetFeatures};

use super::ProjectArguments;

#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// Module files. Modules that others import from come first, the program's main module last.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The program to write.
    #[arg(short, long, value_name = "EXE")]
    pub(crate) output: PathBuf,
    /// Treat the modules as untrusted: loop iterations and calls use the program's --fuel, and each memory access is
    /// checked separately. Loops are slower.
    #[arg(long)]
    pub(crate) untrusted: bool,
    #[command(flatten)]
    pub(crate) project: ProjectArguments,
}

/// A list of target-feature levels, possibly empty.
#[derive(Clone, Debug)]
pub(crate) struct TargetFeatureSets(pub(crate) Vec<TargetFeatures>);

impl FromStr for TargetFeatureSets {
    type Err = incarnate_runtime::Error;

    fn from_str(text: &str) -> Result<TargetFeatureSets, incarnate_runtime::Error> {
        let names = text.split(',').filter(|name| !name.is_empty());
        Ok(TargetFeatureSets(names.map(str::parse).collect::<Result<_, _>>()?))
    }
}

#[derive(Debug, Args)]
pub(crate) struct AssembleArguments {
    /// The text file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The module file to write.
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TranslateArguments {
    /// The module file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The Rust file to write; files that it includes go beside it, with its name as a prefix.
    #[arg(short, long, value_name = "OUT.rs")]
    pub(crate) output: PathBuf,
    /// Path of the crate `incarnate` in the program, if it is not `::incarnate`.
    #[arg(long, value_name = "PATH")]
    pub(crate) crate_path: Option<String>,
    /// Map the module's constants from this file, which is written beside OUT.rs, instead of including them.
    #[arg(long, value_name = "FILE")]
    pub(crate) load_constants_from: Option<String>,
    /// Target features for which functions with long loops are multiversioned, in addition to the program's own target:
    /// x86-64-v2, x86-64-v3, x86-64-v4, or nothing.
    #[arg(long, value_name = "NAMES", default_value = "x86-64-v3,x86-64-v4")]
    pub(crate) target_features: TargetFeatureSets,
    /// The executables to use of a module that contains several formats: native or portable.
    #[arg(long, value_name = "KIND", default_value = "native")]
    pub(crate) prefer: Prefer,
    /// An object file of kernels to link, as in `build`; an archive of it for the linker is written beside OUT.rs.
    #[arg(long, value_name = "OBJECT[=SYMBOL,...]")]
    pub(crate) static_library: Vec<StaticLibraryFile>,
    /// Treat the module as untrusted: loop iterations and calls count against the limits of the program, and each
    /// memory access is checked separately. Loops are slower.
    #[arg(long)]
    pub(crate) untrusted: bool,
}

/// An object file of kernels, and its query functions to link; all of them if none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticLibraryFile {
    pub(super) path: PathBuf,
    pub(super) queries: Vec<String>,
}

impl StaticLibraryFile {
    /// Adds objects to those that a translation links.
    pub(crate) fn add_to(files: &[StaticLibraryFile], config: Config) -> Config {
        files.iter().fold(config, |config, file| {
            let queries: Vec<&str> = file.queries.iter().map(String::as_str).collect();
            config.static_library(&file.path, &queries)
        })
    }
}

impl FromStr for StaticLibraryFile {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<StaticLibraryFile, Infallible> {
        let is_symbol = |name: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            name.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) && name.chars().all(is_part)
        };
        // Text after the sign is part of the path unless it can be a list of C symbols.
        let named = text.rsplit_once('=').filter(|(path, names)| !path.is_empty() && names.split(',').all(is_symbol));
        let (path, queries) =
            named.map_or((text, Vec::new()), |(path, names)| (path, names.split(',').map(str::to_owned).collect()));
        Ok(StaticLibraryFile { path: PathBuf::from(path), queries })
    }
}
