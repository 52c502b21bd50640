//! `incarnate chat`.

use std::path::PathBuf;

use clap::Args;
use incarnate_runtime::Result;

use super::ChatOptions;
use super::program::run_model;
use crate::Verdict;
use crate::arguments::ProjectArguments;
use crate::models::CompilerArguments;

#[derive(Debug, Args)]
pub(crate) struct ChatCommand {
    /// The language model.
    #[arg(value_name = "MODEL.gguf")]
    model: PathBuf,
    #[command(flatten)]
    options: ChatOptions,
    #[command(flatten)]
    compiler: CompilerArguments,
    #[command(flatten)]
    project: ProjectArguments,
}

/// The command, and the feature of programs that have it.
pub(crate) const FEATURE: &str = "chat";

pub(crate) fn chat(arguments: &ChatCommand) -> Result<Verdict> {
    let ChatCommand { model, options, compiler, project } = arguments;
    run_model(model, (compiler, project), FEATURE, options.words())
}
