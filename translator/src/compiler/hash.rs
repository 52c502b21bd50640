//! Hashes of files and texts.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// A hash of some parts, with their lengths: SHA-256. Models are files of other people, who must not be able to construct one with the
/// hash of another.
#[derive(Debug, Default)]
pub(super) struct Hash(Sha256);

impl Hash {
    /// Adds a part.
    pub(super) fn part(&mut self, part: &[u8]) {
        self.0.update(part);
        self.length(part.len() as u64);
    }

    /// Adds the contents of a file as a part.
    pub(super) fn file(&mut self, path: &Path) -> io::Result<()> {
        let (mut file, mut buffer, mut length) = (File::open(path)?, vec![0; 1 << 16], 0);
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => {
                    self.0.update(buffer.get(..count).unwrap_or_default());
                    length += count as u64;
                }
            }
        }
        self.length(length);
        Ok(())
    }

    fn length(&mut self, length: u64) {
        self.0.update(length.to_le_bytes());
    }

    /// Returns the hash in hexadecimal.
    pub(super) fn finish(self) -> String {
        self.0.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Returns the hash of the contents of a file.
    pub(super) fn of_file(path: &Path) -> io::Result<String> {
        let mut hash = Hash::default();
        hash.file(path)?;
        Ok(hash.finish())
    }

    /// Returns the hash of some texts.
    pub(super) fn of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
        let mut hash = Hash::default();
        texts.into_iter().for_each(|text| hash.part(text.as_bytes()));
        hash.finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn hashes_tell_parts_and_lengths_apart() {
        let lists: [&[&str]; 5] = [&[], &[""], &["a", "b"], &["ab", ""], &["ab"]];
        let hashes = lists.map(|texts| Hash::of_texts(texts.iter().copied()));
        for (index, hash) in hashes.iter().enumerate() {
            assert_eq!(hashes.iter().position(|other| other == hash), Some(index));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "ab").unwrap();
        assert_eq!(Hash::of_file(file.path()).unwrap(), hashes[4]);
    }

    /// SHA-256 of `abc` and of its length, by `printf 'abc\3\0\0\0\0\0\0\0' | sha256sum`.
    #[test]
    fn hashes_stay_the_same() {
        assert_eq!(Hash::of_texts(["abc"]), "baba775df93bdbf9d34cd8eb1cfe68727c19de118e74f374100e75baeea41d90");
    }
}
