//! Which model a module was made of: a file beside the module.
//!
//! A program's repository can hold a model and the module that was made of it, so that the program builds where no compiler is.
//! The contents of the model decide whether the module is older, because a checkout does not keep times.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use incarnate_bytecode::Result;

use super::{ModelFormat, onnx, with_path};

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
        Ok(Source { name, hash: format!("{:032x}", hash_of(model)?) })
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
        let contents = with_path(fs::read(model), "reading", model)?;
        let weights = onnx::weight_files(&contents).into_iter().map(|name| model.with_file_name(name));
        files.extend(weights.filter(|path| path.is_file()));
    }
    Ok(files)
}

/// Returns the hash of the contents of a model with its weights.
///
/// # Errors
/// Errors of reading the files.
pub(super) fn hash_of(model: &Path) -> Result<u128> {
    let mut hash = Fnv1a::new();
    for path in files_of(model)? {
        with_path(File::open(&path).and_then(|file| hash.file(file)), "reading", &path)?;
    }
    Ok(hash.0)
}

/// Returns the hash of the contents of a file.
///
/// # Errors
/// Errors of reading it.
pub(super) fn hash_of_file(path: &Path) -> io::Result<u128> {
    let mut hash = Fnv1a::new();
    hash.file(File::open(path)?)?;
    Ok(hash.0)
}

/// Returns the hash of some texts.
pub(super) fn hash_of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> u128 {
    let mut hash = Fnv1a::new();
    texts.into_iter().for_each(|text| hash.part(text.as_bytes()));
    hash.0
}

/// The 128-bit FNV-1a hash of some parts, with their lengths (<http://www.isthe.com/chongo/tech/comp/fnv/>). It does not
/// change between versions of Rust. A collision on purpose only harms the user's own cache.
struct Fnv1a(u128);

impl Fnv1a {
    const fn new() -> Fnv1a {
        Fnv1a(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    }

    fn part(&mut self, part: &[u8]) {
        self.bytes(part);
        self.bytes(&(part.len() as u64).to_le_bytes());
    }

    /// Adds a file as a part.
    fn file(&mut self, mut file: File) -> io::Result<()> {
        let (mut buffer, mut length) = (vec![0; 1 << 16], 0u64);
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => {
                    self.bytes(buffer.get(..count).unwrap_or_default());
                    length += count as u64;
                }
            }
        }
        self.bytes(&length.to_le_bytes());
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn fnv1a(parts: &[&[u8]]) -> u128 {
        let mut hash = Fnv1a::new();
        parts.iter().for_each(|part| hash.part(part));
        hash.0
    }

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
        assert_eq!(hash_of(&model).unwrap(), fnv1a(&[&fs::read(&model).unwrap(), &[1, 2, 4]]));
    }

    #[test]
    fn hashes_tell_parts_and_lengths_apart() {
        let hashes = [fnv1a(&[]), fnv1a(&[b""]), fnv1a(&[b"a", b"b"]), fnv1a(&[b"ab", b""]), fnv1a(&[b"ab"])];
        for (index, hash) in hashes.iter().enumerate() {
            assert_eq!(hashes.iter().position(|other| other == hash), Some(index));
        }
    }
}
