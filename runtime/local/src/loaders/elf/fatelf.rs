//! FatELF: several ELF files for different machines in one. Format version 1, after the FatELF specification.

use core::ops::Range;

use object::elf::{ELFOSABI_LINUX, ELFOSABI_STANDALONE, ELFOSABI_SYSV};

use super::arch::{Class, Machine};
use crate::{Error, Result};

const MAGIC: [u8; 4] = [0xFA, 0x70, 0x0E, 0x1F];
const VERSION: u16 = 1;
const HEADER_SIZE: usize = 8;
const RECORD_SIZE: usize = 24;
const LITTLE_ENDIAN: u8 = 1;

/// Returns the member of a FatELF file for `machine`; any other file unchanged.
///
/// # Errors
/// INVALID_ARGUMENT for a damaged FatELF file; INCOMPATIBLE for another version or if no member is for `machine`.
pub(super) fn select<'data>(data: &'data [u8], machine: &Machine) -> Result<&'data [u8]> {
    if !data.starts_with(&MAGIC) {
        return Ok(data);
    }
    let (version, count) = match data {
        [_, _, _, _, low, high, count, _, ..] => (u16::from_le_bytes([*low, *high]), usize::from(*count)),
        _ => return Err(Error::invalid_argument("FatELF file ends within its header")),
    };
    if version != VERSION {
        return Err(Error::incompatible(format!("FatELF file has version {version}; supported is {VERSION}")));
    }
    let records_end = HEADER_SIZE + count * RECORD_SIZE;
    let Some(records) = data.get(HEADER_SIZE..records_end) else {
        return Err(Error::invalid_argument(format!("FatELF file ends within its {count} records")));
    };
    let (records, _) = records.as_chunks::<RECORD_SIZE>();
    let range = records.iter().find_map(|record| member_range(record, machine)).ok_or_else(|| {
        Error::incompatible(format!("none of the {count} members of the FatELF file is for {}", machine.name))
    })?;
    let member = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    member.filter(|&(start, _)| start >= records_end).and_then(|(start, end)| data.get(start..end)).ok_or_else(|| {
        Error::invalid_argument(format!(
            "FatELF member at bytes {range:?} lies outside of the file, which has {} bytes after its records",
            data.len() - records_end
        ))
    })
}

/// Returns the range of bytes of a record's member if it is for `machine`; the end saturates.
fn member_range(record: &[u8; RECORD_SIZE], machine: &Machine) -> Option<Range<u64>> {
    let [m0, m1, osabi, _abi_version, word_size, byte_order, _, _, numbers @ ..] = record;
    let (numbers, _) = numbers.as_chunks::<8>();
    let [offset, size] = numbers else { return None };
    let (offset, size) = (u64::from_le_bytes(*offset), u64::from_le_bytes(*size));
    let machine_matches = u16::from_le_bytes([*m0, *m1]) == machine.id.0;
    let osabi_matches = [ELFOSABI_SYSV, ELFOSABI_LINUX, ELFOSABI_STANDALONE].iter().any(|known| known.0 == *osabi);
    let class_matches = match machine.class {
        Class::Elf32 => *word_size == 1,
        Class::Elf64 => *word_size == 2,
    };
    (machine_matches && osabi_matches && class_matches && *byte_order == LITTLE_ENDIAN)
        .then(|| offset..offset.saturating_add(size))
}
