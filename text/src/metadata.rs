//! Typed values of a file's metadata. A value of another type is an error, which names the key.

use incarnate_bytecode::{Error, Result, ResultExt as _};
use incarnate_gguf::{GgufFile, Value};

/// Most tokens of a vocabulary. The largest published ones have about 262,000.
pub(crate) const MAXIMUM_TOKENS: u64 = 1 << 20;
/// Most merges of a vocabulary. The largest published ones have about 515,000.
pub(crate) const MAXIMUM_MERGES: u64 = 1 << 21;

fn other_type(key: &str, expected: &str) -> Error {
    Error::invalid_argument(format!("metadata '{key}' is not {expected}"))
}

/// Returns a text, if the key has a value.
pub(crate) fn text<'a>(file: &'a GgufFile, key: &str) -> Result<Option<&'a str>> {
    match file.value(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(other_type(key, "a text")),
    }
}

/// Returns a Boolean, if the key has a value.
pub(crate) fn flag(file: &GgufFile, key: &str) -> Result<Option<bool>> {
    match file.value(key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(other_type(key, "a Boolean")),
    }
}

/// Returns a token of a vocabulary with `count` tokens, if the key has a value.
pub(crate) fn token(file: &GgufFile, key: &str, count: usize) -> Result<Option<u32>> {
    match file.value(key) {
        None => Ok(None),
        Some(Value::Integer(integer)) => match u32::try_from(*integer) {
            Ok(token) if (token as usize) < count => Ok(Some(token)),
            _ => Err(Error::out_of_range(format!(
                "metadata '{key}' is {integer}, outside of the vocabulary of {count} tokens"
            ))),
        },
        Some(_) => Err(other_type(key, "an integer")),
    }
}

/// Returns the elements of an array, if the key has a value.
fn array<T>(
    file: &GgufFile,
    key: &str,
    limit: u64,
    expected: &str,
    convert: impl Fn(Value) -> Option<T>,
) -> Result<Option<Vec<T>>> {
    let count = match file.value(key) {
        None => return Ok(None),
        Some(Value::Array(array)) => array.count(),
        Some(_) => return Err(other_type(key, "an array")),
    };
    // An element can take one byte of the file, and dozens in memory.
    if count > limit {
        return Err(Error::resource_exhausted(format!(
            "metadata '{key}' has {count} elements, which exceed the limit of {limit}"
        )));
    }
    let convert = |(index, value)| {
        convert(value)
            .ok_or_else(|| Error::invalid_argument(format!("element {index} of metadata '{key}' is not {expected}")))
    };
    file.elements(key)?.into_iter().enumerate().map(convert).collect::<Result<_>>().map(Some)
}

/// Returns an array of texts, if the key has a value.
pub(crate) fn texts(file: &GgufFile, key: &str, limit: u64) -> Result<Option<Vec<String>>> {
    array(file, key, limit, "a text", |value| match value {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// Returns an array of integers, if the key has a value.
pub(crate) fn integers(file: &GgufFile, key: &str, limit: u64) -> Result<Option<Vec<i128>>> {
    array(file, key, limit, "an integer", |value| match value {
        Value::Integer(integer) => Some(integer),
        _ => None,
    })
}

/// Returns an array of numbers, if the key has a value.
pub(crate) fn numbers(file: &GgufFile, key: &str, limit: u64) -> Result<Option<Vec<f32>>> {
    array(file, key, limit, "a number", |value| match value {
        Value::Float(float) => Some(float as f32),
        Value::Integer(integer) => Some(integer as f32),
        _ => None,
    })
}

/// Returns the tokens of a vocabulary.
pub(crate) fn tokens(file: &GgufFile) -> Result<Vec<String>> {
    let tokens = texts(file, "tokenizer.ggml.tokens", MAXIMUM_TOKENS)?;
    tokens
        .filter(|tokens| !tokens.is_empty())
        .ok_or_else(|| Error::not_found("the metadata has no tokens"))
        .context(|| "vocabulary")
}
