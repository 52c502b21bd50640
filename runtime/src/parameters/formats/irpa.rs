//! IREE's parameter archives: a chain of headers, each with a table of entries, names and data.

use std::borrow::Cow;
use std::sync::Arc;

use crate::bytecode::Contents;
use crate::parameters::file::ParameterFile;
use crate::parameters::index::{ParameterEntry, ParameterIndex, Splat};
use crate::parameters::shown;
use crate::{Error, Result, ResultExt};

/// The first bytes of a header.
pub(in crate::parameters) const MAGIC: u32 = u32::from_le_bytes(*b"IRPA");
/// Bytes of the prefix that the headers of all versions share.
const PREFIX_BYTES: usize = 32;
/// Bytes of a header of version 0.0.
pub(in crate::parameters) const HEADER_BYTES: usize = 88;
/// Bytes of the prefix that all entries share.
const ENTRY_BYTES: usize = 60;
/// Bytes of a splat entry, and of a data entry.
pub(in crate::parameters) const SPLAT_BYTES: usize = 85;
pub(in crate::parameters) const DATA_BYTES: usize = 76;
/// Entries begin at multiples of this number of bytes.
pub(in crate::parameters) const ENTRY_ALIGNMENT: usize = 16;

/// Kinds of entries.
pub(in crate::parameters) const SKIP: u32 = 0;
pub(in crate::parameters) const SPLAT: u32 = 1;
pub(in crate::parameters) const DATA: u32 = 2;
pub(in crate::parameters) const EXTERNAL: u32 = 3;

pub(super) fn parse(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    let contents = file.contents();
    let mut reader = Reader { contents, budget: contents.length() as u64 };
    let mut base = 0;
    loop {
        let next = reader.header(file, base, index).context(|| format!("header at byte {base}"))?;
        match next {
            // Each header's length is checked, so that the chain moves forwards and ends.
            Some(next) => base = next,
            None => return Ok(()),
        }
    }
}

/// A range of the file.
#[derive(Clone, Copy)]
struct Segment {
    start: usize,
    length: usize,
}

struct Reader<'a> {
    contents: &'a Contents,
    /// Bytes of tables and names that may still be read. Headers may share them; the budget keeps the total
    /// proportional to the file's length.
    budget: u64,
}

impl<'a> Reader<'a> {
    fn u64_at(&self, position: usize) -> Option<u64> {
        super::u64_at(self.contents, position)
    }

    /// Reads a segment, offset and length relative to the header.
    fn segment(&self, base: usize, position: usize, what: &str) -> Result<Segment> {
        let (offset, length) = self.u64_at(position).zip(self.u64_at(position + 8)).ok_or_else(truncated)?;
        if length == 0 {
            return Ok(Segment { start: base, length: 0 });
        }
        let start = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(base));
        let length_here = usize::try_from(length).ok();
        let end = start.zip(length_here).and_then(|(start, length)| start.checked_add(length));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.contents.length() => Ok(Segment { start, length: end - start }),
            _ => Err(Error::out_of_range(format!(
                "{what} of {length} bytes at offset {offset} exceeds the file of {} bytes",
                self.contents.length()
            ))),
        }
    }

    /// Reads a range within a segment.
    fn within(&self, segment: Segment, position: usize, what: &str) -> Result<Segment> {
        let (offset, length) = self.u64_at(position).zip(self.u64_at(position + 8)).ok_or_else(truncated)?;
        if length == 0 {
            return Ok(Segment { start: segment.start, length: 0 });
        }
        let end = offset.checked_add(length).filter(|end| *end <= segment.length as u64);
        end.map(|_| Segment { start: segment.start + offset as usize, length: length as usize }).ok_or_else(|| {
            Error::out_of_range(format!(
                "{what} of {length} bytes at offset {offset} exceeds its segment of {} bytes",
                segment.length
            ))
        })
    }

    fn slice(&self, range: Segment) -> Result<Cow<'a, [u8]>> {
        self.contents.bytes(range.start..range.start.saturating_add(range.length))
    }

    fn spend(&mut self, bytes: usize) -> Result<()> {
        self.budget = self.budget.checked_sub(bytes as u64).ok_or_else(|| {
            Error::invalid_argument("tables and names overlap: together they are longer than the file")
        })?;
        Ok(())
    }

    /// Reads the entries of a header; returns the position of the next header.
    fn header(&mut self, file: &Arc<ParameterFile>, base: usize, index: &mut ParameterIndex) -> Result<Option<usize>> {
        let contents = self.contents;
        if contents.length().saturating_sub(base) < PREFIX_BYTES {
            return Err(truncated());
        }
        let magic = super::u32_at(contents, base).ok_or_else(truncated)?;
        if magic != MAGIC {
            return Err(Error::invalid_argument(format!(
                "header begins with {magic:08X}h instead of {MAGIC:08X}h, 'IRPA'"
            )));
        }
        let version = super::u32_at(contents, base + 4).ok_or_else(truncated)?;
        if version != 0 {
            let (major, minor) = (version as u16, version >> 16);
            return Err(Error::unimplemented(format!("version {major}.{minor} is not 0.0")));
        }
        let header_bytes = self.u64_at(base + 8).ok_or_else(truncated)?;
        if header_bytes != HEADER_BYTES as u64 {
            return Err(Error::invalid_argument(format!(
                "header length is {header_bytes} bytes instead of {HEADER_BYTES}"
            )));
        }
        let next = self.u64_at(base + 16).ok_or_else(truncated)?;
        let count = self.u64_at(base + 32).ok_or_else(truncated)?;
        let table = self.segment(base, base + 40, "the table of entries")?;
        let metadata = self.segment(base, base + 56, "the metadata")?;
        let storage = self.segment(base, base + 72, "the data")?;
        self.spend(table.length)?;
        let mut position = table.start;
        for number in 0..count {
            let size = self
                .entry(file, table, position, (metadata, storage), index)
                .context(|| format!("entry {number} at byte {position}"))?;
            // The padding of the last entry may be missing.
            position = position.saturating_add(size.next_multiple_of(ENTRY_ALIGNMENT));
        }
        if next == 0 {
            return Ok(None);
        }
        if next < HEADER_BYTES as u64 {
            return Err(Error::invalid_argument(format!("offset {next} of the next header lies within this one")));
        }
        let position = usize::try_from(next).ok().and_then(|next| next.checked_add(base));
        let position = position.filter(|position| *position < contents.length());
        position.map(Some).ok_or_else(|| {
            Error::out_of_range(format!(
                "the next header at offset {next} is outside the file of {} bytes",
                contents.length()
            ))
        })
    }

    /// Reads an entry; returns its length in bytes.
    fn entry(
        &mut self,
        file: &Arc<ParameterFile>,
        table: Segment,
        position: usize,
        (metadata, storage): (Segment, Segment),
        index: &mut ParameterIndex,
    ) -> Result<usize> {
        let rest = (table.start + table.length).saturating_sub(position);
        let underrun = |size: u64| {
            Error::out_of_range(format!("entry of {size} bytes exceeds the {rest} bytes left in the table"))
        };
        if rest < ENTRY_BYTES {
            return Err(underrun(ENTRY_BYTES as u64));
        }
        let size = self.u64_at(position).ok_or_else(truncated)?;
        let kind = super::u32_at(self.contents, position + 8).ok_or_else(truncated)?;
        let least = match kind {
            SPLAT => SPLAT_BYTES,
            DATA => DATA_BYTES,
            _ => ENTRY_BYTES,
        };
        let size = match usize::try_from(size) {
            Ok(bytes) if bytes <= rest => bytes,
            _ => return Err(underrun(size)),
        };
        if size < least {
            return Err(Error::out_of_range(format!("entry of {size} bytes is shorter than the {least} of its kind")));
        }
        if kind == SKIP {
            return Ok(size);
        }
        let name = self.within(metadata, position + 20, "the key")?;
        let user = self.within(metadata, position + 36, "the metadata of the entry")?;
        self.spend(name.length)?;
        self.spend(user.length)?;
        let key = super::key_text(self.slice(name)?, name.start)?;
        let key = key.as_str();
        let entry = match kind {
            SPLAT => {
                let length = self.u64_at(position + 60).ok_or_else(truncated)?;
                let pattern: [u8; Splat::MAXIMUM_PATTERN] =
                    self.contents.array_at(position + 68).ok_or_else(truncated)?;
                let [pattern_length] = self.contents.array_at(position + 84).unwrap_or_default();
                let pattern = pattern.get(..usize::from(pattern_length)).ok_or_else(|| {
                    Error::invalid_argument(format!(
                        "parameter '{}' has a pattern of {pattern_length} bytes",
                        shown(key)
                    ))
                })?;
                let splat = Splat::new(pattern, length).context(|| format!("parameter '{}'", shown(key)))?;
                ParameterEntry::splat(key, splat)
            }
            DATA => {
                let data = self.within(storage, position + 60, "the data");
                let data = data.context(|| format!("parameter '{}'", shown(key)))?;
                ParameterEntry::in_file(key, file, data.start as u64, data.length as u64)?
            }
            EXTERNAL => {
                return Err(Error::unimplemented(format!(
                    "parameter '{}' is in another file; such references are not supported",
                    shown(key)
                )));
            }
            other => {
                return Err(Error::unimplemented(format!("parameter '{}' has the unknown kind {other}", shown(key))));
            }
        };
        index.add(entry.with_metadata(self.slice(user)?.into_owned()))?;
        Ok(size)
    }
}

fn truncated() -> Error {
    Error::out_of_range("the file is empty or ends within the header")
}
