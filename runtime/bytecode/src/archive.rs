//! Archive framing: where in a file the FlatBuffer is, and where the constants behind it.
//!
//! What is verified must stay as it was: of contents that another process can change, or that code of another crate
//! owns, an archive keeps a copy of the FlatBuffer, which has the tables and the bytecode. Constants stay in place.
//!
//! A module file is, in this order:
//! - optionally the local header of a ZIP entry (30 bytes, a name, extra fields; then the whole file is a ZIP archive too,
//!   whose entries are stored uncompressed);
//! - the length of the FlatBuffer, 4 bytes;
//! - the FlatBuffer, with the file identifier `IREE`;
//! - at the next multiple of 64 bytes from the start of the file, external constants, each aligned as it needs;
//! - optionally the directory of the ZIP archive.
//!
//! Everything is little-endian.

use alloc::format;
use alloc::sync::Arc;
#[cfg(test)]
use alloc::vec::Vec;
use core::ops::Range;

use super::contents::{Contents, SEGMENT_ALIGNMENT};
use super::foreign::FileKind;
use super::read::{u16_at, u32_at};
use crate::{Error, Result};

const ZIP_LOCAL_HEADER_SIGNATURE: u32 = 0x0403_4B50;
const ZIP_LOCAL_HEADER_LENGTH: usize = 30;
const ZIP_NAME_LENGTH_OFFSET: usize = 26;
const ZIP_EXTRA_LENGTH_OFFSET: usize = 28;

/// Bytes of the length in front of the FlatBuffer.
pub(crate) const SIZE_PREFIX_LENGTH: usize = 4;
/// Position of the file identifier within a FlatBuffer.
pub(crate) const IDENTIFIER_OFFSET: usize = 4;
/// File identifier of a bytecode module.
pub const FILE_IDENTIFIER: &[u8; 4] = b"IREE";

/// A module file that has been divided into its parts. Cheap to clone; shares the bytes.
#[derive(Clone, Debug)]
pub struct Archive {
    contents: Arc<Contents>,
    /// The archive's bytes within the contents; ends where the contents' range ends, since no header says where it ends.
    range: Range<usize>,
    /// The FlatBuffer with its size prefix, within the contents.
    flatbuffer: Range<usize>,
    /// What contains the FlatBuffer and never changes: the contents, or a copy of a range of them.
    sealed: Arc<Contents>,
    /// Position of the first sealed byte within the contents.
    sealed_start: usize,
    /// Where offsets of external constants count from, within the contents.
    rodata_base: usize,
}

impl Archive {
    /// Divides a file. Fails with `INVALID_ARGUMENT` on what is not a module file, or one that was cut off.
    pub fn new(contents: Arc<Contents>) -> Result<Archive> {
        let length = contents.length();
        Archive::within(contents, 0..length)
    }

    /// Divides a file that lies within another one, as VMVX executables do. `range` is in bytes of `contents`.
    ///
    /// Fails as [`Archive::new`] does, with `OUT_OF_RANGE` if the range exceeds the contents, and with `RESOURCE_EXHAUSTED`
    /// if there is no memory for a copy of the FlatBuffer.
    pub fn within(contents: Arc<Contents>, range: Range<usize>) -> Result<Archive> {
        if range.start > range.end || range.end > contents.length() {
            let length = contents.length();
            return Err(Error::out_of_range(format!("archive {range:?} lies outside of contents of {length} bytes")));
        }
        let head = range.start..range.end.min(range.start + ZIP_LOCAL_HEADER_LENGTH);
        let head = contents.bytes(head)?.into_owned();
        let start = range.start..range.end.min(range.start.saturating_add(FileKind::START));
        Archive::divided(contents.clone(), range, &head).map_err(|error| {
            let start = contents.bytes(start).unwrap_or_default();
            // The error says what is wrong with a damaged module.
            match FileKind::of_start(&start).filter(|kind| *kind != FileKind::MODULE) {
                Some(kind) => Error::invalid_argument(format!("this is not a module but {kind}")),
                None => error,
            }
        })
    }

    /// Divides a file that begins with `head`.
    fn divided(contents: Arc<Contents>, range: Range<usize>, head: &[u8]) -> Result<Archive> {
        let start = zip_header_length(head)?;
        let size = range.len().checked_sub(start).filter(|rest| *rest >= SIZE_PREFIX_LENGTH);
        let size = size.and_then(|_| contents.array_at(range.start + start)).ok_or_else(|| too_short(range.len()))?;
        let length = u32::from_le_bytes(size) as usize;
        let data = start + SIZE_PREFIX_LENGTH;
        let available = range.len() - data;
        if length > available {
            return Err(Error::invalid_argument(format!(
                "the file is cut off or is not a module: its FlatBuffer has {length} bytes, of which {available} are there"
            )));
        }
        let flatbuffer = range.start + start..range.start + data + length;
        let rodata_base = range.start.saturating_add((data + length).next_multiple_of(SEGMENT_ALIGNMENT));
        let (sealed, sealed_start) = seal(&contents, flatbuffer.clone())?;
        let archive = Archive { contents, range, flatbuffer, sealed, sealed_start, rodata_base };
        let identifier = SIZE_PREFIX_LENGTH + IDENTIFIER_OFFSET;
        match archive.flatbuffer().get(identifier..identifier + FILE_IDENTIFIER.len()) {
            Some(identifier) if identifier == FILE_IDENTIFIER => Ok(archive),
            Some(identifier) => {
                let found = identifier.escape_ascii();
                Err(Error::invalid_argument(format!(
                    "not a bytecode module: file identifier is `{found}` instead of `IREE`"
                )))
            }
            None => Err(too_short(archive.range.len())),
        }
    }

    /// The bytes that the archive lies in.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    /// The bytes of the archive, and of what follows it in the contents.
    pub(super) fn length(&self) -> usize {
        self.range.len()
    }

    /// The FlatBuffer, with the 4 bytes of its size prefix in front.
    #[must_use]
    pub fn flatbuffer(&self) -> &[u8] {
        self.sealed_bytes(self.flatbuffer.clone()).unwrap_or_default()
    }

    /// The bytes of a range of the FlatBuffer, by its position within [`Archive::contents`].
    pub(super) fn sealed_bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let start = range.start.checked_sub(self.sealed_start)?;
        self.sealed.as_bytes()?.get(start..range.end.checked_sub(self.sealed_start)?)
    }

    /// Position of [`Archive::flatbuffer`] within [`Archive::contents`].
    #[must_use]
    pub fn flatbuffer_range(&self) -> Range<usize> {
        self.flatbuffer.clone()
    }

    /// Position within the contents of an external constant, from its offset in the FlatBuffer; `None` if it is not complete.
    #[must_use]
    pub fn external(&self, offset: u64, length: u64) -> Option<Range<usize>> {
        let start = self.rodata_base.checked_add(usize::try_from(offset).ok()?)?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.range.end).then_some(start..end)
    }
}

/// Returns what contains a range of the contents and never changes, with the position of its first byte: the contents
/// themselves, or a copy. A copy begins at a multiple of [`SEGMENT_ALIGNMENT`], so that the alignment stays.
fn seal(contents: &Arc<Contents>, range: Range<usize>) -> Result<(Arc<Contents>, usize)> {
    if contents.is_sealed() {
        return Ok((Arc::clone(contents), 0));
    }
    let start = range.start - range.start % SEGMENT_ALIGNMENT;
    let copy = Contents::copy_from(&contents.bytes(start..range.end)?);
    Ok((Arc::new(copy), start))
}

#[cold]
fn too_short(length: usize) -> Error {
    Error::invalid_argument(format!("archive of {length} bytes is too short to hold a bytecode module"))
}

/// Length of the ZIP local header that the bytes begin with; 0 if they do not.
fn zip_header_length(archive: &[u8]) -> Result<usize> {
    if u32_at(archive, 0) != Some(ZIP_LOCAL_HEADER_SIGNATURE) {
        return Ok(0);
    }
    let name = u16_at(archive, ZIP_NAME_LENGTH_OFFSET);
    let extra = u16_at(archive, ZIP_EXTRA_LENGTH_OFFSET);
    match (name, extra) {
        (Some(name), Some(extra)) => Ok(ZIP_LOCAL_HEADER_LENGTH + usize::from(name) + usize::from(extra)),
        _ => Err(too_short(archive.len())),
    }
}

/// Frames a finished FlatBuffer (with size prefix) and external constants into a plain file; `external` are the constants
/// with their offsets, relative to the first multiple of [`SEGMENT_ALIGNMENT`] behind the FlatBuffer and ascending.
#[cfg(test)]
#[must_use]
pub(crate) fn frame(size_prefixed_flatbuffer: &[u8], external: &[(usize, &[u8])]) -> Vec<u8> {
    let mut file = size_prefixed_flatbuffer.to_vec();
    if external.is_empty() {
        return file;
    }
    let base = file.len().next_multiple_of(SEGMENT_ALIGNMENT);
    for (offset, bytes) in external {
        file.resize(base + offset, 0);
        file.extend_from_slice(bytes);
    }
    file
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn flatbuffer(payload: usize) -> Vec<u8> {
        let mut bytes = (8 + payload as u32).to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(FILE_IDENTIFIER);
        bytes.resize(bytes.len() + payload, 0xAA);
        bytes
    }

    fn zipped(file: &[u8]) -> Vec<u8> {
        let mut bytes = ZIP_LOCAL_HEADER_SIGNATURE.to_le_bytes().to_vec();
        bytes.resize(ZIP_NAME_LENGTH_OFFSET, 0);
        bytes.extend(9u16.to_le_bytes());
        bytes.extend(25u16.to_le_bytes());
        bytes.resize(64, 0);
        bytes.extend(file);
        bytes
    }

    fn open(bytes: &[u8]) -> Result<Archive> {
        Archive::new(Arc::new(Contents::copy_from(bytes)))
    }

    #[test]
    fn plain_and_zip_files_are_divided() {
        let plain = frame(&flatbuffer(20), &[(0, b"abc"), (64, b"de")]);
        for (bytes, base) in [(plain.clone(), 0), (zipped(&plain), 64)] {
            let archive = open(&bytes).unwrap();
            assert_eq!(archive.flatbuffer_range(), base..base + 32);
            assert_eq!(archive.external(0, 3), Some(base + 64..base + 67));
            assert_eq!(&bytes[archive.external(64, 2).unwrap()], b"de");
            assert_eq!(archive.external(64, 3), None);
            assert_eq!(archive.external(u64::MAX, 1), None);
            assert_eq!(archive.external(1, u64::MAX), None);
        }
    }

    #[test]
    fn an_archive_within_another_counts_from_its_own_start() {
        let inner = frame(&flatbuffer(1), &[(0, b"abc")]);
        let mut outer = alloc::vec![0; 128];
        outer.extend(&inner);
        outer.extend([0; 9]);
        let contents = Arc::new(Contents::copy_from(&outer));
        let archive = Archive::within(contents.clone(), 128..128 + inner.len()).unwrap();
        assert_eq!(&outer[archive.external(0, 3).unwrap()], b"abc");
        assert_eq!(archive.external(0, 4), None);
        assert!(Archive::within(contents, 128..1000).is_err());
    }

    /// Returns other bytes each time, as no owner should.
    struct Changing([Vec<u8>; 2], core::sync::atomic::AtomicUsize);

    impl AsRef<[u8]> for Changing {
        fn as_ref(&self) -> &[u8] {
            &self.0[self.1.fetch_add(1, core::sync::atomic::Ordering::Relaxed) % 2]
        }
    }

    #[test]
    fn what_was_read_stays_as_it_was() {
        let (valid, other) = (zipped(&flatbuffer(200)), alloc::vec![0x55; 300]);
        for first in 0..2 {
            let changing = Changing([valid.clone(), other.clone()], first.into());
            let Ok(archive) = Archive::new(Arc::new(Contents::external(changing))) else { continue };
            let sealed = archive.flatbuffer().to_vec();
            assert_eq!(sealed[8..12], *FILE_IDENTIFIER);
            assert_eq!(sealed, archive.flatbuffer());
            assert_eq!(archive.sealed_bytes(64..300), None);
        }
    }

    #[test]
    fn what_is_no_module_is_refused() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "an empty file"),
            (b"abc", "a text file"),
            (b"\xFF\x01\x02", "3 bytes is too short"),
            (b"\x05\0\0\0\0\0\0\0I", "too short"),
            (b"\x10\0\0\0\0\0\0\0IREE", "FlatBuffer has 16 bytes, of which 8 are there"),
            (b"\x08\0\0\0\0\0\0\0ABCD", "`ABCD`"),
        ];
        for (bytes, message) in cases {
            let error = open(bytes).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let zip = zipped(&flatbuffer(0));
        for length in 4..zip.len() {
            assert!(open(&zip[..length]).is_err(), "{length}");
        }
    }
}
