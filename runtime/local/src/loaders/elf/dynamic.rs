//! The dynamic table and the dynamic symbols of an image.

use alloc::format;
use alloc::string::String;

use object::elf;
use object::read::elf::{Dyn, FileHeader, Sym};

use super::arch::{Addend, Machine};
use super::image::Image;
use super::layout::Layout;
use crate::{Error, Result};

/// Address and size in bytes of a table in the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) address: u64,
    pub(super) size: u64,
}

/// The contents of the dynamic table. Every table's size is at most that of the file, because linkers write no tables
/// of zeros.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dynamic {
    /// REL or RELA, depending on the machine.
    pub(super) relocations: Table,
    /// Relocations of the procedure linkage table, in the same form.
    pub(super) plt_relocations: Table,
    /// RELR: packed relative relocations.
    pub(super) packed_relocations: Table,
    /// Address of the function to call first.
    pub(super) init: u64,
    /// Addresses of the functions to call next.
    pub(super) init_array: Table,
    symbols: u64,
    strings: Table,
    hash: u64,
    gnu_hash: u64,
}

impl Dynamic {
    /// Reads the dynamic table.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for tables outside the image or with entries of another size; UNIMPLEMENTED for relocation
    /// formats that the machine's embedded libraries do not use.
    pub(super) fn read<Elf: FileHeader>(
        image: &Image<'_>,
        layout: &Layout<'_>,
        machine: &Machine,
        endian: Elf::Endian,
    ) -> Result<Dynamic> {
        let mut dynamic = Dynamic::default();
        let (used, unused) = match machine.addend {
            Addend::Explicit => ((elf::DT_RELA, elf::DT_RELASZ, elf::DT_RELAENT), (elf::DT_REL, elf::DT_RELSZ)),
            Addend::InPlace => ((elf::DT_REL, elf::DT_RELSZ, elf::DT_RELENT), (elf::DT_RELA, elf::DT_RELASZ)),
        };
        let (word, relocation) = (size_of::<Elf::Word>() as u64, relocation_size::<Elf>(machine));
        let entry_size = |tag: &str, value: u64, wanted: u64| {
            if value == wanted {
                return Ok(());
            }
            Err(Error::invalid_argument(format!(
                "ELF {tag} is {value}; {} has entries of {wanted} bytes",
                machine.name
            )))
        };
        let count = (layout.dynamic.end - layout.dynamic.start) / size_of::<Elf::Dyn>() as u64;
        for index in 0..count {
            let entry: Elf::Dyn = image.entry(layout.dynamic.start, index, "dynamic table")?;
            let value: u64 = entry.d_val(endian).into();
            match entry.d_tag(endian) {
                elf::DT_NULL => break,
                elf::DT_SYMTAB => dynamic.symbols = value,
                elf::DT_STRTAB => dynamic.strings.address = value,
                elf::DT_STRSZ => dynamic.strings.size = value,
                elf::DT_HASH => dynamic.hash = value,
                elf::DT_GNU_HASH => dynamic.gnu_hash = value,
                elf::DT_INIT => dynamic.init = value,
                elf::DT_INIT_ARRAY => dynamic.init_array.address = value,
                elf::DT_INIT_ARRAYSZ => dynamic.init_array.size = value,
                elf::DT_JMPREL => dynamic.plt_relocations.address = value,
                elf::DT_PLTRELSZ => dynamic.plt_relocations.size = value,
                elf::DT_RELR => dynamic.packed_relocations.address = value,
                elf::DT_RELRSZ => dynamic.packed_relocations.size = value,
                elf::DT_SYMENT => entry_size("DT_SYMENT", value, size_of::<Elf::Sym>() as u64)?,
                elf::DT_RELRENT => entry_size("DT_RELRENT", value, word)?,
                elf::DT_PLTREL => entry_size("DT_PLTREL", value, used.0.0 as u64)?,
                tag if tag == used.0 => dynamic.relocations.address = value,
                tag if tag == used.1 => dynamic.relocations.size = value,
                tag if tag == used.2 => entry_size("relocation entry size", value, relocation)?,
                tag if tag == unused.0 || (tag == unused.1 && value != 0) => {
                    return Err(Error::unimplemented(format!(
                        "ELF file has REL relocations instead of RELA or vice versa; {} uses the other kind",
                        machine.name
                    )));
                }
                _ => {}
            }
        }
        for (table, what) in [
            (dynamic.relocations, "relocation table"),
            (dynamic.plt_relocations, "table of PLT relocations"),
            (dynamic.packed_relocations, "table of packed relocations"),
            (dynamic.init_array, "table of initialisers"),
            (dynamic.strings, "string table"),
        ] {
            check_table(image, layout, table, what)?;
        }
        Ok(dynamic)
    }
}

/// Bytes of a relocation of the machine.
pub(super) fn relocation_size<Elf: FileHeader>(machine: &Machine) -> u64 {
    match machine.addend {
        Addend::Explicit => size_of::<Elf::Rela>() as u64,
        Addend::InPlace => size_of::<Elf::Rel>() as u64,
    }
}

fn check_table(image: &Image<'_>, layout: &Layout<'_>, table: Table, what: &str) -> Result<()> {
    if table.size > layout.file_size {
        return Err(Error::invalid_argument(format!(
            "ELF {what} has {} bytes in a file of {}",
            table.size, layout.file_size
        )));
    }
    if table.size > 0 {
        image.slice(table.address, table.size, what)?;
    }
    Ok(())
}

/// The dynamic symbols of an image. Undefined symbols are weak.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbols {
    table: u64,
    count: u64,
    strings: Table,
}

impl Symbols {
    /// Finds the symbols and checks that the image imports nothing.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for damaged tables, NOT_FOUND with the name of an undefined symbol.
    pub(super) fn read<Elf: FileHeader>(
        image: &Image<'_>,
        layout: &Layout<'_>,
        dynamic: &Dynamic,
        endian: Elf::Endian,
    ) -> Result<Symbols> {
        let count = if dynamic.hash != 0 {
            // Words of the table: number of buckets, number of chain entries, which is that of symbols.
            image.word(dynamic.hash.wrapping_add(4), 4, "hash table")?
        } else if dynamic.gnu_hash != 0 {
            gnu_symbol_count::<Elf>(image, layout, dynamic.gnu_hash)?
        } else {
            return Err(Error::invalid_argument("ELF file has no hash table of symbols"));
        };
        // `count` has 32 bits, so this does not overflow.
        let table = Table { address: dynamic.symbols, size: count * size_of::<Elf::Sym>() as u64 };
        check_table(image, layout, table, "symbol table")?;
        let symbols = Symbols { table: dynamic.symbols, count, strings: dynamic.strings };
        // The first symbol is reserved and undefined.
        for index in 1..count {
            let symbol: Elf::Sym = symbols.get::<Elf>(image, index)?;
            if symbol.st_shndx(endian) == elf::SHN_UNDEF && symbol.st_bind() != elf::STB_WEAK {
                let name = symbols.name(image, symbol.st_name(endian));
                return Err(Error::not_found(format!(
                    "ELF file imports the symbol `{name}`; embedded libraries import nothing from the platform"
                )));
            }
        }
        Ok(symbols)
    }

    /// Returns the symbol with an index.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it does not exist.
    pub(super) fn get<Elf: FileHeader>(&self, image: &Image<'_>, index: u64) -> Result<Elf::Sym> {
        if index >= self.count {
            return Err(Error::invalid_argument(format!("ELF symbol {index} of {}", self.count)));
        }
        image.entry(self.table, index, "symbol table")
    }

    /// Returns the run-time address of a symbol; zero for an undefined weak one.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it does not exist; UNIMPLEMENTED for kinds whose address depends on running code.
    pub(super) fn address<Elf: FileHeader>(&self, image: &Image<'_>, index: u64, endian: Elf::Endian) -> Result<u64> {
        let symbol: Elf::Sym = self.get::<Elf>(image, index)?;
        let value: u64 = symbol.st_value(endian).into();
        match (symbol.st_type(), symbol.st_shndx(endian)) {
            (elf::STT_TLS | elf::STT_GNU_IFUNC, _) | (_, elf::SHN_COMMON) => {
                let kind = symbol.st_type().0;
                Err(Error::unimplemented(format!(
                    "ELF symbol {index} has type {kind}, which this loader does not resolve"
                )))
            }
            (_, elf::SHN_UNDEF) => Ok(0),
            (_, elf::SHN_ABS) => Ok(value),
            _ => Ok(value.wrapping_add(image.bias)),
        }
    }

    /// Returns the index of an exported symbol.
    ///
    /// A library has one export, and the check for undefined symbols visits all symbols anyway, so the hash tables are
    /// not used.
    ///
    /// # Errors
    /// NOT_FOUND if it is not exported.
    pub(super) fn find<Elf: FileHeader>(&self, image: &Image<'_>, name: &str, endian: Elf::Endian) -> Result<u64> {
        for index in 1..self.count {
            let symbol: Elf::Sym = self.get::<Elf>(image, index)?;
            let exported = matches!(symbol.st_bind(), elf::STB_GLOBAL | elf::STB_WEAK)
                && symbol.st_shndx(endian) != elf::SHN_UNDEF;
            if exported && self.has_name(image, symbol.st_name(endian), name) {
                return Ok(index);
            }
        }
        Err(Error::not_found(format!("ELF file does not export `{name}`")))
    }

    /// Returns the string at an offset into the string table, up to the table's end.
    fn string<'i>(&self, image: &'i Image<'_>, offset: u32) -> &'i [u8] {
        let offset = u64::from(offset);
        let size = self.strings.size.saturating_sub(offset);
        image.slice(self.strings.address.wrapping_add(offset), size, "string table").unwrap_or_default()
    }

    fn has_name(&self, image: &Image<'_>, offset: u32, name: &str) -> bool {
        self.string(image, offset).strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Formats a symbol's name for messages.
    fn name(&self, image: &Image<'_>, offset: u32) -> String {
        const LONGEST: usize = 128;
        let name = self.string(image, offset).iter().take(LONGEST).take_while(|byte| **byte != 0);
        String::from_utf8_lossy(&name.copied().collect::<alloc::vec::Vec<u8>>()).into_owned()
    }
}

/// Returns the number of symbols that a GNU hash table implies: one more than the last one in the last chain.
fn gnu_symbol_count<Elf: FileHeader>(image: &Image<'_>, layout: &Layout<'_>, table: u64) -> Result<u64> {
    const WHAT: &str = "GNU hash table";
    let bucket_count = image.word(table, 4, WHAT)?;
    let first_hashed = image.word(table.wrapping_add(4), 4, WHAT)?;
    let bloom_count = image.word(table.wrapping_add(8), 4, WHAT)?;
    // The header takes four words; the Bloom filter of address-wide words, the buckets and the chains follow.
    let buckets = Table {
        address: table.wrapping_add(16).wrapping_add(bloom_count * size_of::<Elf::Word>() as u64),
        size: bucket_count * 4,
    };
    check_table(image, layout, buckets, WHAT)?;
    let words =
        |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_le_bytes(*word))).collect();
    let heads: alloc::vec::Vec<u64> = words(image.slice(buckets.address, buckets.size, WHAT)?);
    let last_head = heads.into_iter().max().unwrap_or(0);
    if last_head < first_hashed {
        return Ok(first_hashed);
    }
    let chain = buckets.address.wrapping_add(buckets.size).wrapping_add((last_head - first_hashed) * 4);
    // An odd word ends a chain, which is at most as long as the file.
    let longest = usize::try_from(layout.file_size).unwrap_or(usize::MAX);
    let tail = image.tail(chain);
    let tail = tail.get(..tail.len().min(longest)).unwrap_or_default();
    let length = tail.as_chunks::<4>().0.iter().position(|word| word[0] & 1 == 1);
    length
        .map(|length| last_head + length as u64 + 1)
        .ok_or_else(|| Error::invalid_argument("ELF GNU hash chain has no end"))
}
