//! Reads GGUF, the format of ggml's models, and imports language models as MLIR of core dialects, which IREE's compiler takes with
//! `--iree-input-type=none`. Weights stay in the file: they are parameters of the module.

mod chunked;
mod element_type;
mod file;
#[cfg(feature = "import")]
mod import;
mod value;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;

pub use element_type::ElementType;
pub use file::{GgufFile, Tensor};
#[cfg(feature = "import")]
pub use import::{Options, SCOPE, import};
pub use value::{Array, Value};

/// Returns a name of a file for a message: without control characters, and not longer than a line.
fn shown(text: &str) -> String {
    /// In characters: enough for a name, and for a message that contains one.
    const SHOWN: usize = 256;
    incarnate_bytecode::shown(text, SHOWN)
}
