//! Strict reading of a FlatBuffer, for what is checked when a module is loaded: offsets are aligned and lie within the
//! buffer, tables within it too and their fields within them, strings are UTF-8 and end with a zero.
//!
//! It does what the verifiers that FlatBuffer libraries generate do, but in the same pass that reads the tables, and only for
//! those that are read.

use alloc::format;

use super::super::read::{array_at, u16_at, u32_at};
use super::Text;
use crate::{Error, Result};

/// Bytes of the offset in front of a table, and of the count in front of a vector's elements.
const WORD: usize = 4;
/// Bytes of the two sizes that a vtable begins with, so that the position of a field in it is the one that the schema's
/// accessors call `VT_`.
const VTABLE_HEADER: usize = 4;

/// Reads tables. Positions are in bytes from the start of the buffer, with its size prefix.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// Bytes that may still be read: tables that share data multiply the work, which this bounds.
    left: usize,
}

/// A table, or a part of one that has been checked.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    position: usize,
    object: &'a [u8],
    vtable: &'a [u8],
}

/// A vector whose elements lie within the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VectorRange {
    /// Position of the first element.
    pub(super) start: usize,
    /// Number of elements.
    pub(super) count: usize,
}

impl VectorRange {
    /// Positions of the elements, each `size` bytes.
    #[inline]
    pub(super) fn positions(self, size: usize) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |index| self.start + index * size)
    }
}

impl<'a> Table<'a> {
    /// Whether a field is present.
    pub(super) fn has(&self, field: u16) -> bool {
        !matches!(u16_at(self.vtable, usize::from(field)), None | Some(0))
    }

    /// Position of a field of `size` bytes, if it is present; `None` if it exceeds the table.
    #[inline]
    fn field(&self, field: u16, size: usize) -> Option<Option<usize>> {
        match u16_at(self.vtable, usize::from(field)) {
            None | Some(0) => Some(None),
            Some(offset) => {
                let offset = usize::from(offset);
                let position = self.position + offset;
                (offset + size <= self.object.len() && position.is_multiple_of(size.min(WORD)))
                    .then_some(Some(position))
            }
        }
    }
}

impl<'a> Reader<'a> {
    /// Reads a buffer of which at most `limit` bytes, counting those that are read again, may be read.
    pub(super) fn new(bytes: &'a [u8], limit: usize) -> Reader<'a> {
        Reader { bytes, left: limit }
    }

    #[inline]
    fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::invalid_argument("broken FlatBuffer: its tables share too much of their data")),
        }
    }

    /// Where the offset stored at a position leads.
    #[inline]
    pub(super) fn follow(&self, position: usize) -> Result<usize> {
        let target = u32_at(self.bytes, position).and_then(|offset| position.checked_add(offset as usize));
        match target {
            Some(target) if target.is_multiple_of(WORD) => Ok(target),
            _ => Err(broken("an offset", position)),
        }
    }

    /// The table at a position.
    #[inline]
    pub(super) fn table(&mut self, position: usize) -> Result<Table<'a>> {
        let Some(table) = self.checked_table(position) else { return Err(broken("a table", position)) };
        self.spend(table.object.len() + table.vtable.len())?;
        Ok(table)
    }

    #[inline]
    fn checked_table(&self, position: usize) -> Option<Table<'a>> {
        let distance = i32::from_le_bytes(array_at(self.bytes, position)?);
        let start = position.checked_add_signed((distance as isize).checked_neg()?)?;
        let [a, b, c, d] = array_at(self.bytes, start)?;
        let (length, size) = (usize::from(u16::from_le_bytes([a, b])), usize::from(u16::from_le_bytes([c, d])));
        let vtable = self.bytes.get(start..)?.get(..length)?;
        let object = self.bytes.get(position..)?.get(..size)?;
        let valid = length >= VTABLE_HEADER && size >= WORD && (start | length).is_multiple_of(2);
        (valid && position.is_multiple_of(WORD)).then_some(Table { position, object, vtable })
    }

    /// The table that a field refers to, if it is present.
    #[inline]
    pub(super) fn child(&mut self, table: Table<'a>, field: u16) -> Result<Option<Table<'a>>> {
        match self.target(table, field)? {
            Some(position) => self.table(position).map(Some),
            None => Ok(None),
        }
    }

    /// Where the offset in a field leads, if it is present.
    #[inline]
    fn target(&self, table: Table<'a>, field: u16) -> Result<Option<usize>> {
        match table.field(field, WORD) {
            Some(Some(position)) => self.follow(position).map(Some),
            Some(None) => Ok(None),
            None => Err(broken("a field of a table", table.position)),
        }
    }

    /// A 32-bit field, or what is given if it is absent.
    #[inline]
    pub(super) fn u32(&self, table: Table<'a>, field: u16, absent: u32) -> Result<u32> {
        match table.field(field, WORD) {
            Some(None) => Ok(absent),
            Some(Some(position)) => u32_at(self.bytes, position).ok_or_else(|| broken("a field", position)),
            None => Err(broken("a field of a table", table.position)),
        }
    }

    /// A byte, or what is given if it is absent.
    #[inline]
    pub(super) fn u8(&self, table: Table<'a>, field: u16, absent: u8) -> Result<u8> {
        match table.field(field, 1) {
            Some(None) => Ok(absent),
            Some(Some(position)) => self.bytes.get(position).copied().ok_or_else(|| broken("a field", position)),
            None => Err(broken("a field of a table", table.position)),
        }
    }

    /// A 64-bit field, or what is given if it is absent.
    #[inline]
    pub(super) fn u64(&self, table: Table<'a>, field: u16, absent: u64) -> Result<u64> {
        match table.field(field, 2 * WORD) {
            Some(None) => Ok(absent),
            Some(Some(position)) => match array_at(self.bytes, position) {
                Some(bytes) => Ok(u64::from_le_bytes(bytes)),
                None => Err(broken("a field", position)),
            },
            None => Err(broken("a field of a table", table.position)),
        }
    }

    /// A vector of elements of `size` bytes, a multiple of their alignment; empty if the field is absent.
    #[inline]
    pub(super) fn vector(&mut self, table: Table<'a>, field: u16, size: usize) -> Result<VectorRange> {
        let Some(position) = self.target(table, field)? else { return Ok(VectorRange::default()) };
        let start = position.saturating_add(WORD);
        let count = u32_at(self.bytes, position).map(|count| count as usize);
        match count.and_then(|count| count.checked_mul(size)) {
            Some(length) if start <= self.bytes.len() && length <= self.bytes.len() - start => {
                self.spend(length)?;
                Ok(VectorRange { start, count: length / size })
            }
            _ => Err(broken("a vector", position)),
        }
    }

    /// A vector of tables.
    #[inline]
    pub(super) fn tables(&mut self, table: Table<'a>, field: u16) -> Result<VectorRange> {
        self.vector(table, field, WORD)
    }

    /// The table that an element of a vector of tables refers to.
    #[inline]
    pub(super) fn element(&mut self, position: usize) -> Result<Table<'a>> {
        let table = self.follow(position)?;
        self.table(table)
    }

    /// A string, if the field is present.
    #[inline]
    pub(super) fn string(&mut self, table: Table<'a>, field: u16) -> Result<Option<(Text, &'a str)>> {
        let Some(position) = self.target(table, field)? else { return Ok(None) };
        let (Some(length), Some(rest)) = (u32_at(self.bytes, position), self.bytes.get(position + WORD..)) else {
            return Err(broken("a string", position));
        };
        let Some((text, [0, ..])) = rest.split_at_checked(length as usize) else {
            return Err(broken("a string", position));
        };
        self.spend(text.len() + WORD)?;
        match core::str::from_utf8(text) {
            // The buffer's size is a 32-bit number.
            Ok(text) => Ok(Some((Text { start: (position + WORD) as u32, length }, text))),
            Err(_) => Err(Error::invalid_argument(format!("broken FlatBuffer: string at 0x{position:X} is not UTF-8"))),
        }
    }
}

#[cold]
fn broken(what: &'static str, position: usize) -> Error {
    Error::invalid_argument(format!("broken FlatBuffer: {what} at 0x{position:X} is not aligned or exceeds it"))
}
