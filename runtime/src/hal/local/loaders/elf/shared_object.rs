//! Checks of shared objects before the system's linker sees them.
//!
//! That linker believes what a file says: it maps segments beyond the file's end, follows tables to wherever they point, and
//! the process dies of it. What it needs of a file to load it and to find a symbol is checked here first, so that a file
//! that is cut short, damaged or another machine's is an error. The code itself is trusted like any machine code.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use object::elf::{self, DynamicTag};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rel, Rela, SectionHeader, Sym};
use object::{LittleEndian, Pod, ReadRef};

use super::arch::{Addend, Class, Machine};
use crate::{Error, Result};

/// Checks that a file is a shared object for `machine` which lies in `data` as a whole, with tables within its segments.
///
/// # Errors
/// INCOMPATIBLE for another kind of file or machine, INVALID_ARGUMENT for a damaged one.
pub(in crate::hal::local) fn check_shared_object(data: &[u8], machine: &Machine) -> Result<()> {
    match machine.class {
        Class::Elf32 => check::<elf::FileHeader32<LittleEndian>>(data, machine),
        Class::Elf64 => check::<elf::FileHeader64<LittleEndian>>(data, machine),
    }
}

fn check<Elf: FileHeader<Endian = LittleEndian>>(data: &[u8], machine: &Machine) -> Result<()> {
    let name = machine.name;
    let header = Elf::parse(data)
        .map_err(|_| Error::incompatible(format!("not an ELF file of the class and byte order that {name} has")))?;
    let endian =
        header.endian().map_err(|_| Error::incompatible(format!("ELF file is big-endian; {name} is little-endian")))?;
    let (id, kind) = (header.e_machine(endian), header.e_type(endian));
    if id != machine.id {
        let (id, wanted) = (id.0, machine.id.0);
        return Err(Error::incompatible(format!("ELF file is for machine {id}; {name} is {wanted}")));
    }
    if kind != elf::ET_DYN {
        return Err(Error::invalid_argument(format!("ELF file has type {}; a shared object is 3", kind.0)));
    }
    let segments = header
        .program_headers(endian, data)
        .map_err(|_| Error::invalid_argument("ELF program header table lies outside of the file or is damaged"))?;
    // Linkers write the sections last, so that these show that a file is cut short.
    let sections = header.section_headers(endian, data).map_err(|_| {
        Error::invalid_argument("ELF section header table lies outside of the file: the file is cut short or damaged")
    })?;
    for section in sections {
        section.data(endian, data).map_err(|_| Error::invalid_argument("ELF section lies outside of the file"))?;
    }
    let file = Loaded::<Elf> { data, endian, segments, machine };
    file.check_segments()?;
    file.check_dynamic()
}

/// A file as it is loaded.
struct Loaded<'data, Elf: FileHeader> {
    data: &'data [u8],
    endian: Elf::Endian,
    segments: &'data [Elf::ProgramHeader],
    machine: &'data Machine,
}

/// A table: its address and size as the dynamic table says, or zero.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    address: u64,
    size: u64,
}

fn outside(what: &str, address: u64, size: u64) -> Error {
    Error::invalid_argument(format!(
        "ELF {what} of {size} bytes at {address:#x} is not within a segment's part of the file"
    ))
}

impl<'data, Elf: FileHeader<Endian = LittleEndian>> Loaded<'data, Elf> {
    fn check_segments(&self) -> Result<()> {
        let mut loads = 0;
        for segment in self.segments {
            let kind = segment.p_type(self.endian);
            if kind != elf::PT_LOAD && kind != elf::PT_DYNAMIC {
                continue;
            }
            let start: u64 = segment.p_vaddr(self.endian).into();
            let (file_size, memory_size) = (segment.p_filesz(self.endian).into(), segment.p_memsz(self.endian).into());
            let fits = segment.data(self.endian, self.data).is_ok() && start.checked_add(memory_size).is_some();
            if !fits || file_size > memory_size {
                return Err(Error::invalid_argument(format!(
                    "ELF segment at {start:#x} takes {file_size} bytes at {} of a file of {} for {memory_size} bytes of memory",
                    segment.p_offset(self.endian).into(),
                    self.data.len()
                )));
            }
            loads += usize::from(kind == elf::PT_LOAD);
        }
        if loads == 0 { Err(Error::invalid_argument("ELF file has no segment to load")) } else { Ok(()) }
    }

    /// Ranges of addresses that the file's segments take in memory.
    fn memory(&self) -> impl Iterator<Item = Range<u64>> {
        let loads = self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD);
        loads.map(|segment| {
            let start: u64 = segment.p_vaddr(self.endian).into();
            start..start.saturating_add(segment.p_memsz(self.endian).into())
        })
    }

    /// The elements of a table in the file.
    fn table<T: Pod>(&self, table: Table, what: &str) -> Result<&'data [T]> {
        let error = || outside(what, table.address, table.size);
        for segment in self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD) {
            let (start, length): (u64, u64) =
                (segment.p_vaddr(self.endian).into(), segment.p_filesz(self.endian).into());
            let Some(offset) = table.address.checked_sub(start).filter(|offset| *offset < length) else { continue };
            if table.size > length - offset {
                return Err(error());
            }
            let count = usize::try_from(table.size / size_of::<T>() as u64).map_err(|_| error())?;
            let bytes = segment.data(self.endian, self.data).map_err(|()| error())?;
            return bytes.read_slice_at(offset, count).map_err(|()| error());
        }
        Err(error())
    }

    fn check_dynamic(&self) -> Result<()> {
        let dynamic = self.segments.iter().find_map(|segment| segment.dynamic(self.endian, self.data).transpose());
        let entries = match dynamic {
            Some(Ok(entries)) => entries,
            Some(Err(_)) | None => return Err(Error::invalid_argument("ELF file has no dynamic table")),
        };
        // The linker reads up to this entry, whatever the table's size.
        let Some(count) = entries.iter().position(|entry| entry.d_tag(self.endian) == elf::DT_NULL) else {
            return Err(Error::invalid_argument("ELF dynamic table has no end"));
        };
        let entries = entries.get(..count).unwrap_or_default();
        let value = |tag: DynamicTag| {
            let last = entries.iter().rev().find(|entry| entry.d_tag(self.endian) == tag);
            last.map_or(0, |entry| entry.d_val(self.endian).into())
        };
        let table = |address, size| Table { address: value(address), size: value(size) };
        let strings = table(elf::DT_STRTAB, elf::DT_STRSZ);
        let texts: &[u8] = self.table(strings, "string table")?;
        if texts.last() != Some(&0) {
            return Err(Error::invalid_argument("ELF string table has no end"));
        }
        for entry in entries.iter().filter(|entry| matches!(entry.d_tag(self.endian), elf::DT_NEEDED | elf::DT_SONAME))
        {
            let offset: u64 = entry.d_val(self.endian).into();
            if offset >= strings.size {
                return Err(Error::invalid_argument(format!("ELF string {offset} of a table of {}", strings.size)));
            }
        }
        for (address, size, what) in [
            (elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ, "table of initialisers"),
            (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ, "table of finalisers"),
            (elf::DT_RELR, elf::DT_RELRSZ, "table of packed relocations"),
        ] {
            let table = table(address, size);
            if table.size > 0 {
                self.table::<u8>(table, what)?;
            }
        }
        let symbols = Symbols { address: value(elf::DT_SYMTAB), strings: strings.size };
        self.symbol(symbols, 0)?;
        let plain = match self.machine.addend {
            Addend::Explicit => table(elf::DT_RELA, elf::DT_RELASZ),
            Addend::InPlace => table(elf::DT_REL, elf::DT_RELSZ),
        };
        self.check_relocations(plain, symbols)?;
        self.check_relocations(table(elf::DT_JMPREL, elf::DT_PLTRELSZ), symbols)?;
        self.check_hash(value(elf::DT_HASH), value(elf::DT_GNU_HASH), symbols)
    }

    /// Checks that a symbol lies in the file and has its name in the string table.
    fn symbol(&self, symbols: Symbols, index: u64) -> Result<()> {
        let size = size_of::<Elf::Sym>() as u64;
        let address = index.checked_mul(size).and_then(|offset| symbols.address.checked_add(offset));
        let address = address.ok_or_else(|| outside("symbol", index, size))?;
        let symbol: &[Elf::Sym] = self.table(Table { address, size }, "symbol")?;
        let name = symbol.first().map_or(0, |symbol| symbol.st_name(self.endian));
        if u64::from(name) >= symbols.strings {
            return Err(Error::invalid_argument(format!(
                "ELF symbol {index} has its name outside of the string table"
            )));
        }
        Ok(())
    }

    fn check_relocations(&self, table: Table, symbols: Symbols) -> Result<()> {
        const WHAT: &str = "relocation table";
        if table.size == 0 {
            return Ok(());
        }
        match self.machine.addend {
            Addend::Explicit => {
                let entries: &[Elf::Rela] = self.table(table, WHAT)?;
                entries.iter().try_for_each(|entry| {
                    self.relocation(entry.r_offset(self.endian).into(), entry.r_sym(self.endian, false), symbols)
                })
            }
            Addend::InPlace => {
                let entries: &[Elf::Rel] = self.table(table, WHAT)?;
                entries.iter().try_for_each(|entry| {
                    self.relocation(entry.r_offset(self.endian).into(), entry.r_sym(self.endian), symbols)
                })
            }
        }
    }

    fn relocation(&self, offset: u64, symbol: u32, symbols: Symbols) -> Result<()> {
        let word = size_of::<Elf::Word>() as u64;
        if !self.memory().any(|range| range.contains(&offset) && range.end - offset >= word) {
            return Err(outside("relocation's target", offset, word));
        }
        self.symbol(symbols, u64::from(symbol))
    }

    /// Checks what the linker divides by and looks up when it searches a symbol.
    fn check_hash(&self, hash: u64, gnu_hash: u64, symbols: Symbols) -> Result<()> {
        const WHAT: &str = "hash table";
        let words = |address: u64, count: u64| -> Result<&'data [object::U32<LittleEndian>]> {
            self.table(Table { address, size: count.saturating_mul(4) }, WHAT)
        };
        let numbers = |address, count| -> Result<[u64; 4]> {
            let words = words(address, count)?;
            Ok(core::array::from_fn(|index| words.get(index).map_or(0, |word| u64::from(word.get(self.endian)))))
        };
        let empty = || Error::invalid_argument("ELF hash table has no buckets");
        if gnu_hash != 0 {
            let [buckets, first, bloom, _] = numbers(gnu_hash, 4)?;
            if buckets == 0 || !bloom.is_power_of_two() {
                return Err(empty());
            }
            let start = gnu_hash.saturating_add(16 + bloom * size_of::<Elf::Word>() as u64);
            let heads = words(start, buckets)?;
            let last = heads.iter().map(|head| u64::from(head.get(self.endian))).max().unwrap_or(0);
            if last == 0 {
                return Ok(());
            }
            let position = last.checked_sub(first).ok_or_else(empty)?;
            words(start.saturating_add(buckets * 4).saturating_add(position * 4), 1)?;
            return self.symbol(symbols, last);
        }
        if hash == 0 {
            return Err(Error::invalid_argument(String::from("ELF file has no hash table of symbols")));
        }
        let [buckets, chains, ..] = numbers(hash, 2)?;
        if buckets == 0 {
            return Err(empty());
        }
        words(hash, 2 + buckets + chains)?;
        match chains.checked_sub(1) {
            Some(last) => self.symbol(symbols, last),
            None => Err(empty()),
        }
    }
}

/// The symbol table's address, and the size of the strings that it refers to.
#[derive(Clone, Copy, Debug)]
struct Symbols {
    address: u64,
    strings: u64,
}
