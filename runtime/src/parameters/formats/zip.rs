//! ZIP archives whose members are stored, not compressed, as NumPy's `savez` writes them.
//!
//! Source: PKWARE's APPNOTE.TXT, 4.3.

use core::ops::Range;

use super::{u16_at, u32_at, u64_at};
use crate::bytecode::Contents;
use crate::bytecode::read;
use crate::parameters::shown;
use crate::{Error, Result, ResultExt};

/// Signatures and fixed lengths in bytes of the records.
const LOCAL: (u32, usize) = (0x0403_4B50, 30);
const CENTRAL: (u32, usize) = (0x0201_4B50, 46);
const END: (u32, usize) = (0x0605_4B50, 22);
const END64: (u32, usize) = (0x0606_4B50, 56);
const END64_LOCATOR: (u32, usize) = (0x0706_4B50, 20);
/// The extra field of 64-bit lengths.
const EXTRA64: u16 = 1;
/// Most bytes of a comment after the end record.
const COMMENT_BYTES: usize = 0xFFFF;

/// A member, and the range of its bytes in the archive.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// UNIMPLEMENTED if the member is compressed or encrypted.
    pub(super) data: Result<Range<usize>>,
}

/// Returns the members of an archive.
///
/// # Errors
/// INVALID_ARGUMENT and OUT_OF_RANGE if the archive is malformed.
pub(super) fn members(bytes: &Contents) -> Result<Vec<Member>> {
    let (count, mut position) = directory(bytes)
        .ok_or_else(|| Error::out_of_range("no directory at the end: the file is truncated or not a ZIP archive"))?;
    let mut members = Vec::new();
    for number in 0..count {
        let (member, next) =
            central(bytes, position).context(|| format!("member {number}, listed at byte {position}"))?;
        members.push(member);
        position = next;
    }
    Ok(members)
}

/// Returns the number of members and the position of the directory.
fn directory(bytes: &Contents) -> Option<(u64, usize)> {
    let last = bytes.length().checked_sub(END.1)?;
    let first = last.saturating_sub(COMMENT_BYTES);
    let tail = bytes.bytes(first..bytes.length()).ok()?;
    let end = first + (0..=last - first).rev().find(|at| read::u32_at(&tail, *at) == Some(END.0))?;
    let locator = end.checked_sub(END64_LOCATOR.1).filter(|at| u32_at(bytes, *at) == Some(END64_LOCATOR.0));
    let Some(locator) = locator else {
        return Some((u64::from(u16_at(bytes, end + 10)?), u32_at(bytes, end + 16)? as usize));
    };
    let end64 = usize::try_from(u64_at(bytes, locator + 8)?).ok()?;
    let whole = end64.checked_add(END64.1).is_some_and(|end| end <= bytes.length());
    if !whole || u32_at(bytes, end64)? != END64.0 {
        return None;
    }
    Some((u64_at(bytes, end64 + 32)?, usize::try_from(u64_at(bytes, end64 + 48)?).ok()?))
}

/// Reads an entry of the directory and finds its data; returns the position of the next entry.
fn central(bytes: &Contents, position: usize) -> Result<(Member, usize)> {
    let malformed = || Error::out_of_range("malformed or truncated directory entry");
    let entry: [u8; CENTRAL.1] = bytes.array_at(position).ok_or_else(malformed)?;
    if read::u32_at(&entry, 0) != Some(CENTRAL.0) {
        return Err(malformed());
    }
    let field = |at| read::u16_at(&entry, at).map(usize::from).ok_or_else(malformed);
    let (name_length, extra_length, comment_length) = (field(28)?, field(30)?, field(32)?);
    let start = position + CENTRAL.1;
    let name = bytes.bytes(start..start + name_length).map_err(|_| malformed())?;
    let name = super::key_text(name, start)?;
    let context = || format!("'{}'", shown(&name));
    let next = position + CENTRAL.1 + name_length + extra_length + comment_length;
    if field(8)? & 1 != 0 || field(10)? != 0 {
        let why = "compressed or encrypted member: write the archive with `numpy.savez`";
        return Ok((Member { name, data: Err(Error::unimplemented(why)) }, next));
    }
    let extra = start + name_length..start + name_length + extra_length;
    let extra = bytes.bytes(extra).map_err(|_| malformed())?;
    let numbers = [24, 20, 42].map(|at| u64::from(read::u32_at(&entry, at).unwrap_or_default()));
    let [length, stored, local] = widen(numbers, &extra).ok_or_else(malformed).context(context)?;
    if length != stored {
        return Err(Error::invalid_argument(format!("uncompressed member has {stored} stored bytes of {length}")))
            .context(context);
    }
    let data = data_range(bytes, local, length).ok_or_else(|| {
        Error::out_of_range(format!("data of {length} bytes, listed at byte {local}, exceeds the file"))
    });
    let start = data.context(context)?;
    Ok((Member { name, data: Ok(start..start + length as usize) }, next))
}

/// Replaces 32-bit numbers whose bits are all ones by the 64-bit ones of the extra field, which contains no others.
fn widen(mut numbers: [u64; 3], mut extra: &[u8]) -> Option<[u64; 3]> {
    if !numbers.contains(&u64::from(u32::MAX)) {
        return Some(numbers);
    }
    loop {
        let (kind, length) = (read::u16_at(extra, 0)?, usize::from(read::u16_at(extra, 2)?));
        let data = extra.get(4..)?.get(..length)?;
        if kind == EXTRA64 {
            let wide = numbers.iter_mut().filter(|number| **number == u64::from(u32::MAX));
            for (index, number) in wide.enumerate() {
                *number = read::array_at(data, 8 * index).map(u64::from_le_bytes)?;
            }
            return Some(numbers);
        }
        extra = extra.get(4 + length..)?;
    }
}

/// Returns the start of the data after a local header, if the archive contains all of it.
fn data_range(bytes: &Contents, local: u64, length: u64) -> Option<usize> {
    let local = usize::try_from(local).ok()?;
    let header: [u8; LOCAL.1] = bytes.array_at(local)?;
    if read::u32_at(&header, 0)? != LOCAL.0 {
        return None;
    }
    let lengths = usize::from(read::u16_at(&header, 26)?) + usize::from(read::u16_at(&header, 28)?);
    let start = local + LOCAL.1 + lengths;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.length()).then_some(start)
}
