//! Strict reading of a FlatBuffer, for what is checked when a module is loaded: offsets are aligned and lie within the
//! buffer, tables within it too and their fields within them, strings are UTF-8 and end with a zero.
//!
//! It does what the verifiers that FlatBuffer libraries generate do, but in the same pass that reads the tables, and only for
//! those that are read.

use alloc::format;

use super::super::read::{array_at, u16_at, u32_at};
use crate::{Error, Result};

/// A text of the FlatBuffer, which was checked to be one; in bytes from its start, with its size prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    /// No text lies at 0, where absent ones are.
    pub(super) start: u32,
    pub(super) length: u32,
}

impl Text {
    pub(super) fn is_absent(self) -> bool {
        self.start == 0
    }

    #[inline(always)]
    pub(super) fn of(self, flatbuffer: &[u8]) -> &[u8] {
        flatbuffer.get(self.start as usize..).and_then(|rest| rest.get(..self.length as usize)).unwrap_or_default()
    }
}

/// Bytes of the offset in front of a table, and of the count in front of a vector's elements.
const WORD: usize = 4;
/// Bytes of the two sizes that a vtable begins with, so that the position of a field in it is the one that the schema's
/// accessors call `VT_`.
const VTABLE_HEADER: usize = 4;

/// Reads tables. Positions are in bytes from the start of the buffer, with its size prefix.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Bytes that may still be read: tables that share data multiply the work, which this bounds.
    left: usize,
}

/// A table, or a part of one that has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    position: usize,
    object: &'a [u8],
    vtable: &'a [u8],
}

/// A vector whose elements lie within the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct VectorRange {
    /// Position of the first element.
    pub start: usize,
    /// Number of elements.
    pub count: usize,
}

impl VectorRange {
    /// Positions of the elements, each `size` bytes.
    #[inline(always)]
    pub fn positions(self, size: usize) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |index| self.start + index * size)
    }
}

impl<'a> Table<'a> {
    /// Whether a field is present.
    #[inline(always)]
    pub(crate) fn has(&self, field: u16) -> bool {
        !matches!(u16_at(self.vtable, usize::from(field)), None | Some(0))
    }

    /// Position of a field of `size` bytes, if it is present; `None` if it exceeds the table.
    #[inline(always)]
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
    pub fn new(bytes: &'a [u8], limit: usize) -> Reader<'a> {
        Reader { bytes, left: limit }
    }

    /// Bytes that may still be read.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Counts bytes that will be read again.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if they are more than may be read.
    #[inline(always)]
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(shared()),
        }
    }

    /// Where the offset stored at a position leads.
    #[inline(always)]
    pub(crate) fn follow(&self, position: usize) -> Result<usize> {
        let target = u32_at(self.bytes, position).and_then(|offset| position.checked_add(offset as usize));
        match target {
            Some(target) if target.is_multiple_of(WORD) => Ok(target),
            _ => Err(broken("an offset", position)),
        }
    }

    /// The table at a position.
    #[inline(always)]
    pub(crate) fn table(&mut self, position: usize) -> Result<Table<'a>> {
        let Some(table) = self.checked_table(position) else { return Err(broken("a table", position)) };
        self.spend(table.object.len() + table.vtable.len())?;
        Ok(table)
    }

    #[inline(always)]
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
    #[inline(always)]
    pub fn child(&mut self, table: Table<'a>, field: u16) -> Result<Option<Table<'a>>> {
        match self.target(table, field)? {
            Some(position) => self.table(position).map(Some),
            None => Ok(None),
        }
    }

    /// Where the offset in a field leads, if it is present.
    #[inline(always)]
    fn target(&self, table: Table<'a>, field: u16) -> Result<Option<usize>> {
        match table.field(field, WORD) {
            Some(Some(position)) => self.follow(position).map(Some),
            Some(None) => Ok(None),
            None => Err(broken("a field of a table", table.position)),
        }
    }

    /// A 32-bit field, or what is given if it is absent.
    #[inline(always)]
    pub fn u32(&self, table: Table<'a>, field: u16, absent: u32) -> Result<u32> {
        match table.field(field, WORD) {
            Some(None) => Ok(absent),
            Some(Some(position)) => u32_at(self.bytes, position).ok_or_else(|| broken("a field", position)),
            None => Err(broken("a field of a table", table.position)),
        }
    }

    /// A byte, or what is given if it is absent.
    #[inline(always)]
    pub fn u8(&self, table: Table<'a>, field: u16, absent: u8) -> Result<u8> {
        match table.field(field, 1) {
            Some(None) => Ok(absent),
            Some(Some(position)) => self.bytes.get(position).copied().ok_or_else(|| broken("a field", position)),
            None => Err(broken("a field of a table", table.position)),
        }
    }

    /// A 64-bit field, or what is given if it is absent.
    #[inline(always)]
    pub(crate) fn u64(&self, table: Table<'a>, field: u16, absent: u64) -> Result<u64> {
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
    #[inline(always)]
    pub fn vector(&mut self, table: Table<'a>, field: u16, size: usize) -> Result<VectorRange> {
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
    #[inline(always)]
    pub fn tables(&mut self, table: Table<'a>, field: u16) -> Result<VectorRange> {
        self.vector(table, field, WORD)
    }

    /// The table that an element of a vector of tables refers to.
    #[inline(always)]
    pub fn element(&mut self, position: usize) -> Result<Table<'a>> {
        let table = self.follow(position)?;
        self.table(table)
    }

    /// A string that need not be UTF-8, since what reads it accepts less; absent if the field is.
    #[inline(always)]
    pub(crate) fn string_bytes(&mut self, table: Table<'a>, field: u16) -> Result<Text> {
        let Some(position) = self.target(table, field)? else { return Ok(Text::default()) };
        let Some(length) = u32_at(self.bytes, position) else { return Err(broken("a string", position)) };
        // Behind it there is a zero.
        match self.bytes.get(position + WORD..).and_then(|rest| rest.get(length as usize)) {
            Some(0) => {
                self.spend(length as usize + WORD)?;
                // The buffer's size is a 32-bit number.
                Ok(Text { start: (position + WORD) as u32, length })
            }
            _ => Err(broken("a string", position)),
        }
    }

    /// A string; absent if the field is.
    #[inline(always)]
    pub fn string(&mut self, table: Table<'a>, field: u16) -> Result<Text> {
        let text = self.string_bytes(table, field)?;
        let bytes = self.text_bytes(text);
        if is_ascii(bytes) || core::str::from_utf8(bytes).is_ok() { Ok(text) } else { Err(no_utf8(text)) }
    }

    /// The bytes of a text.
    #[inline(always)]
    pub(crate) fn text_bytes(&self, text: Text) -> &'a [u8] {
        text.of(self.bytes)
    }

    /// A text, checked.
    #[inline(always)]
    pub fn text(&self, text: Text) -> Result<&'a str> {
        core::str::from_utf8(self.text_bytes(text)).map_err(|_| no_utf8(text))
    }
}

/// Whether all bytes are ASCII; quicker for short texts than the general check.
#[inline(always)]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let Some(last) = bytes.last_chunk() else { return bytes.iter().all(u8::is_ascii) };
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(u64::from_ne_bytes(*last), |all, word| all | u64::from_ne_bytes(*word)) & HIGH_BITS == 0
}

#[cold]
fn shared() -> Error {
    Error::invalid_argument("broken FlatBuffer: its tables share too much of their data")
}

#[cold]
fn no_utf8(text: Text) -> Error {
    Error::invalid_argument(format!("broken FlatBuffer: string at 0x{:X} is not UTF-8", text.start))
}

#[cold]
fn broken(what: &'static str, position: usize) -> Error {
    Error::invalid_argument(format!("broken FlatBuffer: {what} at 0x{position:X} is not aligned or exceeds it"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A vtable at 0 with fields at 4 (an offset), 8 (a number) and absent, padded; the table at 12; at 24 the string `ab`.
    fn buffer() -> Vec<u8> {
        let mut bytes = Vec::new();
        for half in [10u16, 12, 4, 8, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        for word in [12u32, 8, 77, 2] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"ab\0\0");
        bytes
    }

    fn read(bytes: &[u8], limit: usize) -> Result<(Text, u32, u32)> {
        let mut reader = Reader::new(bytes, limit);
        let table = reader.table(12)?;
        Ok((reader.string(table, 4)?, reader.u32(table, 6, 1)?, reader.u32(table, 8, 1)?))
    }

    #[test]
    fn fields_are_read_and_absent_ones_are_told() {
        let bytes = buffer();
        let (text, present, absent) = read(&bytes, 100).unwrap();
        assert_eq!((text.of(&bytes), present, absent), (&b"ab"[..], 77, 1));
        assert!(
            Reader::new(&bytes, 100)
                .table(12)
                .and_then(|table| Reader::new(&bytes, 100).string(table, 8))
                .is_ok_and(Text::is_absent)
        );
    }

    #[test]
    fn what_is_broken_is_refused() {
        // Position, byte: each breaks one rule.
        for (position, byte) in [
            (0, 9),     // odd vtable
            (0, 2),     // vtable without its header
            (0, 200),   // vtable beyond the buffer
            (2, 200),   // table beyond the buffer
            (2, 10),    // field beyond the table
            (4, 5),     // misaligned field
            (12, 14),   // vtable before the buffer
            (12, 13),   // the same
            (16, 9),    // misaligned string
            (16, 200),  // string beyond the buffer
            (24, 1),    // string that no zero ends
            (24, 4),    // string whose end is beyond the buffer
            (28, 0xFF), // no UTF-8
        ] {
            let mut bytes = buffer();
            bytes[position] = byte;
            assert!(read(&bytes, 100).is_err(), "{position}: {byte}");
        }
        let bytes = buffer();
        for length in 0..31 {
            assert!(read(&bytes[..length], 100).is_err(), "{length}");
        }
        assert!(Reader::new(&bytes, 100).table(14).is_err());
    }

    #[test]
    fn reading_is_bounded() {
        // 10 bytes of vtable, 12 of table, 6 of string.
        assert!(read(&buffer(), 28).is_ok());
        assert!(read(&buffer(), 27).is_err());
    }

    #[test]
    fn ascii_is_told_from_the_rest() {
        for length in 0..40 {
            let mut bytes = alloc::vec![b'x'; length];
            assert!(is_ascii(&bytes));
            for position in 0..length {
                bytes[position] = 0x80;
                assert!(!is_ascii(&bytes), "{position} of {length}");
                bytes[position] = b'x';
            }
        }
    }
}
