//! Memory-mapped files.
#![allow(unsafe_code, reason = "a mapping is only as immutable as the file behind it")]

use std::fs::File;
use std::path::Path;

use crate::{Result, ResultExt};

/// A file that is mapped into memory, to be read only.
#[derive(Debug)]
pub struct MappedFile {
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps the whole file; nothing is read before it is used.
    ///
    /// The file must not be changed or cut short while the mapping lives: programs that load files which others may write
    /// read them instead. Fails as opening and mapping fail, with the path in the message.
    pub fn open(path: &Path) -> Result<MappedFile> {
        let file = File::open(path).context(|| format!("opening {}", path.display()))?;
        // SAFETY: the mapping is private and read-only. That nobody changes the file meanwhile cannot be checked on any
        // system; it is this function's documented demand, and that of every program that maps its input.
        let map = unsafe { memmap2::Mmap::map(&file) }.context(|| format!("mapping {}", path.display()))?;
        Ok(MappedFile { map })
    }

    /// The file's bytes; the address stays the same while the mapping lives, and is that of a page.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn maps_what_the_file_holds() {
        let path = std::env::temp_dir().join(format!("incarnate-mapping-{}", std::process::id()));
        std::fs::write(&path, b"contents").unwrap();
        assert_eq!(MappedFile::open(&path).unwrap().as_bytes(), b"contents");
        std::fs::remove_file(&path).unwrap();
        let error = MappedFile::open(&path).unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound);
        assert!(error.to_string().contains("incarnate-mapping-"), "{error}");
    }
}
