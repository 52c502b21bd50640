//! `incarnate assemble`: assembles a module file from text.

use std::fs;
use std::io::Write;

use incarnate_runtime::bytecode::assemble as assemble_text;
use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::arguments::AssembleArguments;
use super::console::Console;

pub(super) fn assemble(arguments: &AssembleArguments, out: &mut Console) -> Result<Verdict> {
    let (source, target) = (&arguments.file, &arguments.output);
    let text = fs::read_to_string(source)
        .map_err(|error| Error::from(error).context(format!("reading '{}'", source.display())))?;
    let file = assemble_text(&text).context(|| format!("'{}'", source.display()))?;
    fs::write(target, &file).map_err(|error| Error::from(error).context(format!("writing '{}'", target.display())))?;
    writeln!(out, "{} ({} bytes)", target.display(), file.len()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}
