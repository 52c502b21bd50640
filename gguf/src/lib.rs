//! Reads GGUF, the format of ggml's models, and folders in the layout of Hugging Face, and imports language models as MLIR of core dialects,
//! which IREE's compiler takes with `--iree-input-type=none`. Weights stay in their files: they are parameters of the module.

pub mod attributes;
mod chunked;
mod element_type;
mod file;
mod folder;
#[cfg(feature = "import")]
mod import;
mod safetensors;
mod value;

use incarnate_bytecode::{Contents, Error, FileKind};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;

pub use attributes::Pooling;
pub use element_type::ElementType;
pub use file::{GgufFile, Tensor};
pub use folder::ModelFolder;
#[cfg(feature = "import")]
pub use import::{Activations, Checkpoint, Options, import};
pub use safetensors::{SafetensorsFile, SafetensorsIndex, SafetensorsTensor};
pub use value::{Array, Value};

/// The scope of the parameters of an imported module; their keys are the names of the tensors in their file.
pub const SCOPE: &str = "model";

/// Returns a name of a file for a message: without control characters, and not longer than a line.
fn shown(text: &str) -> String {
    /// In characters: enough for a name, and for a message that contains one.
    const SHOWN: usize = 256;
    incarnate_bytecode::shown(text, SHOWN)
}

/// Replaces the error of a file that is something else than `expected`, the kind of files of `format`, by its first bytes.
fn explained(contents: &Contents, expected: FileKind, format: &str, error: Error) -> Error {
    match FileKind::of(contents) {
        Ok(Some(kind)) if kind != expected => Error::invalid_argument(format!("this is not {format} but {kind}")),
        _ => error,
    }
}
