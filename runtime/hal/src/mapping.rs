//! Memory-mapped files.
#![allow(unsafe_code, reason = "a mapping is only as immutable as the file behind it")]

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use crate::bytecode::Contents;
use crate::{Result, ResultExt};

/// A file that is mapped into memory, to be read only.
#[derive(Debug)]
pub struct MappedFile {
    map: memmap2::Mmap,
    file: File,
}

/// A file, or a range of one, that is mapped for writing: to the file, or privately by copy on write.
#[derive(Debug)]
pub(crate) struct WritableMapping {
    map: memmap2::MmapMut,
}

impl WritableMapping {
    /// Maps the whole file for writing to it, under the requirements of [`MappedFile::open`]. Errors contain the path.
    pub(crate) fn open(path: &Path) -> Result<WritableMapping> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.context(|| format!("opening {} for writing", path.display()))?;
        // SAFETY: as for `MappedFile::open`. The bytes are accessed only through raw pointers.
        let map = unsafe { memmap2::MmapMut::map_mut(&file) }.context(|| format!("mapping {}", path.display()))?;
        Ok(WritableMapping { map })
    }

    /// Returns the address of the first byte and the length, valid while the mapping lives.
    pub(crate) fn as_mut_ptr(&mut self) -> (*mut u8, usize) {
        (self.map.as_mut_ptr(), self.map.len())
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl MappedFile {
    /// Maps the whole file; pages are read at their first use.
    ///
    /// The file must not be changed or truncated while the mapping lives; read a file instead of mapping it if others
    /// may write to it. Errors contain the path.
    pub fn open(path: &Path) -> Result<MappedFile> {
        let file = File::open(path).context(|| format!("opening {}", path.display()))?;
        // SAFETY: the mapping is private and read-only. No system can check that no process changes the file; this
        // function documents it as a requirement, as every user of mapped files must.
        let map = unsafe { memmap2::Mmap::map(&file) }.context(|| format!("mapping {}", path.display()))?;
        Ok(MappedFile { map, file })
    }

    /// Maps the whole file as the contents of a module or of parameters, under the requirements of
    /// [`MappedFile::open`].
    pub fn contents(path: &Path) -> Result<Contents> {
        MappedFile::open(path).map(Contents::external)
    }

    /// Maps a range of the file once more, copy on write. Its address within a page is the same as in this mapping.
    pub(crate) fn private(&self, range: Range<usize>) -> Result<WritableMapping> {
        let mut options = memmap2::MmapOptions::new();
        options.offset(range.start as u64).len(range.len());
        // SAFETY: the mapping is private, and by the requirement of `open` no process changes the file.
        let map = unsafe { options.map_copy(&self.file) }.context(|| format!("mapping {} bytes", range.len()))?;
        Ok(WritableMapping { map })
    }

    /// Returns the file's bytes. Their address is constant while the mapping lives and is page-aligned.
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
    fn a_mapping_has_the_contents_of_the_file() {
        let path = std::env::temp_dir().join(format!("incarnate-mapping-{}", std::process::id()));
        std::fs::write(&path, b"contents").unwrap();
        assert_eq!(MappedFile::open(&path).unwrap().as_bytes(), b"contents");
        let file = MappedFile::open(&path).unwrap();
        let (start, length) = file.private(3..8).unwrap().as_mut_ptr();
        assert_eq!((start.addr() % 4096, length), (3, 5));
        let (start, _) = WritableMapping::open(&path).unwrap().as_mut_ptr();
        assert_eq!(start.addr() % 4096, 0);
        std::fs::remove_file(&path).unwrap();
        let error = MappedFile::open(&path).unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound);
        assert!(error.to_string().contains("incarnate-mapping-"), "{error}");
    }
}
