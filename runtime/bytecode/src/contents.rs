//! The bytes of a file, shared by everything that refers into them.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ops::Range;

#[cfg(feature = "std")]
use crate::ResultExt;
use crate::{Error, Result};

/// Alignment in bytes of the segments of an archive, relative to its start, and of [`Contents`] that own their bytes.
pub const SEGMENT_ALIGNMENT: usize = 64;

/// The owner of a file's bytes. Shared as `Arc<Contents>`; neither address nor length ever changes, so that constants are
/// used in place.
///
/// Only bytes that nothing can change are borrowed as a slice. Those of a mapped file are copied out.
pub enum Contents {
    /// Bytes on the heap, aligned to [`SEGMENT_ALIGNMENT`].
    Owned(AlignedBytes),
    /// Bytes of the program itself, aligned as the program has them.
    Static(&'static [u8]),
    /// Bytes that another type owns and returns as a slice.
    External(Arc<dyn ContentsOwner>),
    /// Bytes that another process can change, such as those of a mapped file.
    Mapped(Arc<dyn MappedContents>),
}

/// An owner of bytes. [`AsRef::as_ref`] returns the same bytes each time; one that does not is a bug of its type, and
/// breaks no memory safety: what is verified is copied first, and what is used in place is borrowed once.
pub trait ContentsOwner: AsRef<[u8]> + Any + Send + Sync {}

impl<T: AsRef<[u8]> + Any + Send + Sync> ContentsOwner for T {}

/// An owner of bytes that another process can change, so that they are never borrowed as a slice.
pub trait MappedContents: Any + Send + Sync {
    /// Number of bytes; always the same.
    fn length(&self) -> usize;

    /// Copies bytes out, from an offset on. Returns false where they exceed the length.
    fn read(&self, offset: usize, target: &mut [u8]) -> bool;
}

impl Contents {
    /// Takes over bytes; they are moved only if the vector is not aligned to [`SEGMENT_ALIGNMENT`].
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> Contents {
        Contents::Owned(AlignedBytes::from_vec(bytes))
    }

    /// Copies bytes.
    #[must_use]
    pub fn copy_from(bytes: &[u8]) -> Contents {
        Contents::Owned(AlignedBytes::copy_from(bytes))
    }

    /// Shares the bytes of an owner, in place.
    #[must_use]
    pub fn external(owner: impl ContentsOwner) -> Contents {
        Contents::External(Arc::new(owner))
    }

    /// Shares the bytes of a mapped file, in place.
    #[must_use]
    pub fn mapped(owner: impl MappedContents) -> Contents {
        Contents::Mapped(Arc::new(owner))
    }

    /// Returns the owner given to [`Contents::external`] or [`Contents::mapped`], if it is a `T`.
    #[must_use]
    pub fn owner<T: Any>(&self) -> Option<&T> {
        let owner: &dyn Any = match self {
            Contents::External(owner) => &**owner,
            Contents::Mapped(owner) => &**owner,
            Contents::Owned(_) | Contents::Static(_) => return None,
        };
        owner.downcast_ref()
    }

    /// Reads a file into memory. Fails as reading fails, with the path in the message.
    #[cfg(feature = "std")]
    pub fn read(path: &std::path::Path) -> Result<Contents> {
        read_regular_file(path).map(Contents::from_vec)
    }

    /// Number of bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Contents::Mapped(owner) => owner.length(),
            _ => self.as_bytes().map_or(0, <[u8]>::len),
        }
    }

    /// The bytes; `None` where another process can change them.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Contents::Owned(bytes) => Some(bytes.as_bytes()),
            Contents::Static(bytes) => Some(bytes),
            Contents::External(owner) => Some((**owner).as_ref()),
            Contents::Mapped(_) => None,
        }
    }

    /// Whether the bytes are the same each time they are borrowed, whatever the code of another crate does.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self, Contents::Owned(_) | Contents::Static(_))
    }

    /// Returns the bytes of a range: in place where nothing can change them, or else a copy.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range exceeds the contents, RESOURCE_EXHAUSTED where there is no memory for a copy.
    pub fn bytes(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>> {
        let outside = || {
            let length = self.length();
            Error::out_of_range(alloc::format!("bytes {range:?} of a file of {length}"))
        };
        let Contents::Mapped(owner) = self else {
            return self.as_bytes().and_then(|bytes| bytes.get(range.clone())).map(Cow::Borrowed).ok_or_else(outside);
        };
        if range.start > range.end || range.end > owner.length() {
            return Err(outside());
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(range.len()).map_err(|_| {
            Error::resource_exhausted(alloc::format!("no memory for a copy of {} bytes of a file", range.len()))
        })?;
        copy.resize(range.len(), 0);
        if owner.read(range.start, &mut copy) { Ok(Cow::Owned(copy)) } else { Err(outside()) }
    }

    /// Copies the `N` bytes at a position out, if they are all there.
    #[must_use]
    pub fn array_at<const N: usize>(&self, position: usize) -> Option<[u8; N]> {
        let mut array = [0; N];
        match self {
            Contents::Mapped(owner) => owner.read(position, &mut array).then_some(array),
            _ => crate::read::array_at(self.as_bytes()?, position),
        }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Contents::Owned(_) => "owned",
            Contents::Static(_) => "static",
            Contents::External(_) => "external",
            Contents::Mapped(_) => "mapped",
        };
        write!(f, "Contents({kind}, {} bytes)", self.length())
    }
}

/// Bytes on the heap whose first one is aligned to [`SEGMENT_ALIGNMENT`].
pub struct AlignedBytes {
    /// Never grown after construction, so that the address stays.
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    fn from_vec(bytes: Vec<u8>) -> AlignedBytes {
        if bytes.as_ptr().addr().is_multiple_of(SEGMENT_ALIGNMENT) {
            let length = bytes.len();
            return AlignedBytes { storage: bytes, start: 0, length };
        }
        AlignedBytes::copy_from(&bytes)
    }

    fn copy_from(bytes: &[u8]) -> AlignedBytes {
        let mut storage: Vec<u8> = Vec::with_capacity(bytes.len().saturating_add(SEGMENT_ALIGNMENT - 1));
        let start = storage.as_ptr().addr().next_multiple_of(SEGMENT_ALIGNMENT) - storage.as_ptr().addr();
        storage.resize(start, 0);
        storage.extend_from_slice(bytes);
        AlignedBytes { storage, start, length: bytes.len() }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.length]
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({})", self.length)
    }
}

/// Opens a regular file for reading. Devices and pipes are refused before they are opened: they may have no end, and opening a pipe
/// waits for a writer.
///
/// # Errors
/// INVALID_ARGUMENT for folders and what else is no regular file; those of opening the file, with the path.
#[cfg(feature = "std")]
pub fn open_regular_file(path: &std::path::Path) -> Result<std::fs::File> {
    let context = || std::format!("opening {}", path.display());
    let metadata = std::fs::metadata(path).context(context)?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() { "a folder" } else { "not a regular file" };
        return Err(Error::invalid_argument(std::format!("'{}' is {kind}", path.display())));
    }
    std::fs::File::open(path).context(context)
}

/// Reads a regular file into memory.
///
/// # Errors
/// Those of [`open_regular_file`] and of reading, with the path.
#[cfg(feature = "std")]
pub fn read_regular_file(path: &std::path::Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = open_regular_file(path)?.read_to_end(&mut bytes);
    read.context(|| std::format!("reading {}", path.display()))?;
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::vec;

    /// Bytes that count how often they were read, and are another number each time.
    struct Changing(core::sync::atomic::AtomicU8);

    impl MappedContents for Changing {
        fn length(&self) -> usize {
            4
        }

        fn read(&self, offset: usize, target: &mut [u8]) -> bool {
            target.fill(self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed));
            offset.checked_add(target.len()).is_some_and(|end| end <= 4)
        }
    }

    #[test]
    fn bytes_that_change_are_copied_out() {
        let contents = Contents::mapped(Changing(7.into()));
        assert!(contents.as_bytes().is_none());
        let bytes = contents.bytes(1..4).unwrap();
        assert_eq!(contents.array_at(0), Some([8, 8]));
        assert_eq!(*bytes, [7; 3]);
        assert!(contents.bytes(1..5).is_err() && contents.array_at::<3>(2).is_none());
        let start = 3;
        assert!(contents.bytes(start..2).is_err());
    }

    #[test]
    fn owned_bytes_are_aligned_and_equal() {
        for length in [0usize, 1, 63, 64, 65, 1000] {
            let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
            for contents in [Contents::copy_from(&bytes), Contents::from_vec(bytes.clone())] {
                let start = contents.as_bytes().unwrap().as_ptr().addr();
                assert!(start.is_multiple_of(SEGMENT_ALIGNMENT) || length == 0);
                assert_eq!(contents.as_bytes().unwrap(), bytes);
            }
        }
        assert_eq!(Contents::from_vec(vec![7; 3]).as_bytes().unwrap(), [7; 3]);
    }

    #[test]
    fn owners_are_found_by_their_type() {
        let contents = Contents::external([1u8, 2, 3]);
        assert_eq!(contents.as_bytes().unwrap(), [1, 2, 3]);
        assert_eq!(contents.owner::<[u8; 3]>(), Some(&[1, 2, 3]));
        assert!(contents.owner::<Vec<u8>>().is_none());
        assert!(Contents::copy_from(&[1, 2, 3]).owner::<[u8; 3]>().is_none());
    }
}
