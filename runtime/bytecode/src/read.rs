//! Checked little-endian reads from bytes of any alignment.

pub use crate::module::tables::{Reader, Table, Text, VectorRange};

/// The `N` bytes at a position, if they are all there.
#[inline]
pub fn array_at<const N: usize>(bytes: &[u8], position: usize) -> Option<[u8; N]> {
    bytes.get(position..)?.first_chunk::<N>().copied()
}

/// The 16-bit number at a position.
#[inline]
pub fn u16_at(bytes: &[u8], position: usize) -> Option<u16> {
    array_at(bytes, position).map(u16::from_le_bytes)
}

/// The 32-bit number at a position.
#[inline]
pub fn u32_at(bytes: &[u8], position: usize) -> Option<u32> {
    array_at(bytes, position).map(u32::from_le_bytes)
}

/// Checked access to a FlatBuffer's tables; positions are absolute, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct FlatBuffer<'a> {
    pub bytes: &'a [u8],
}

impl<'a> FlatBuffer<'a> {
    /// Where the offset stored at a position leads.
    pub fn follow(self, position: usize) -> Option<usize> {
        position.checked_add(u32_at(self.bytes, position)? as usize)
    }

    /// Position of a table's field, if it is present.
    pub fn field(self, table: usize, index: usize) -> Option<usize> {
        let distance = i32::from_le_bytes(array_at(self.bytes, table)?);
        let vtable = table.checked_add_signed((distance as isize).checked_neg()?)?;
        let slot = 4 + 2 * index;
        if slot + 2 > usize::from(u16_at(self.bytes, vtable)?) {
            return None;
        }
        match u16_at(self.bytes, vtable.checked_add(slot)?)? {
            0 => None,
            offset => table.checked_add(usize::from(offset)),
        }
    }

    /// A 32-bit field; 0 if it is absent.
    pub fn number(self, table: usize, index: usize) -> u32 {
        self.field(table, index).and_then(|position| u32_at(self.bytes, position)).unwrap_or_default()
    }

    /// Position of the first element, and number of elements, of a vector.
    pub fn vector(self, table: usize, index: usize) -> Option<(usize, usize)> {
        let vector = self.follow(self.field(table, index)?)?;
        Some((vector.checked_add(4)?, u32_at(self.bytes, vector)? as usize))
    }

    /// Position of a table that a vector of offsets refers to.
    pub fn element(self, (start, count): (usize, usize), index: usize) -> Option<usize> {
        if index >= count {
            return None;
        }
        self.follow(start.checked_add(index.checked_mul(4)?)?)
    }

    pub fn string(self, table: usize, index: usize) -> Option<&'a str> {
        let (start, length) = self.vector(table, index)?;
        core::str::from_utf8(self.bytes.get(start..start.checked_add(length)?)?).ok()
    }
}
