//! The contents of archives: entries and their index.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::file::ParameterFile;
use super::shown;
use crate::{Error, Result, ResultExt};

/// A repeated pattern that stands for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splat {
    pattern: [u8; Splat::MAXIMUM_PATTERN],
    pattern_length: u8,
    length: u64,
}

impl Splat {
    /// Most bytes of a pattern: an element of `complex<f64>`.
    pub const MAXIMUM_PATTERN: usize = 16;

    /// Creates `length` bytes of a pattern of 1, 2, 4, 8 or 16 bytes.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for patterns of other lengths, and if `length` is not a multiple of the pattern's.
    pub fn new(pattern: &[u8], length: u64) -> Result<Splat> {
        if !pattern.len().is_power_of_two() || pattern.len() > Splat::MAXIMUM_PATTERN {
            return Err(Error::invalid_argument(format!(
                "splat pattern has {} bytes instead of 1, 2, 4, 8 or 16",
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

    /// Returns the pattern.
    #[must_use]
    pub fn pattern(&self) -> &[u8] {
        self.pattern.get(..usize::from(self.pattern_length)).unwrap_or(&self.pattern)
    }

    /// Returns the pattern, rotated so that it begins at an offset into the parameter.
    pub(super) fn pattern_at(&self, offset: u64) -> Vec<u8> {
        let mut pattern = self.pattern().to_vec();
        pattern.rotate_left((offset % u64::from(self.pattern_length.max(1))) as usize);
        pattern
    }
}

/// The location of a parameter's bytes.
#[derive(Clone, Debug)]
pub enum ParameterStorage {
    /// A repeated pattern, which is not stored.
    Splat(Splat),
    /// A range of a file.
    File {
        /// The file.
        file: Arc<ParameterFile>,
        /// Offset of the first byte in the file.
        offset: u64,
    },
    /// Several parameters, one behind the other, each in a file or a pattern: what [`ParameterIndex::find`] returns for a key of several.
    Joined(Arc<[ParameterEntry]>),
    /// A parameter of an archive that cannot be read, for this reason; its length is 0. The archive's other parameters can.
    Unreadable(Error),
}

/// Type and shape of a tensor parameter, as far as the archive describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorFacts {
    /// Name of the element type in the archive's format, such as `F32` or `Q4_K`.
    pub element_type: String,
    /// Dimensions, the fastest last.
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
    /// Creates a parameter of repeated bytes.
    #[must_use]
    pub fn splat(key: impl Into<String>, splat: Splat) -> ParameterEntry {
        let (length, storage) = (splat.length, ParameterStorage::Splat(splat));
        ParameterEntry { key: key.into(), metadata: Vec::new(), length, storage, tensor: None }
    }

    /// Creates a parameter that is a range of a file.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the range exceeds the file.
    pub fn in_file(
        key: impl Into<String>,
        file: &Arc<ParameterFile>,
        offset: u64,
        length: u64,
    ) -> Result<ParameterEntry> {
        let key = key.into();
        if offset.checked_add(length).is_none_or(|end| end > file.length()) {
            return Err(Error::out_of_range(format!(
                "parameter '{}' of {length} bytes at offset {offset} exceeds '{}', which has {} bytes",
                shown(&key),
                file.name(),
                file.length()
            )));
        }
        let storage = ParameterStorage::File { file: file.clone(), offset };
        Ok(ParameterEntry { key, metadata: Vec::new(), length, storage, tensor: None })
    }

    /// Creates the parameter of others, one behind the other, of so many bytes.
    pub(super) fn joined(key: impl Into<String>, parts: Vec<ParameterEntry>, length: u64) -> ParameterEntry {
        let storage = ParameterStorage::Joined(parts.into());
        ParameterEntry { key: key.into(), metadata: Vec::new(), length, storage, tensor: None }
    }

    /// Creates a parameter whose every use is the error.
    #[must_use]
    pub fn unreadable(key: impl Into<String>, error: Error) -> ParameterEntry {
        let storage = ParameterStorage::Unreadable(error);
        ParameterEntry { key: key.into(), metadata: Vec::new(), length: 0, storage, tensor: None }
    }

    /// Attaches the archive's metadata of the parameter, whose meaning is the user's.
    #[must_use]
    pub fn with_metadata(self, metadata: Vec<u8>) -> ParameterEntry {
        ParameterEntry { metadata, ..self }
    }

    /// Attaches the type and shape of a tensor.
    #[must_use]
    pub fn with_tensor(self, tensor: TensorFacts) -> ParameterEntry {
        ParameterEntry { tensor: Some(tensor), ..self }
    }

    /// Replaces the key.
    #[must_use]
    pub fn renamed(self, key: impl Into<String>) -> ParameterEntry {
        ParameterEntry { key: key.into(), ..self }
    }

    /// Returns the name within its scope.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the archive's metadata of the parameter.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the location of the bytes.
    #[must_use]
    pub fn storage(&self) -> &ParameterStorage {
        &self.storage
    }

    /// Returns element type and shape, if the archive contains them.
    #[must_use]
    pub fn tensor(&self) -> Option<&TensorFacts> {
        self.tensor.as_ref()
    }

    /// Checks that the parameter can be read.
    ///
    /// # Errors
    /// The archive's reason why not, with the key.
    pub fn check_readable(&self) -> Result<()> {
        match &self.storage {
            ParameterStorage::Unreadable(error) => {
                Err(error.clone()).context(|| format!("parameter '{}'", shown(&self.key)))
            }
            ParameterStorage::Splat(_) | ParameterStorage::File { .. } | ParameterStorage::Joined(_) => Ok(()),
        }
    }

    /// Checks that a range lies within the parameter.
    pub(super) fn check_range(&self, offset: u64, length: u64) -> Result<()> {
        self.check_readable()?;
        if offset.checked_add(length).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        Err(Error::out_of_range(format!(
            "range of {length} bytes at offset {offset} exceeds parameter '{}', which has {} bytes{}",
            shown(&self.key),
            self.length,
            match &self.storage {
                ParameterStorage::Splat(_) | ParameterStorage::Joined(_) | ParameterStorage::Unreadable(_) =>
                    String::new(),
                ParameterStorage::File { file, .. } => format!(" in '{}'", file.name()),
            }
        )))
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if memory is short; errors of reading; the reason why the parameter cannot be read.
    pub fn read(&self) -> Result<Vec<u8>> {
        self.check_readable()?;
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
            ParameterStorage::Joined(parts) => {
                for part in parts.iter() {
                    bytes.extend(part.read()?);
                }
            }
            ParameterStorage::Unreadable(_) => {}
        }
        Ok(bytes)
    }
}

/// Parameters by key, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct ParameterIndex {
    entries: Vec<ParameterEntry>,
    by_key: HashMap<String, usize>,
}

impl ParameterIndex {
    /// Creates an empty index.
    #[must_use]
    pub fn new() -> ParameterIndex {
        ParameterIndex::default()
    }

    /// Adds a parameter.
    ///
    /// # Errors
    /// ALREADY_EXISTS if the key is taken.
    pub fn add(&mut self, entry: ParameterEntry) -> Result<()> {
        match self.by_key.entry(entry.key.clone()) {
            Entry::Occupied(_) => Err(Error::already_exists(format!("duplicate parameter '{}'", shown(entry.key())))),
            Entry::Vacant(vacant) => {
                vacant.insert(self.entries.len());
                self.entries.push(entry);
                Ok(())
            }
        }
    }

    /// Adds the parameters of another index whose keys this one does not contain.
    pub(super) fn add_missing(&mut self, found: ParameterIndex) -> Result<()> {
        found.entries.into_iter().try_for_each(|entry| match self.by_key.contains_key(&entry.key) {
            true => Ok(()),
            false => self.add(entry),
        })
    }

    /// Returns the parameter of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&ParameterEntry> {
        self.entries.get(*self.by_key.get(key)?)
    }

    /// Returns all parameters.
    #[must_use]
    pub fn entries(&self) -> &[ParameterEntry] {
        &self.entries
    }
}
