//! `incarnate assemble`: assembles a module file from text.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use incarnate_runtime::bytecode::{assemble as assemble_text, open_regular_file};
use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::console::Console;
use super::tooling::atomic_file::AtomicFile;

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
    let source = &arguments.file;
    let mut text = String::new();
    open_regular_file(source)?
        .read_to_string(&mut text)
        .map_err(|error| Error::from(error).context(format!("reading '{}'", source.display())))?;
    let file = assemble_text(&text).context(|| format!("'{}'", source.display()))?;
    write_module(&arguments.output, &file, out)
}

/// Writes a module file, and prints its name and size.
pub(super) fn write_module(target: &Path, file: &[u8], out: &mut Console) -> Result<Verdict> {
    let mut written = AtomicFile::create(target, false)?;
    written.write_all(file).context(|| format!("writing '{}'", target.display()))?;
    written.commit()?;
    writeln!(out, "{} ({} bytes)", target.display(), file.len()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}
