//! The JSON files of a folder in the layout of Hugging Face.

use incarnate_bytecode::{Error, Result, ResultExt as _};
use incarnate_gguf::ModelFolder;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::shown;

/// An object of JSON.
pub(crate) type Object = Map<String, Value>;

/// Reads a file; `None` if there is none of this name.
pub(crate) fn read<T: DeserializeOwned>(folder: &ModelFolder, name: &str) -> Result<Option<T>> {
    let Some(bytes) = folder.read(name)? else { return Ok(None) };
    parse(&bytes).context(|| name.to_owned()).map(Some)
}

/// Parses JSON.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::invalid_argument(shown(&error.to_string())))
}

/// Returns the text of a special token of `tokenizer_config.json`, which is a text or an object with it.
pub(crate) fn token<'a>(config: &'a Object, key: &str) -> Option<&'a str> {
    let value = config.get(key)?;
    value.as_str().or_else(|| value.get("content")?.as_str())
}
