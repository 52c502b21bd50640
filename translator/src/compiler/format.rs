//! What the compiler reads.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use incarnate_bytecode::Result;

use super::with_path;

/// The format of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// A model of ONNX, a protocol buffer.
    Onnx,
    /// MLIR as text: StableHLO, TOSA, torch, linalg or another dialect that IREE reads.
    Mlir,
    /// MLIR as bytecode.
    MlirBytecode,
}

/// The first bytes of MLIR bytecode.
const MLIR_BYTECODE: &[u8] = b"ML\xEFR";

impl ModelFormat {
    /// Returns the format of a file, by its first bytes or the extension of its name; `None` for any other file, such as a
    /// module.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn of(path: &Path) -> Result<Option<ModelFormat>> {
        let mut first = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MLIR_BYTECODE.len() as u64).read_to_end(&mut first));
        with_path(read, "reading", path)?;
        if first == MLIR_BYTECODE {
            return Ok(Some(ModelFormat::MlirBytecode));
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        Ok(match extension.to_ascii_lowercase().as_str() {
            "onnx" => Some(ModelFormat::Onnx),
            "mlir" => Some(ModelFormat::Mlir),
            _ => None,
        })
    }
}
