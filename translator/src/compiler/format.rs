//! What the compiler reads.

use std::io::Read;
use std::path::Path;

use incarnate_bytecode::{Error, FileKind, Result, open_regular_file};
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
        match FileKind::of_start(&start_of(path)?) {
            Some(kind) if kind == FileKind::MLIR_BYTECODE => return Ok(Some(ModelFormat::MlirBytecode)),
            Some(kind) if kind == FileKind::GGUF => {
                // The import says what is wrong with a damaged file.
                let is_model = GgufFile::is_model(path).unwrap_or(true);
                return Ok(Some(ModelFormat::Gguf).filter(|_| is_model));
            }
            _ => {}
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        Ok(match extension.to_ascii_lowercase().as_str() {
            "onnx" => Some(ModelFormat::Onnx),
            "mlir" => Some(ModelFormat::Mlir),
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

/// Names a file by its first bytes; `None` for unknown ones, and for one that cannot be read.
#[must_use]
pub fn kind_of(path: &Path) -> Option<FileKind> {
    FileKind::of_start(&start_of(path).ok()?)
}

/// Reads the first bytes of a file.
fn start_of(path: &Path) -> Result<Vec<u8>> {
    let (file, mut start) = (open_regular_file(path)?, Vec::new());
    with_path(file.take(FileKind::START as u64).read_to_end(&mut start), "reading", path)?;
    Ok(start)
}

/// Returns the error of a file that is not a model.
pub(super) fn not_a_model(path: &Path) -> Error {
    let kind = kind_of(path);
    let path = path.display();
    Error::invalid_argument(match kind {
        Some(kind) if kind == FileKind::ONNX => format!("'{path}' is an ONNX model: name it .onnx"),
        Some(kind) if kind == FileKind::MLIR => format!("'{path}' is MLIR text: name it .mlir"),
        Some(kind) => format!("'{path}' is not a model but {kind}"),
        None => format!("'{path}' is not a model: .onnx, .gguf, .mlir, .mlirbc or a folder with config.json"),
    })
}

/// Replaces the error of a model that was refused if the file is something else than its name says.
pub(super) fn explain_refused(path: &Path, format: ModelFormat, error: Error) -> Error {
    let is_other = |kind: &FileKind| match format {
        // A damaged model, whose bytes may be those of a text.
        ModelFormat::Onnx => *kind != FileKind::ONNX && !kind.is_plain_text(),
        // A model with an error.
        ModelFormat::Mlir => !kind.is_plain_text(),
        // Their first bytes are those of the format.
        ModelFormat::Gguf | ModelFormat::MlirBytecode | ModelFormat::HuggingFace => false,
    };
    let kind = kind_of(path).filter(is_other);
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
            (b"\x80\x04\x95", "not a model but a Python pickle"),
            (b"\x08\x09\x12\x07pytorch", "first"),
            (b"\xfe\x37", "first"),
            (b"some words", "first"),
        ] {
            std::fs::write(&path, contents).unwrap();
            let error = explain_refused(&path, ModelFormat::Onnx, Error::invalid_argument("first")).to_string();
            assert!(error.contains(named), "{error}");
        }
        let error = explain_refused(&path, ModelFormat::Mlir, Error::invalid_argument("first")).to_string();
        assert!(error.contains("first"), "{error}");
    }
}
