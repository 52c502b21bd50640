//! Commands: executables, recording, and what recorded commands consist of. No module here names queues.

mod backend_data;
pub(crate) mod channel;
pub(crate) mod command_buffer;
mod elision;
pub(crate) mod executable;
mod growth;
pub(crate) mod inline;
pub mod kernel;
pub(crate) mod ranges;
pub(crate) mod recorded;
mod recorder;
pub(crate) mod staging;
