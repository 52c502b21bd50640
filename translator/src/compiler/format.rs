//! What the compiler reads.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use incarnate_bytecode::{Archive, Contents, Error, KIND_BYTES, Result, kind_of, open_regular_file};
use incarnate_gguf::{GgufFile, ModelFolder};

use super::with_path;

/// The format of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// A model of ONNX, a protocol buffer.
    Onnx,
    /// A language model of ggml.
    Gguf,
    /// A language model in the layout of Hugging Face: a folder.
    HuggingFace,
    /// MLIR as text: StableHLO, TOSA, torch, linalg or another dialect that IREE reads.
    Mlir,
    /// MLIR as bytecode.
    MlirBytecode,
}

/// The first bytes of MLIR bytecode.
const MLIR_BYTECODE: &[u8; 4] = b"ML\xEFR";
/// The first bytes of GGUF files.
const GGUF: &[u8; 4] = b"GGUF";

impl ModelFormat {
    /// Returns the format of a file, by its first bytes or the extension of its name, or that of a folder; `None` for any other file, such as
    /// a module.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn of(path: &Path) -> Result<Option<ModelFormat>> {
        if ModelFolder::at(path).is_some() {
            return Ok(Some(ModelFormat::HuggingFace));
        }
        if path.is_dir() {
            let path = path.display();
            return Err(Error::invalid_argument(format!("'{path}' is a folder without config.json, and no model")));
        }
        let mut first = Vec::new();
        let file = open_regular_file(path)?;
        with_path(file.take(MLIR_BYTECODE.len() as u64).read_to_end(&mut first), "reading", path)?;
        if first == MLIR_BYTECODE {
            return Ok(Some(ModelFormat::MlirBytecode));
        }
        if first == GGUF {
            // The import says what is wrong with a damaged file.
            let is_model = GgufFile::is_model(path).unwrap_or(true);
            return Ok(Some(ModelFormat::Gguf).filter(|_| is_model));
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        Ok(match extension.to_ascii_lowercase().as_str() {
            "onnx" => Some(ModelFormat::Onnx),
            "mlir" => Some(ModelFormat::Mlir),
            "gguf" => Some(ModelFormat::Gguf),
            _ => None,
        })
    }

    /// Returns whether a model is a language model, whose weights are parameters of its module.
    #[must_use]
    pub fn is_language_model(self) -> bool {
        matches!(self, ModelFormat::Gguf | ModelFormat::HuggingFace)
    }

    /// Whether a model is imported as MLIR before the compiler reads it.
    pub(super) fn is_imported(self) -> bool {
        self == ModelFormat::Onnx || self.is_language_model()
    }
}

/// Replaces the error of a model that was refused if the file is something else than its name says.
pub(super) fn explain_refused(path: &Path, error: Error) -> Error {
    let Ok(contents) = Contents::read(path) else { return error };
    let start = contents.bytes(0..contents.length().min(KIND_BYTES)).unwrap_or_default();
    // A text may be a model with an error, and an ONNX model may be damaged.
    let kind = kind_of(&start).filter(|kind| !["text", "ONNX", "MLIR", "GGUF"].iter().any(|word| kind.contains(word)));
    let kind =
        kind.or_else(|| Archive::new(Arc::new(contents)).is_ok().then_some("a module, which is compiled already"));
    kind.map_or(error, |kind| Error::invalid_argument(format!("this is not a model but {kind}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn refused_models_are_named_as_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.onnx");
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/simple_mul/vmvx.vmfb");
        let pointer = b"version https://git-lfs.github.com/spec/v1\n";
        for (contents, named) in [
            (&std::fs::read(module).unwrap()[..], "not a model but a module, which is compiled already"),
            (pointer, "not a model but a pointer of Git LFS"),
            (b"<!DOCTYPE html>", "not a model but HTML"),
            (b"", "not a model but an empty file"),
            (b"\x08\x09\x12\x07pytorch", "first"),
            (b"some words", "first"),
        ] {
            std::fs::write(&path, contents).unwrap();
            let error = explain_refused(&path, Error::invalid_argument("first")).to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
