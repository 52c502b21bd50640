//! Conversations with language models: `incarnate chat`, and the command `chat` of the programs that it builds.

mod arguments;
pub(super) mod attached;
#[cfg(feature = "chat")]
pub(super) mod conversation;
#[cfg(feature = "chat")]
pub(super) mod model;
mod options;
#[cfg(feature = "cli")]
pub(super) mod program;
#[cfg(feature = "chat")]
pub(super) mod source;

pub(super) use arguments::DeviceOption;
#[cfg(feature = "chat")]
pub(super) use arguments::OfModel;
pub(super) use options::ChatOptions;
