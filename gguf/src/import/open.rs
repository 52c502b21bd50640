//! Models by their paths.

use std::path::Path;

use incarnate_bytecode::{Result, ResultExt as _};

use super::checkpoint::Checkpoint;
use super::hugging_face;
use crate::{GgufFile, ModelFolder};

impl Checkpoint {
    /// Reads the metadata and the list of tensors of a language model: of a GGUF file, or of a folder in the layout of Hugging Face.
    ///
    /// # Errors
    /// Those of [`Checkpoint::from_gguf`] and of [`Checkpoint::from_folder`]; errors of reading the file.
    pub fn open(path: &Path) -> Result<Checkpoint> {
        match ModelFolder::at(path) {
            Some(folder) => Checkpoint::from_folder(&folder),
            None => Checkpoint::from_gguf(&GgufFile::open(path)?),
        }
    }

    /// Reads `config.json` and the list of tensors of a folder in the layout of Hugging Face.
    ///
    /// # Errors
    /// UNIMPLEMENTED for models that are not supported, and for values of `config.json` that are not understood; INVALID_ARGUMENT and NOT_FOUND
    /// for damaged files; errors of reading.
    pub fn from_folder(folder: &ModelFolder) -> Result<Checkpoint> {
        let tensors = folder.tensors()?;
        let config = folder.config()?;
        hugging_face::checkpoint(&config, &tensors).context(|| format!("'{}'", folder.path().display()))
    }
}
