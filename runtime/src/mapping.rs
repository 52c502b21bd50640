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

/// A file or a part of one that is mapped to be written to: for this process alone, page by page, or for the file itself.
#[derive(Debug)]
pub(crate) struct WritableMapping {
    map: memmap2::MmapMut,
}

impl WritableMapping {
    /// Maps the whole file; what is written is written to the file. The demands of [`MappedFile::open`] hold. Fails as opening
    /// and mapping fail, with the path in the message.
    pub(crate) fn open(path: &Path) -> Result<WritableMapping> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.context(|| format!("opening {} for writing", path.display()))?;
        // SAFETY: as for `MappedFile::open`. The bytes are only ever reached through raw pointers.
        let map = unsafe { memmap2::MmapMut::map_mut(&file) }.context(|| format!("mapping {}", path.display()))?;
        Ok(WritableMapping { map })
    }

    /// The address of the first byte and how many there are; valid as long as the mapping lives.
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
    /// Maps the whole file; nothing is read before it is used.
    ///
    /// The file must not be changed or cut short while the mapping lives: programs that load files which others may write
    /// read them instead. Fails as opening and mapping fail, with the path in the message.
    pub fn open(path: &Path) -> Result<MappedFile> {
        let file = File::open(path).context(|| format!("opening {}", path.display()))?;
        // SAFETY: the mapping is private and read-only. That nobody changes the file meanwhile cannot be checked on any
        // system; it is this function's documented demand, and that of every program that maps its input.
        let map = unsafe { memmap2::Mmap::map(&file) }.context(|| format!("mapping {}", path.display()))?;
        Ok(MappedFile { map, file })
    }

    /// Maps the whole file as the contents of a module or of parameters. The demands of [`MappedFile::open`] hold, and it fails
    /// as that does.
    pub fn contents(path: &Path) -> Result<Contents> {
        MappedFile::open(path).map(Contents::external)
    }

    /// Maps a range of the file once more, copied where it is written to. Its address within a page is the same as here. Fails
    /// as mapping fails; the range is that of bytes of the file.
    pub(crate) fn private(&self, range: Range<usize>) -> Result<WritableMapping> {
        let mut options = memmap2::MmapOptions::new();
        options.offset(range.start as u64).len(range.len());
        // SAFETY: the mapping is private. That nobody changes the file meanwhile is what `open` demands.
        let map = unsafe { options.map_copy(&self.file) }.context(|| format!("mapping {} bytes", range.len()))?;
        Ok(WritableMapping { map })
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
