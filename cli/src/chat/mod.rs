//! Conversations with language models: `incarnate chat`, and the command `chat` of the programs that it builds.

#[cfg(feature = "cli")]
pub(super) mod command;
#[cfg(feature = "chat")]
pub(super) mod conversation;
#[cfg(feature = "chat")]
mod model;
mod options;

pub(super) use options::ChatOptions;
