//! A conversation with a language model in a browser: the model is translated by the build script, and its weights are those of a GGUF file that
//! the page reads. [`Chat`] runs natively, too: a test compares the answers of both.

mod chat;
mod model;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod page;

pub use chat::{Chat, Part};
