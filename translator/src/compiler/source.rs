//! Which model a module was made of: a file beside the module.
//!
//! A program's repository can hold a model and the module that was made of it, so that the program builds where no compiler is.
//! The contents of the model decide whether the module is older, because a checkout does not keep times.

use std::fs;
use std::path::{Path, PathBuf};

use incarnate_bytecode::Result;

use super::with_path;

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
        let contents = with_path(fs::read(model), "reading", model)?;
        let name = model.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Source { name, hash: format!("{:032x}", fnv1a(&[&contents])) })
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

/// Returns the 128-bit FNV-1a hash of some bytes, with their lengths (<http://www.isthe.com/chongo/tech/comp/fnv/>). It does not
/// change between versions of Rust. A collision on purpose only harms the user's own cache.
pub(super) fn fnv1a(parts: &[&[u8]]) -> u128 {
    const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = parts.iter().flat_map(|part| part.iter().copied().chain((part.len() as u64).to_le_bytes()));
    bytes.fold(OFFSET_BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_tell_parts_and_lengths_apart() {
        let hashes = [fnv1a(&[]), fnv1a(&[b""]), fnv1a(&[b"a", b"b"]), fnv1a(&[b"ab", b""]), fnv1a(&[b"ab"])];
        for (index, hash) in hashes.iter().enumerate() {
            assert_eq!(hashes.iter().position(|other| other == hash), Some(index));
        }
    }
}
