//! Memory-mapped files.
//!
//! No system can check that no process changes a mapped file. So its bytes are never borrowed as a slice: they are memory like
//! that of a program, which is copied out or reached by its address ([`vm::MappedBytes`]). A file that is changed changes the
//! bytes, and has no other effect. A file that is truncated takes the pages away: an access ends the process with SIGBUS.
#![allow(unsafe_code, reason = "the addresses of mappings")]

use core::any::Any;
use core::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;

use crate::bytecode::{Contents, open_regular_file};
use crate::{Error, Result, ResultExt, vm};

/// A file that is mapped into memory, to be read only.
#[derive(Debug)]
pub struct MappedFile {
    map: memmap2::MmapRaw,
    file: File,
    /// Where the mapping begins in the file.
    start: u64,
    /// Dropped after the mapping.
    #[expect(dead_code, reason = "dropped after the mapping")]
    companion: Companion,
}

/// See [`MappedFile::contents_with`].
struct Companion(Option<Box<dyn Any + Send + Sync>>);

impl fmt::Debug for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Companion({})", self.0.is_some())
    }
}

/// A file, or a range of one, that is mapped for writing: to the file, or privately by copy on write.
#[derive(Debug)]
pub(crate) struct WritableMapping {
    map: memmap2::MmapRaw,
}

impl WritableMapping {
    /// Maps the whole file for writing to it, under the requirements of [`MappedFile::open`]. Errors contain the path.
    pub(crate) fn open(path: &Path) -> Result<WritableMapping> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.context(|| format!("opening {} for writing", path.display()))?;
        let map = memmap2::MmapRaw::map_raw(&file).context(|| format!("mapping {}", path.display()))?;
        Ok(WritableMapping { map })
    }

    /// Returns the address of the first byte and the length, valid while the mapping lives.
    pub(crate) fn as_mut_ptr(&mut self) -> (*mut u8, usize) {
        (self.map.as_mut_ptr(), self.map.len())
    }
}

impl MappedFile {
    /// Maps the whole file; pages are read at their first use. Errors contain the path.
    ///
    /// While the mapping lives, the file should not be changed, as its bytes change with it, and must not be truncated: an access
    /// to a page that is gone ends the process. Read a file instead of mapping it if others may write to it.
    pub fn open(path: &Path) -> Result<MappedFile> {
        let file = open_regular_file(path)?;
        let map = memmap2::MmapOptions::new().map_raw_read_only(&file);
        let map = map.context(|| format!("mapping {}", path.display()))?;
        Ok(MappedFile { map, file, start: 0, companion: Companion(None) })
    }

    /// Maps the whole file as the contents of a module or of parameters, under the requirements of
    /// [`MappedFile::open`]. What of a module is verified is copied into memory; constants and parameters stay mapped.
    pub fn contents(path: &Path) -> Result<Contents> {
        Ok(MappedFile::open(path)?.into_contents())
    }

    /// Maps a range of a file as the contents of parameters, under the requirements of [`MappedFile::open`]: a file within a file, whose
    /// first byte is aligned as the range's start is.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the file ends before the range does; errors of opening and mapping.
    pub fn contents_of_range(path: &Path, range: Range<u64>) -> Result<Contents> {
        let file = open_regular_file(path)?;
        let context = || format!("mapping {}", path.display());
        let available = file.metadata().context(context)?.len();
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= available);
        let length = length.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| {
            Error::out_of_range(format!("bytes {range:?} of a file of {available}")).context(context())
        })?;
        let map = memmap2::MmapOptions::new().offset(range.start).len(length).map_raw_read_only(&file);
        let map = map.context(context)?;
        Ok(MappedFile { map, file, start: range.start, companion: Companion(None) }.into_contents())
    }

    /// Maps a file as [`MappedFile::contents`] does, and drops `companion` when the contents are unmapped: what must outlive them,
    /// or tells that they are gone. Pages that a device has mapped once more may live longer.
    pub fn contents_with(path: &Path, companion: impl Any + Send + Sync) -> Result<Contents> {
        let file = MappedFile::open(path)?;
        Ok(MappedFile { companion: Companion(Some(Box::new(companion))), ..file }.into_contents())
    }

    fn into_contents(self) -> Contents {
        let file = self;
        let (data, length) = (file.map.as_mut_ptr(), file.map.len());
        let data = NonNull::new(data).unwrap_or(NonNull::dangling());
        // SAFETY: the mapping has these bytes until it is dropped, and `MmapRaw` never returns them as a slice.
        unsafe { vm::MappedBytes::new(data, length, Box::new(file)) }.contents()
    }

    /// Returns the mapped file of contents, if they are one.
    pub(crate) fn of(contents: &Contents) -> Option<&MappedFile> {
        contents.owner::<vm::MappedBytes>()?.owner()
    }

    /// Returns the position in the mapping of the byte at an address.
    pub(crate) fn position(&self, address: *const u8) -> usize {
        address.addr().wrapping_sub(self.map.as_ptr().addr())
    }

    /// Maps a range of the mapping once more, copy on write. Its address within a page is the same as in this mapping.
    pub(crate) fn private(&self, range: Range<usize>) -> Result<WritableMapping> {
        let mut options = memmap2::MmapOptions::new();
        options.offset(self.start + range.start as u64).len(range.len());
        // SAFETY: the bytes, which a process can change until they are written here, are reached through raw pointers only: in
        // the next line, the mapping becomes one that returns no slice.
        let map = unsafe { options.map_copy(&self.file) }.context(|| format!("mapping {} bytes", range.len()))?;
        Ok(WritableMapping { map: map.into() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn a_mapping_has_the_contents_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"contents").unwrap();
        let contents = MappedFile::contents(&path).unwrap();
        assert!(contents.as_bytes().is_none());
        assert_eq!(*contents.bytes(0..8).unwrap(), *b"contents");
        assert_eq!(MappedFile::of(&contents).unwrap().map.len(), 8);
        let range = MappedFile::contents_of_range(&path, 3..7).unwrap();
        assert_eq!(*range.bytes(0..4).unwrap(), *b"tent");
        let (start, length) = MappedFile::of(&range).unwrap().private(1..4).unwrap().as_mut_ptr();
        assert_eq!((start.addr() % 4096, length), (4, 3));
        for wrong in [3..9, 9..9, u64::MAX - 1..u64::MAX] {
            let error = MappedFile::contents_of_range(&path, wrong).unwrap_err();
            assert_eq!(error.code(), StatusCode::OutOfRange, "{error}");
        }
        drop(range);
        let file = MappedFile::open(&path).unwrap();
        let (start, length) = file.private(3..8).unwrap().as_mut_ptr();
        assert_eq!((start.addr() % 4096, length), (3, 5));
        let (start, _) = WritableMapping::open(&path).unwrap().as_mut_ptr();
        assert_eq!(start.addr() % 4096, 0);
        // Windows keeps a file while it is mapped.
        drop((contents, file));
        let companion = std::sync::Arc::new(());
        let contents = MappedFile::contents_with(&path, std::sync::Arc::clone(&companion)).unwrap();
        assert_eq!((contents.length(), std::sync::Arc::strong_count(&companion)), (8, 2));
        drop(contents);
        assert_eq!(std::sync::Arc::strong_count(&companion), 1);
        std::fs::remove_file(&path).unwrap();
        let error = MappedFile::open(&path).unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}
