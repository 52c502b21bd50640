//! `incarnate serve`.

use std::path::PathBuf;

use clap::Args;
use incarnate_runtime::Result;

use super::ServeOptions;
use crate::Verdict;
use crate::arguments::ProjectArguments;
use crate::chat::program::run_model;
use crate::models::CompilerArguments;

#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// The language model.
    #[arg(value_name = "MODEL.gguf")]
    model: PathBuf,
    #[command(flatten)]
    options: ServeOptions,
    #[command(flatten)]
    compiler: CompilerArguments,
    #[command(flatten)]
    project: ProjectArguments,
}

/// The command, and the feature of programs that have it.
const FEATURE: &str = "serve";
/// Conversations at a time, unless the command line names another number.
const SLOTS: u64 = 4;

pub(crate) fn serve(arguments: &ServeCommand) -> Result<Verdict> {
    let ServeCommand { model, options, compiler, project } = arguments;
    run_model(model, (&compiler.clone().with_slots(SLOTS), project), FEATURE, options.words())
}
