//! `incarnate completions` and `incarnate man`: descriptions of the command line for shells and for `man`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use incarnate_runtime::{Result, ResultExt};

use super::Verdict;
use super::console::Console;

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// Write a page for each command to this folder, instead of the main page to standard output.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub(super) fn completions(
    arguments: &CompletionsArguments,
    mut command: Command,
    out: &mut Console,
) -> Result<Verdict> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "incarnate", &mut text);
    out.write_all(&text).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}

/// Prints the manual page, or writes those of all commands.
pub(super) fn man(arguments: &ManArguments, command: Command, out: &mut Console) -> Result<Verdict> {
    match &arguments.output {
        Some(folder) => {
            let context = || format!("writing manual pages to '{}'", folder.display());
            std::fs::create_dir_all(folder).context(context)?;
            clap_mangen::generate_to(command, folder).context(context)?;
        }
        None => {
            let mut text = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut text);
            rendered.and_then(|()| out.write_all(&text)).context(|| "writing to standard output")?;
        }
    }
    Ok(Verdict::Success)
}
