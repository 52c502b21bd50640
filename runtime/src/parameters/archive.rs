//! A writer of IREE's parameter archives.

use std::io::Write;

use super::formats::irpa;
use super::index::{ParameterEntry, ParameterIndex, ParameterStorage};
use super::shown;
use crate::{Error, Result, ResultExt};

/// Alignment of data in bytes, which lets mapped archives be used in place.
const DATA_ALIGNMENT: u64 = 64;
/// The length of an archive is a multiple of this: a page.
const FILE_ALIGNMENT: u64 = 4096;
/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// Writes an index as an archive (`.irpa`): entries in the index's order, in the layout of IREE's tools.
#[derive(Debug)]
pub struct ArchiveWriter<'a> {
    index: &'a ParameterIndex,
    alignment: u64,
}

/// A writer that counts the bytes.
struct Counter<W> {
    writer: W,
    written: u64,
}

impl<W: Write> Counter<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).context(|| "writing the archive")?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn pad_to(&mut self, position: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while self.written < position {
            let count = (position - self.written).min(ZEROS.len() as u64) as usize;
            self.write(ZEROS.get(..count).unwrap_or(&ZEROS))?;
        }
        Ok(())
    }
}

impl<'a> ArchiveWriter<'a> {
    /// Creates a writer of an index, which aligns data to 64 bytes.
    #[must_use]
    pub fn new(index: &'a ParameterIndex) -> ArchiveWriter<'a> {
        ArchiveWriter { index, alignment: DATA_ALIGNMENT }
    }

    /// Sets the alignment of data in bytes.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is not a power of two.
    pub fn with_alignment(self, alignment: u64) -> Result<ArchiveWriter<'a>> {
        if !alignment.is_power_of_two() {
            return Err(Error::invalid_argument(format!("alignment of {alignment} bytes is not a power of two")));
        }
        Ok(ArchiveWriter { alignment, ..self })
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// Errors of writing and of reading the parameters; RESOURCE_EXHAUSTED if lengths exceed 64 bits.
    pub fn write(&self, writer: &mut dyn Write) -> Result<()> {
        // From here on each parameter is a splat or in a file.
        self.index.entries().iter().try_for_each(ParameterEntry::check_readable)?;
        let layout = Layout::of(self.index.entries(), self.alignment)
            .ok_or_else(|| Error::resource_exhausted("the parameters together exceed a length of 64 bits"))?;
        let mut out = Counter { writer, written: 0 };
        layout.write_header(&mut out)?;
        layout.write_table(self.index.entries(), &mut out)?;
        for entry in self.index.entries() {
            out.write(entry.key().as_bytes())?;
            out.write(entry.metadata())?;
        }
        for (entry, offset) in self.index.entries().iter().zip(&layout.offsets) {
            if let Some(offset) = offset {
                out.pad_to(layout.storage + offset)?;
                copy(entry, &mut out).context(|| format!("parameter '{}'", shown(entry.key())))?;
            }
        }
        out.pad_to((layout.storage + layout.storage_length).next_multiple_of(FILE_ALIGNMENT))
    }
}

/// The layout of an archive.
struct Layout {
    count: u64,
    table_length: u64,
    metadata_length: u64,
    /// Position and length of the data.
    storage: u64,
    storage_length: u64,
    /// Offset of each entry's data; None for patterns.
    offsets: Vec<Option<u64>>,
    alignment: u64,
}

/// Position of the table of entries, after the header.
const TABLE: u64 = irpa::HEADER_BYTES.next_multiple_of(irpa::ENTRY_ALIGNMENT) as u64;

impl Layout {
    fn of(entries: &[ParameterEntry], alignment: u64) -> Option<Layout> {
        let (mut table_length, mut metadata_length, mut storage_length) = (0u64, 0u64, 0u64);
        let mut offsets = Vec::with_capacity(entries.len());
        for entry in entries {
            let (size, offset) = match entry.storage() {
                ParameterStorage::Splat(_) => (irpa::SPLAT_BYTES, None),
                ParameterStorage::File { .. } | ParameterStorage::Joined(_) | ParameterStorage::Unreadable(_) => {
                    let offset = storage_length.checked_next_multiple_of(alignment)?;
                    storage_length = offset.checked_add(entry.length())?;
                    (irpa::DATA_BYTES, Some(offset))
                }
            };
            table_length = table_length.checked_next_multiple_of(irpa::ENTRY_ALIGNMENT as u64)? + size as u64;
            metadata_length = metadata_length.checked_add((entry.key().len() + entry.metadata().len()) as u64)?;
            offsets.push(offset);
        }
        // As in IREE, the data is aligned only if there is some.
        let data_alignment = if offsets.iter().any(Option::is_some) { alignment } else { 1 };
        let storage = (TABLE + table_length).checked_add(metadata_length)?.checked_next_multiple_of(data_alignment)?;
        storage.checked_add(storage_length)?.checked_next_multiple_of(FILE_ALIGNMENT)?;
        let count = entries.len() as u64;
        Some(Layout { count, table_length, metadata_length, storage, storage_length, offsets, alignment })
    }

    fn write_header(&self, out: &mut Counter<&mut dyn Write>) -> Result<()> {
        out.write(&irpa::MAGIC.to_le_bytes())?;
        // Version 0.0.
        out.write(&[0; 4])?;
        let (next, flags) = (0, 0);
        let numbers = [irpa::HEADER_BYTES as u64, next, flags, self.count];
        let segments = [
            (TABLE, self.table_length),
            (TABLE + self.table_length, self.metadata_length),
            (self.storage, self.storage_length),
        ];
        let segments = segments.iter().flat_map(|(offset, length)| [*offset, *length]);
        numbers.into_iter().chain(segments).try_for_each(|number| out.write(&number.to_le_bytes()))
    }

    fn write_table(&self, entries: &[ParameterEntry], out: &mut Counter<&mut dyn Write>) -> Result<()> {
        let mut name = 0;
        for (entry, offset) in entries.iter().zip(&self.offsets) {
            out.pad_to(out.written.next_multiple_of(irpa::ENTRY_ALIGNMENT as u64))?;
            let (kind, size, alignment) = match entry.storage() {
                ParameterStorage::Splat(_) => (irpa::SPLAT, irpa::SPLAT_BYTES, 0),
                ParameterStorage::File { .. } | ParameterStorage::Joined(_) | ParameterStorage::Unreadable(_) => {
                    (irpa::DATA, irpa::DATA_BYTES, self.alignment)
                }
            };
            out.write(&(size as u64).to_le_bytes())?;
            out.write(&kind.to_le_bytes())?;
            let (name_length, user_length) = (entry.key().len() as u64, entry.metadata().len() as u64);
            let user = if user_length == 0 { 0 } else { name + name_length };
            let flags = 0;
            for number in [flags, name, name_length, user, user_length, alignment] {
                out.write(&number.to_le_bytes())?;
            }
            name += name_length + user_length;
            match entry.storage() {
                ParameterStorage::Splat(splat) => {
                    let mut pattern = splat.pattern().to_vec();
                    let length = pattern.len() as u8;
                    pattern.resize(super::Splat::MAXIMUM_PATTERN, 0);
                    out.write(&entry.length().to_le_bytes())?;
                    out.write(&pattern)?;
                    out.write(&[length])?;
                }
                ParameterStorage::File { .. } | ParameterStorage::Joined(_) | ParameterStorage::Unreadable(_) => {
                    out.write(&offset.unwrap_or_default().to_le_bytes())?;
                    out.write(&entry.length().to_le_bytes())?;
                }
            }
        }
        Ok(())
    }
}

/// Copies a parameter's bytes from its file.
fn copy(entry: &ParameterEntry, out: &mut Counter<&mut dyn Write>) -> Result<()> {
    let (file, offset) = match entry.storage() {
        ParameterStorage::File { file, offset } => (file, offset),
        ParameterStorage::Joined(parts) => return parts.iter().try_for_each(|part| copy(part, out)),
        ParameterStorage::Splat(splat) => {
            let chunk = splat.pattern().repeat(CHUNK / super::Splat::MAXIMUM_PATTERN);
            let mut left = entry.length();
            while left > 0 {
                let part = chunk.get(..left.min(chunk.len() as u64) as usize).unwrap_or_default();
                out.write(part)?;
                left -= part.len() as u64;
            }
            return Ok(());
        }
        ParameterStorage::Unreadable(_) => return Ok(()),
    };
    let mut chunk = vec![0; CHUNK.min(usize::try_from(entry.length()).unwrap_or(CHUNK))];
    let mut copied = 0;
    while copied < entry.length() {
        let count = (entry.length() - copied).min(chunk.len() as u64) as usize;
        let part = chunk.get_mut(..count).unwrap_or_default();
        file.read_bytes(offset.saturating_add(copied), part)?;
        out.write(part)?;
        copied += count as u64;
    }
    Ok(())
}
