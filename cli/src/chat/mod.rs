//! Conversations with language models: `incarnate chat`, and the command `chat` of the programs that it builds.

#[cfg(feature = "cli")]
pub(super) mod command;
#[cfg(feature = "chat")]
pub(super) mod conversation;
#[cfg(feature = "chat")]
pub(super) mod model;
mod options;
#[cfg(feature = "cli")]
pub(super) mod program;

pub(super) use options::ChatOptions;
