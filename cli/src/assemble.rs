//! `incarnate assemble`: assembles a module file from text.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;

use clap::Args;
use incarnate_runtime::bytecode::{assemble as assemble_text, open_regular_file};
use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::console::Console;

#[derive(Debug, Args)]
pub(super) struct AssembleArguments {
    /// The text file.
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// The module file to write.
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,
}

pub(super) fn assemble(arguments: &AssembleArguments, out: &mut Console) -> Result<Verdict> {
    let (source, target) = (&arguments.file, &arguments.output);
    let mut text = String::new();
    open_regular_file(source)?
        .read_to_string(&mut text)
        .map_err(|error| Error::from(error).context(format!("reading '{}'", source.display())))?;
    let file = assemble_text(&text).context(|| format!("'{}'", source.display()))?;
    fs::write(target, &file).map_err(|error| Error::from(error).context(format!("writing '{}'", target.display())))?;
    writeln!(out, "{} ({} bytes)", target.display(), file.len()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}
