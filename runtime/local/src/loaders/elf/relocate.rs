//! Applying relocations to an image.

use alloc::format;

use object::elf::RelocationType;
use object::read::elf::{FileHeader, Rel, Rela};

use super::arch::{Addend, Class, Field, Machine, Relocation, Value};
use super::dynamic::{Dynamic, Symbols, Table, relocation_size};
use super::image::Image;
use crate::{Error, Result};

/// A relocation table entry.
struct Entry {
    /// Address of the bytes to write.
    place: u64,
    kind: RelocationType,
    symbol: u32,
    /// `None` if it is stored in the bytes to write.
    addend: Option<i64>,
}

/// Applies all relocations of an image.
///
/// # Errors
/// INVALID_ARGUMENT for relocations outside of the image or values that do not fit; UNIMPLEMENTED for kinds that
/// embedded libraries do not use.
pub(super) fn relocate<Elf: FileHeader>(
    image: &mut Image<'_>,
    dynamic: &Dynamic,
    symbols: &Symbols,
    machine: &Machine,
    endian: Elf::Endian,
) -> Result<()> {
    relocate_packed(image, dynamic.packed_relocations, machine)?;
    for table in [dynamic.relocations, dynamic.plt_relocations] {
        for index in 0..table.size / relocation_size::<Elf>(machine) {
            let entry = match machine.addend {
                Addend::Explicit => {
                    let rela: Elf::Rela = image.entry(table.address, index, "relocation table")?;
                    Entry {
                        place: rela.r_offset(endian).into(),
                        kind: rela.r_type(endian, false),
                        symbol: rela.r_sym(endian, false),
                        addend: Some(rela.r_addend(endian).into()),
                    }
                }
                Addend::InPlace => {
                    let rel: Elf::Rel = image.entry(table.address, index, "relocation table")?;
                    Entry {
                        place: rel.r_offset(endian).into(),
                        kind: rel.r_type(endian),
                        symbol: rel.r_sym(endian),
                        addend: None,
                    }
                }
            };
            apply::<Elf>(image, &entry, symbols, machine, endian)?;
        }
    }
    Ok(())
}

fn apply<Elf: FileHeader>(
    image: &mut Image<'_>,
    entry: &Entry,
    symbols: &Symbols,
    machine: &Machine,
    endian: Elf::Endian,
) -> Result<()> {
    let &Entry { place, kind, symbol, addend } = entry;
    let (field, value) = match (machine.relocation)(kind) {
        Some(Relocation::Write(field, value)) => (field, value),
        Some(Relocation::Skip) => return Ok(()),
        None => {
            let (kind, name) = (kind.0, machine.name);
            return Err(Error::unimplemented(format!("ELF relocation of kind {kind} at {place:#x}, for {name}")));
        }
    };
    let size = size(field);
    let addend = match addend {
        // Two's complement: adding modulo 2^64 adds the signed number.
        Some(addend) => addend as u64,
        None => image.word(place, size, "relocated word")?,
    };
    let symbol_address = || symbols.address::<Elf>(image, u64::from(symbol), endian);
    let value = match value {
        Value::Base => image.bias.wrapping_add(addend),
        Value::Symbol => symbol_address()?,
        Value::SymbolAddend => symbol_address()?.wrapping_add(addend),
        Value::Relative => symbol_address()?.wrapping_add(addend).wrapping_sub(image.bias.wrapping_add(place)),
    };
    let fits = match field {
        Field::Word32 | Field::Word64 => true,
        Field::Unsigned32 => u32::try_from(value).is_ok(),
        Field::Signed32 => i32::try_from(value as i64).is_ok(),
    };
    if !fits {
        let kind = kind.0;
        return Err(Error::invalid_argument(format!(
            "ELF relocation of kind {kind} at {place:#x} has the value {value:#x}, which does not fit"
        )));
    }
    write(image, place, value, size)
}

fn size(field: Field) -> u64 {
    match field {
        Field::Word32 | Field::Unsigned32 | Field::Signed32 => 4,
        Field::Word64 => 8,
    }
}

/// Writes the low bytes of a value.
fn write(image: &mut Image<'_>, place: u64, value: u64, size: u64) -> Result<()> {
    let bytes = image.slice_mut(place, size, "relocated word")?;
    for (byte, value) in bytes.iter_mut().zip(value.to_le_bytes()) {
        *byte = value;
    }
    Ok(())
}

/// Applies packed relative relocations. An even word is the address of a word to relocate; an odd word has a bit for
/// each of the next 31 or 63 words, starting with bit 1.
fn relocate_packed(image: &mut Image<'_>, table: Table, machine: &Machine) -> Result<()> {
    const WHAT: &str = "packed relocation";
    let size = match machine.class {
        Class::Elf32 => 4,
        Class::Elf64 => 8,
    };
    let mut next = 0u64;
    for index in 0..table.size / size {
        let entry = image.word(table.address.wrapping_add(index * size), size, WHAT)?;
        if entry & 1 == 0 {
            let addend = image.word(entry, size, WHAT)?;
            write(image, entry, image.bias.wrapping_add(addend), size)?;
            next = entry.wrapping_add(size);
            continue;
        }
        for bit in (1..size * 8).filter(|bit| entry >> bit & 1 == 1) {
            let place = next.wrapping_add((bit - 1) * size);
            let addend = image.word(place, size, WHAT)?;
            write(image, place, image.bias.wrapping_add(addend), size)?;
        }
        next = next.wrapping_add((size * 8 - 1) * size);
    }
    Ok(())
}
