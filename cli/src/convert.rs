//! `incarnate convert`: converts a module of IREE's first bytecode format to one of today.

use std::path::PathBuf;

use clap::Args;
use incarnate_runtime::bytecode::read_regular_file;
use incarnate_runtime::{Result, ResultExt};

use super::Verdict;
use super::assemble::write_module;
use super::console::Console;

#[derive(Debug, Args)]
pub(super) struct ConvertArguments {
    /// The module file of early 2020.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The module file to write.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

pub(super) fn convert(arguments: &ConvertArguments, out: &mut Console) -> Result<Verdict> {
    let source = &arguments.file;
    let file = read_regular_file(source).context(|| format!("reading '{}'", source.display()))?;
    let module = incarnate_bmod::convert(&file).context(|| format!("'{}'", source.display()))?;
    write_module(&arguments.output, &module, out)
}
