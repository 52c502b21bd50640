//! The immutable bytes of a file, shared by everything that refers into them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

#[cfg(feature = "std")]
use crate::{Result, ResultExt};

/// Alignment in bytes of the segments of an archive, relative to its start, and of [`Contents`] that own their bytes.
pub const SEGMENT_ALIGNMENT: usize = 64;

/// The immutable owner of a file's bytes. Shared as `Arc<Contents>`; neither address nor length ever changes, so that
/// constants are used in place.
pub enum Contents {
    /// Bytes on the heap, aligned to [`SEGMENT_ALIGNMENT`].
    Owned(AlignedBytes),
    /// Bytes of the program itself, aligned as the program has them.
    Static(&'static [u8]),
    /// Bytes that another type owns, such as a mapped file.
    External(Arc<dyn ContentsOwner>),
}

/// An owner of bytes. [`AsRef::as_ref`] must return the same bytes each time.
pub trait ContentsOwner: AsRef<[u8]> + Any + Send + Sync {}

impl<T: AsRef<[u8]> + Any + Send + Sync> ContentsOwner for T {}

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

    /// Returns the owner given to [`Contents::external`], if it is a `T`.
    #[must_use]
    pub fn owner<T: ContentsOwner>(&self) -> Option<&T> {
        let Contents::External(owner) = self else { return None };
        let owner: &dyn Any = &**owner;
        owner.downcast_ref()
    }

    /// Reads a file into memory. Fails as reading fails, with the path in the message.
    #[cfg(feature = "std")]
    pub fn read(path: &std::path::Path) -> Result<Contents> {
        std::fs::read(path).context(|| std::format!("reading {}", path.display())).map(Contents::from_vec)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Contents::Owned(bytes) => bytes.as_bytes(),
            Contents::Static(bytes) => bytes,
            Contents::External(owner) => (**owner).as_ref(),
        }
    }

    /// Whether the first byte's address is a multiple of [`SEGMENT_ALIGNMENT`]. Always so for [`Contents::Owned`].
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        self.as_bytes().as_ptr().addr().is_multiple_of(SEGMENT_ALIGNMENT)
    }
}

impl AsRef<[u8]> for Contents {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Contents::Owned(_) => "owned",
            Contents::Static(_) => "static",
            Contents::External(_) => "external",
        };
        write!(f, "Contents({kind}, {} bytes)", self.as_bytes().len())
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn owned_bytes_are_aligned_and_equal() {
        for length in [0usize, 1, 63, 64, 65, 1000] {
            let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
            for contents in [Contents::copy_from(&bytes), Contents::from_vec(bytes.clone())] {
                assert!(contents.is_aligned() || length == 0);
                assert_eq!(contents.as_bytes(), bytes);
            }
        }
        assert_eq!(Contents::from_vec(vec![7; 3]).as_bytes(), [7; 3]);
    }

    #[test]
    fn owners_are_found_by_their_type() {
        let contents = Contents::external([1u8, 2, 3]);
        assert_eq!(contents.as_bytes(), [1, 2, 3]);
        assert_eq!(contents.owner::<[u8; 3]>(), Some(&[1, 2, 3]));
        assert!(contents.owner::<Vec<u8>>().is_none());
        assert!(Contents::copy_from(&[1, 2, 3]).owner::<[u8; 3]>().is_none());
    }
}
