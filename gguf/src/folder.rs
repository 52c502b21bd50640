//! Models in the layout of Hugging Face: a folder with `config.json`, weights in `.safetensors` files, and a tokenizer.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use incarnate_bytecode::{Error, Result, ResultExt as _, open_regular_file};

use crate::chunked::contents_of;
use crate::safetensors::{SafetensorsFile, SafetensorsIndex, SafetensorsTensor};
use crate::shown;

/// The file of all weights, or of the names of such files. The first that exists counts, as in Hugging Face's `transformers`.
const WEIGHTS: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];
/// Most bytes of a file that is read as a whole. The largest published tokenizers have about 33 MB.
const LIMIT: u64 = 64 << 20;

/// A model in the layout of Hugging Face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFolder {
    path: PathBuf,
    /// The files, where they are in memory and not in a folder.
    files: Option<HashMap<String, Vec<u8>>>,
}

impl ModelFolder {
    /// The file of a model's sizes and constants.
    pub const CONFIG: &str = "config.json";
    /// The file of how texts are generated.
    pub const GENERATION_CONFIG: &str = "generation_config.json";
    /// The file of the tokenizer.
    pub const TOKENIZER: &str = "tokenizer.json";
    /// The file of the special tokens, and of the chat template.
    pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
    /// The file of the chat template alone.
    pub const CHAT_TEMPLATE: &str = "chat_template.jinja";
    /// All files but those of weights.
    pub const FILES: [&str; 5] = [
        ModelFolder::CONFIG,
        ModelFolder::GENERATION_CONFIG,
        ModelFolder::TOKENIZER,
        ModelFolder::TOKENIZER_CONFIG,
        ModelFolder::CHAT_TEMPLATE,
    ];

    /// Returns the model of a folder; `None` if the path is no folder with a file `config.json`.
    #[must_use]
    pub fn at(path: &Path) -> Option<ModelFolder> {
        path.join(ModelFolder::CONFIG).is_file().then(|| ModelFolder { path: path.to_owned(), files: None })
    }

    /// Returns the model of files in memory, by their names, without weights. The path is for messages.
    #[must_use]
    pub fn of_files(path: &Path, files: HashMap<String, Vec<u8>>) -> ModelFolder {
        ModelFolder { path: path.to_owned(), files: Some(files) }
    }

    /// Returns the path of the folder, or that for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a file of the folder; `None` if there is none of this name.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a file of more than 64 MiB; errors of reading.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if let Some(files) = &self.files {
            return Ok(files.get(name).cloned());
        }
        let path = self.path.join(name);
        if !path.exists() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = open_regular_file(&path)?.take(LIMIT + 1).read_to_end(&mut bytes);
        let length = read.context(|| format!("reading '{}'", path.display()))?;
        match length as u64 <= LIMIT {
            true => Ok(Some(bytes)),
            false => Err(Error::resource_exhausted(format!("'{}' has more than {LIMIT} bytes", path.display()))),
        }
    }

    /// Reads `config.json`.
    ///
    /// # Errors
    /// Those of [`ModelFolder::read`]; NOT_FOUND if the file is gone.
    pub fn config(&self) -> Result<Vec<u8>> {
        let config = self.read(ModelFolder::CONFIG)?;
        config.ok_or_else(|| Error::not_found(format!("'{}' has no {}", self.path.display(), ModelFolder::CONFIG)))
    }

    /// Returns the path of the weights: that of the file with all of them, or that of the index of several files.
    ///
    /// # Errors
    /// NOT_FOUND if the folder has neither.
    pub fn weights(&self) -> Result<PathBuf> {
        let mut paths = WEIGHTS.iter().map(|name| self.path.join(name));
        paths.find(|path| path.exists()).ok_or_else(|| {
            let folder = self.path.display();
            Error::not_found(format!("'{folder}' has no weights: neither {} nor {}", WEIGHTS[0], WEIGHTS[1]))
        })
    }

    /// Reads the names, types and shapes of the weights, and not their data.
    ///
    /// # Errors
    /// Those of [`ModelFolder::weights`]; errors of reading, and those of damaged files.
    pub fn tensors(&self) -> Result<Vec<SafetensorsTensor>> {
        let path = self.weights()?;
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            return header(&path);
        }
        let bytes = self.read(WEIGHTS[1])?.unwrap_or_default();
        let index = SafetensorsIndex::read(&bytes).context(|| format!("reading '{}'", path.display()))?;
        let mut tensors = Vec::new();
        let mut listed: Vec<(&str, &str)> =
            index.tensors().iter().map(|(name, file)| (file.as_str(), name.as_str())).collect();
        listed.sort_unstable();
        for of_file in listed.chunk_by(|one, other| one.0 == other.0) {
            let file = of_file.first().map_or("", |row| row.0);
            let path = SafetensorsIndex::path_of(&self.path, file).context(|| format!("'{}'", shown(file)))?;
            let mut found = header(&path)?;
            found.retain(|tensor| of_file.binary_search(&(file, &tensor.name)).is_ok());
            if found.len() != of_file.len() {
                let has = |name: &str| found.iter().any(|tensor| tensor.name == name);
                let missing = of_file.iter().find(|row| !has(row.1)).map_or("", |row| row.1);
                return Err(Error::not_found(format!(
                    "the tensor '{}' is not in '{}', where the index says it is",
                    shown(missing),
                    path.display()
                )));
            }
            tensors.extend(found);
        }
        Ok(tensors)
    }

    /// Returns what the module of a language model depends on: `config.json`, and the names, types and shapes of the weights.
    ///
    /// # Errors
    /// Those of [`ModelFolder::config`] and [`ModelFolder::tensors`].
    pub fn header(&self) -> Result<Vec<u8>> {
        let mut header = self.config()?;
        for SafetensorsTensor { name, element_type, shape, .. } in self.tensors()? {
            header.extend(format!("\n{name} {element_type} {shape:?}").bytes());
        }
        Ok(header)
    }
}

/// Reads the tensors of a `.safetensors` file.
fn header(path: &Path) -> Result<Vec<SafetensorsTensor>> {
    let read = contents_of(path).and_then(|contents| SafetensorsFile::read(&contents));
    read.map(|file| file.tensors().to_vec()).context(|| format!("reading '{}'", path.display()))
}
