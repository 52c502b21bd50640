//! What archives hold.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use super::file::{FileAccess, ParameterFile};
use super::formats::{self, ArchiveFormat};
use super::shown;
use crate::{Error, Result, ResultExt};

/// A pattern that is repeated, in place of bytes that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splat {
    pattern: [u8; Splat::MAXIMUM_PATTERN],
    pattern_length: u8,
    length: u64,
}

impl Splat {
    /// Most bytes of a pattern: an element of `complex<f64>`.
    pub const MAXIMUM_PATTERN: usize = 16;

    /// `length` bytes of a pattern, which is 1, 2, 4, 8 or 16 bytes long.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for patterns of other lengths, and where the length is no multiple of the pattern's.
    pub fn new(pattern: &[u8], length: u64) -> Result<Splat> {
        if !pattern.len().is_power_of_two() || pattern.len() > Splat::MAXIMUM_PATTERN {
            return Err(Error::invalid_argument(format!(
                "splat pattern of {} bytes is not of 1, 2, 4, 8 or 16",
                pattern.len()
            )));
        }
        if !length.is_multiple_of(pattern.len() as u64) {
            return Err(Error::invalid_argument(format!(
                "splat of {length} bytes is not a multiple of its pattern of {} bytes",
                pattern.len()
            )));
        }
        let mut bytes = [0; Splat::MAXIMUM_PATTERN];
        bytes.iter_mut().zip(pattern).for_each(|(target, source)| *target = *source);
        Ok(Splat { pattern: bytes, pattern_length: pattern.len() as u8, length })
    }

    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &[u8] {
        self.pattern.get(..usize::from(self.pattern_length)).unwrap_or(&self.pattern)
    }

    /// The pattern as it begins at an offset into the parameter.
    pub(super) fn pattern_at(&self, offset: u64) -> Vec<u8> {
        let mut pattern = self.pattern().to_vec();
        pattern.rotate_left((offset % u64::from(self.pattern_length.max(1))) as usize);
        pattern
    }
}

/// Where a parameter's bytes are.
#[derive(Clone, Debug)]
pub enum ParameterStorage {
    /// Nowhere: they repeat.
    Splat(Splat),
    /// In a file.
    File {
        /// The file.
        file: Arc<ParameterFile>,
        /// Offset of the first byte in it.
        offset: u64,
    },
}

/// What an archive says of a parameter that is a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorFacts {
    /// Name of the element type in the archive's format, such as `F32` or `Q4_K`.
    pub element_type: String,
    /// Dimensions, the last of which is the fastest.
    pub shape: Vec<u64>,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct ParameterEntry {
    key: String,
    metadata: Vec<u8>,
    length: u64,
    storage: ParameterStorage,
    tensor: Option<TensorFacts>,
}

impl ParameterEntry {
    /// A parameter whose bytes repeat.
    #[must_use]
    pub fn splat(key: impl Into<String>, splat: Splat) -> ParameterEntry {
        let (length, storage) = (splat.length, ParameterStorage::Splat(splat));
        ParameterEntry { key: key.into(), metadata: Vec::new(), length, storage, tensor: None }
    }

    /// A parameter that is a range of a file.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range leaves the file.
    pub fn in_file(
        key: impl Into<String>,
        file: &Arc<ParameterFile>,
        offset: u64,
        length: u64,
    ) -> Result<ParameterEntry> {
        let key = key.into();
        if offset.checked_add(length).is_none_or(|end| end > file.length()) {
            return Err(Error::out_of_range(format!(
                "parameter '{}' of {length} bytes at offset {offset} leaves '{}', which has {} bytes",
                shown(&key),
                file.name(),
                file.length()
            )));
        }
        let storage = ParameterStorage::File { file: file.clone(), offset };
        Ok(ParameterEntry { key, metadata: Vec::new(), length, storage, tensor: None })
    }

    /// The same with bytes that the archive keeps beside the parameter, whose meaning is the user's.
    #[must_use]
    pub fn with_metadata(self, metadata: Vec<u8>) -> ParameterEntry {
        ParameterEntry { metadata, ..self }
    }

    /// The same, which is a tensor.
    #[must_use]
    pub fn with_tensor(self, tensor: TensorFacts) -> ParameterEntry {
        ParameterEntry { tensor: Some(tensor), ..self }
    }

    /// The same under another key.
    #[must_use]
    pub fn renamed(self, key: impl Into<String>) -> ParameterEntry {
        ParameterEntry { key: key.into(), ..self }
    }

    /// The name within its scope.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Bytes that the archive keeps beside the parameter.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// Number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where the bytes are.
    #[must_use]
    pub fn storage(&self) -> &ParameterStorage {
        &self.storage
    }

    /// Element type and shape, where the archive says them.
    #[must_use]
    pub fn tensor(&self) -> Option<&TensorFacts> {
        self.tensor.as_ref()
    }

    /// Checks that a range is within the parameter.
    pub(super) fn check_range(&self, offset: u64, length: u64) -> Result<()> {
        if offset.checked_add(length).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        Err(Error::out_of_range(format!(
            "range of {length} bytes at offset {offset} leaves parameter '{}', which has {} bytes{}",
            shown(&self.key),
            self.length,
            match &self.storage {
                ParameterStorage::Splat(_) => String::new(),
                ParameterStorage::File { file, .. } => format!(" in '{}'", file.name()),
            }
        )))
    }

    /// The bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where there is no memory for them; what reading gives.
    pub fn read(&self) -> Result<Vec<u8>> {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| {
            Error::resource_exhausted(format!("no memory for '{}' of {length} bytes", shown(&self.key)))
        })?;
        match &self.storage {
            ParameterStorage::Splat(splat) => bytes.extend(splat.pattern().iter().cycle().take(length)),
            ParameterStorage::File { file, offset } => {
                bytes.resize(length, 0);
                file.read_bytes(*offset, &mut bytes)?;
            }
        }
        Ok(bytes)
    }
}

/// Parameters by their keys, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct ParameterIndex {
    entries: Vec<ParameterEntry>,
    by_key: HashMap<String, usize>,
}

impl ParameterIndex {
    /// Without parameters.
    #[must_use]
    pub fn new() -> ParameterIndex {
        ParameterIndex::default()
    }

    /// Adds a parameter.
    ///
    /// # Errors
    /// ALREADY_EXISTS where there is one of the key.
    pub fn add(&mut self, entry: ParameterEntry) -> Result<()> {
        match self.by_key.entry(entry.key.clone()) {
            Entry::Occupied(_) => {
                Err(Error::already_exists(format!("there are two parameters '{}'", shown(entry.key()))))
            }
            Entry::Vacant(vacant) => {
                vacant.insert(self.entries.len());
                self.entries.push(entry);
                Ok(())
            }
        }
    }

    /// Adds what an archive holds; its format is that of its extension, or that of its first bytes. Of parameters that have
    /// the same key, the one that was there before is kept, as in the peer, so that files which come first override others.
    /// With [`FileAccess::Map`] and [`FileAccess::Write`] the file must not be changed by others or cut short while it is used.
    ///
    /// # Errors
    /// What opening gives, and what is wrong with the archive: both with its path.
    pub fn add_file(&mut self, path: &Path, access: FileAccess) -> Result<()> {
        let context = || format!("parameters in '{}'", path.display());
        let file = ParameterFile::open(path, access)?;
        let format = ArchiveFormat::of(path, file.bytes()).context(context)?;
        self.add_archive(&file, format).context(context)
    }

    /// Adds what an archive of a format holds: see [`ParameterIndex::add_file`].
    ///
    /// # Errors
    /// What is wrong with the archive.
    pub fn add_archive(&mut self, file: &Arc<ParameterFile>, format: ArchiveFormat) -> Result<()> {
        // Within one archive two parameters of one key are a mistake; nothing is added of such an archive.
        let mut found = ParameterIndex::new();
        formats::parse(file, format, &mut found)?;
        for entry in found.entries {
            if !self.by_key.contains_key(&entry.key) {
                self.add(entry)?;
            }
        }
        Ok(())
    }

    /// The parameter of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&ParameterEntry> {
        self.entries.get(*self.by_key.get(key)?)
    }

    /// All parameters.
    #[must_use]
    pub fn entries(&self) -> &[ParameterEntry] {
        &self.entries
    }
}
