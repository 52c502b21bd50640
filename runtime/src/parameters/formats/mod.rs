//! Readers of the archive formats.
//!
//! Readers check every range against the file, and every count against the remaining bytes, before they use it: time
//! and memory are proportional to the file's length.

#[cfg(feature = "parameters-formats")]
mod gguf;
pub(super) mod irpa;
#[cfg(feature = "parameters-formats")]
mod npy;
#[cfg(feature = "parameters-formats")]
mod safetensors;
#[cfg(feature = "parameters-formats")]
mod shards;
#[cfg(feature = "parameters-formats")]
mod zip;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use super::file::{FileAccess, ParameterFile};
use super::index::{ParameterEntry, ParameterIndex};
use super::shown;
use crate::bytecode::Contents;
use crate::hal::format::NPY_MAGIC;
use crate::{Error, Result, ResultExt};

/// An archive format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// IREE's parameter archive (`.irpa`).
    Irpa,
    /// The format of ggml's models (`.gguf`), versions 2 and 3.
    Gguf,
    /// `.safetensors`.
    Safetensors,
    /// The list of the tensors in several `.safetensors` files, which are in its folder (`model.safetensors.index.json`).
    SafetensorsIndex,
    /// One array of NumPy (`.npy`); its key is the file's name without extension.
    Npy,
    /// Arrays of NumPy (`.npz`), not compressed.
    Npz,
    /// Bytes (`.bin`, `.raw`); the key is the file's name without extension.
    Raw,
}

/// Extensions, formats, and the first bytes of files.
const FORMATS: &[(&[&str], ArchiveFormat, &[u8])] = &[
    (&["irpa"], ArchiveFormat::Irpa, b"IRPA"),
    (&["gguf"], ArchiveFormat::Gguf, b"GGUF"),
    (&["safetensors"], ArchiveFormat::Safetensors, b""),
    (&["json"], ArchiveFormat::SafetensorsIndex, b""),
    (&["npy"], ArchiveFormat::Npy, NPY_MAGIC),
    (&["npz"], ArchiveFormat::Npz, b"PK\x03\x04"),
    (&["bin", "raw"], ArchiveFormat::Raw, b""),
];

/// Most bytes that identify a format.
const MAGIC_BYTES: usize = 16;

impl ArchiveFormat {
    /// Detects the format of a file by its extension or else by its first bytes.
    ///
    /// # Errors
    /// UNIMPLEMENTED if neither is known.
    pub fn of(path: &Path, bytes: &[u8]) -> Result<ArchiveFormat> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let known = |row: &&(&[&str], _, _)| row.0.iter().any(|known| known.eq_ignore_ascii_case(extension));
        let begins = |row: &&(_, _, &[u8])| !row.2.is_empty() && bytes.starts_with(row.2);
        let row = FORMATS.iter().find(known).or_else(|| FORMATS.iter().find(begins));
        row.map(|row| row.1).ok_or_else(|| {
            let known: Vec<String> = FORMATS.iter().flat_map(|row| row.0).map(|name| format!(".{name}")).collect();
            Error::unimplemented(format!(
                "unknown archive format: neither the extension '{}' nor the first bytes are those of {}",
                shown(extension),
                known.join(", ")
            ))
        })
    }
}

impl ParameterIndex {
    /// Adds the contents of an archive. Its extension determines the format, or else its first bytes; a folder in the layout of Hugging
    /// Face stands for its weights. A key that the
    /// index already contains keeps its parameter, as in IREE: files that come first take precedence. With
    /// [`FileAccess::Map`] and [`FileAccess::Write`] no other process may truncate the file while it is in use; if one changes
    /// it, parameters change.
    ///
    /// # Errors
    /// Errors of opening the file and of parsing the archive, with the path.
    pub fn add_file(&mut self, path: &Path, access: FileAccess) -> Result<()> {
        #[cfg(feature = "parameters-formats")]
        let weights = incarnate_gguf::ModelFolder::at(path).map(|folder| folder.weights()).transpose()?;
        #[cfg(feature = "parameters-formats")]
        let path = weights.as_deref().unwrap_or(path);
        let context = || format!("parameters in '{}'", path.display());
        let file = ParameterFile::open(path, access)?;
        let contents = file.contents();
        let first = contents.bytes(0..contents.length().min(MAGIC_BYTES)).context(context)?;
        let format = ArchiveFormat::of(path, &first).context(context)?;
        #[cfg(feature = "parameters-formats")]
        if format == ArchiveFormat::SafetensorsIndex {
            let mut found = ParameterIndex::new();
            let parsed = shards::parse(path, &file, access, &mut found);
            return parsed
                .context(|| "index of safetensors files")
                .context(context)
                .and_then(|()| self.add_missing(found));
        }
        self.add_archive(&file, format).context(context)
    }

    /// Adds the contents of an archive of a given format; see [`ParameterIndex::add_file`].
    ///
    /// # Errors
    /// Errors of parsing the archive.
    pub fn add_archive(&mut self, file: &Arc<ParameterFile>, format: ArchiveFormat) -> Result<()> {
        // Duplicate keys within one archive are an error, after which the index is unchanged.
        let mut found = ParameterIndex::new();
        parse(file, format, &mut found)?;
        self.add_missing(found)
    }
}

/// Adds the entries of an archive to an index.
fn parse(file: &Arc<ParameterFile>, format: ArchiveFormat, index: &mut ParameterIndex) -> Result<()> {
    match format {
        ArchiveFormat::Irpa => irpa::parse(file, index).context(|| "IRPA archive"),
        ArchiveFormat::Raw => index.add(ParameterEntry::in_file(stem(file), file, 0, file.length())?),
        #[cfg(feature = "parameters-formats")]
        ArchiveFormat::Gguf => gguf::parse(file, index).context(|| "GGUF file"),
        #[cfg(feature = "parameters-formats")]
        ArchiveFormat::Safetensors => safetensors::parse(file, index).context(|| "safetensors file"),
        #[cfg(feature = "parameters-formats")]
        ArchiveFormat::SafetensorsIndex => {
            Err(Error::invalid_argument("an index of safetensors files is added by its path, in whose folder they are"))
        }
        #[cfg(feature = "parameters-formats")]
        ArchiveFormat::Npy => npy::parse(file, index).context(|| ".npy file"),
        #[cfg(feature = "parameters-formats")]
        ArchiveFormat::Npz => npy::parse_archive(file, index).context(|| ".npz file"),
        #[cfg(not(feature = "parameters-formats"))]
        other => Err(Error::unimplemented(format!(
            "{other:?} archives are read by programs with the feature `parameters-formats`; `incarnate parameters create` \
             converts them to .irpa"
        ))),
    }
}

/// Returns the file's name without folders and extension.
fn stem(file: &ParameterFile) -> String {
    let stem = Path::new(file.name()).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| file.name().to_owned())
}

/// Decodes a key.
fn key_text(bytes: Cow<'_, [u8]>, position: usize) -> Result<String> {
    String::from_utf8(bytes.into_owned()).map_err(|error| {
        let bytes = error.as_bytes().escape_ascii();
        Error::invalid_argument(format!("the key at byte {position} is not UTF-8: '{bytes}'"))
    })
}

/// The number of 16 bits at a position.
#[cfg(feature = "parameters-formats")]
fn u16_at(contents: &Contents, position: usize) -> Option<u16> {
    contents.array_at(position).map(u16::from_le_bytes)
}

/// The number of 32 bits at a position.
fn u32_at(contents: &Contents, position: usize) -> Option<u32> {
    contents.array_at(position).map(u32::from_le_bytes)
}

/// The number of 64 bits at a position.
fn u64_at(contents: &Contents, position: usize) -> Option<u64> {
    contents.array_at(position).map(u64::from_le_bytes)
}

#[cfg(feature = "parameters-formats")]
/// Checks that tensors do not overlap, for formats that forbid shared data. Takes keys, offsets and lengths.
fn check_disjoint(mut ranges: Vec<(u64, u64, &str)>) -> Result<()> {
    ranges.retain(|range| range.1 > 0);
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(first, length, key), (second, _, other)] = pair else { continue };
        if first.saturating_add(*length) > *second {
            return Err(Error::invalid_argument(format!(
                "tensors '{}' and '{}' overlap: the first is {length} bytes at byte {first}, the second begins at byte {second}",
                shown(key),
                shown(other)
            )));
        }
    }
    Ok(())
}
