//! Which model a module was made of: a file beside the module.
//!
//! A program's repository can hold a model and the module that was made of it, so that the program builds where no compiler is.
//! The contents of the model decide whether the module is older, because a checkout does not keep times.

use std::fs;
use std::path::{Path, PathBuf};

use incarnate_bytecode::Result;
use incarnate_gguf::{GgufFile, ModelFolder};

use super::hash::Hash;
use super::{ModelFormat, import, with_path};

/// The name and a hash of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    hash: String,
}

impl Source {
    /// Reads a model.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn of(model: &Path) -> Result<Source> {
        let name = model.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Source { name, hash: hash_of(model)? })
    }

    /// Returns the path of the file beside a module: `NAME.vmfb.source`.
    #[must_use]
    pub fn path_for(module: &Path) -> PathBuf {
        let mut path = module.as_os_str().to_owned();
        path.push(".source");
        path.into()
    }

    /// Returns the contents of the file.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} {}\n", self.hash, self.name)
    }

    /// Returns true if the file beside a module is this model's.
    #[must_use]
    pub fn is_of(&self, module: &Path) -> bool {
        let text = fs::read_to_string(Source::path_for(module)).unwrap_or_default();
        text.split_whitespace().next() == Some(&*self.hash)
    }
}

/// Returns the files of a model: its own, and those that an ONNX model keeps weights in, as far as they exist.
///
/// # Errors
/// Errors of reading the model.
pub(crate) fn files_of(model: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![model.to_owned()];
    if ModelFormat::of(model)? == Some(ModelFormat::Onnx) {
        files.extend(import::weight_files(model).into_iter().filter(|path| path.is_file()));
    }
    Ok(files)
}

/// Returns the hash of what a module is made of: the contents of a model with its weights, or the header of a language model, whose weights are
/// parameters of the module.
///
/// # Errors
/// Errors of reading the files.
pub(super) fn hash_of(model: &Path) -> Result<String> {
    let mut hash = Hash::default();
    if let Some(folder) = ModelFolder::at(model) {
        hash.part(&folder.header()?);
        return Ok(hash.finish());
    }
    if ModelFormat::of(model)? == Some(ModelFormat::Gguf) {
        hash.part(&GgufFile::open(model)?.header()?);
        return Ok(hash.finish());
    }
    for path in files_of(model)? {
        with_path(hash.file(&path), "reading", &path)?;
    }
    Ok(hash.finish())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn weights_beside_a_model_are_part_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (model, weights) = (folder.path().join("net.onnx"), folder.path().join("net.onnx.data"));
        // The graph's initializer (5) with external data (13): the location.
        let part = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
        let entry = [part(1, b"location"), part(2, b"net.onnx.data")].concat();
        fs::write(&model, part(7, &part(5, &part(13, &entry)))).unwrap();
        let missing = Source::of(&model).unwrap();
        fs::write(&weights, [1, 2, 3]).unwrap();
        let first = Source::of(&model).unwrap();
        assert_eq!(files_of(&model).unwrap(), [model.clone(), weights.clone()]);
        fs::write(&weights, [1, 2, 4]).unwrap();
        let second = Source::of(&model).unwrap();
        assert!(missing != first && first != second);
        let mut hash = Hash::default();
        hash.part(&fs::read(&model).unwrap());
        hash.part(&[1, 2, 4]);
        assert_eq!(hash_of(&model).unwrap(), hash.finish());
    }

    #[test]
    fn the_source_of_a_folder_is_what_its_module_depends_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Small-1.5B");
        fs::create_dir(&path).unwrap();
        assert!(ModelFormat::of(&path).is_err(), "a folder without a model");
        fs::write(path.join("config.json"), "{}").unwrap();
        assert_eq!(ModelFormat::of(&path).unwrap(), Some(ModelFormat::HuggingFace));
        let header = br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        let weights = |byte: u8| [&(header.len() as u64).to_le_bytes()[..], header, &[byte]].concat();
        fs::write(path.join("model.safetensors"), weights(1)).unwrap();
        let source = Source::of(&path).unwrap();
        assert!(source.text().ends_with(" Small-1.5B\n"));
        // Weights are parameters of the module.
        fs::write(path.join("model.safetensors"), weights(2)).unwrap();
        assert_eq!(Source::of(&path).unwrap(), source);
        fs::write(path.join("config.json"), r#"{"rope_theta": 1}"#).unwrap();
        assert_ne!(Source::of(&path).unwrap(), source);
        assert_eq!(
            (import::name_of(&path), import::name_of(Path::new("a/net.onnx"))),
            ("Small-1.5B".into(), "net".into())
        );
    }
}
