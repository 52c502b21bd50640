//! Checks of shared objects before the system's linker loads them.
//!
//! That linker trusts a file: it maps segments beyond the file's end and follows tables anywhere, which kills the
//! process. These checks validate everything that the linker needs to load the file and to find a symbol, so that a
//! truncated, damaged or foreign file is an error. The code itself is trusted like all machine code.

use alloc::format;
use core::ops::Range;

use object::elf::{self, DynamicTag, RelocationType};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rel, Rela, SectionHeader, Sym};
use object::{LittleEndian, Pod, ReadRef};

use super::arch::{Addend, Class, Machine, Relocation, Value};
use super::layout::MAX_IMAGE_SIZE;
use crate::{Error, Result};

/// Checks that a file is a complete shared object for `machine`, with tables within its segments.
///
/// # Errors
/// INCOMPATIBLE for another kind of file or machine; INVALID_ARGUMENT for a damaged one.
pub(crate) fn check_shared_object(data: &[u8], machine: &Machine) -> Result<()> {
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
    // Linkers write the sections last, so that they reveal a truncated file.
    let sections = header.section_headers(endian, data).map_err(|_| {
        Error::invalid_argument("ELF section header table lies outside of the file: the file is truncated or damaged")
    })?;
    for section in sections {
        section.data(endian, data).map_err(|_| Error::invalid_argument("ELF section lies outside of the file"))?;
    }
    let file = Loaded::<Elf> { data, endian, segments, machine };
    file.check_segments()?;
    segments.iter().try_for_each(|segment| file.check_part(segment))?;
    file.check_dynamic()
}

/// A file in the linker's view.
struct Loaded<'data, Elf: FileHeader> {
    data: &'data [u8],
    endian: Elf::Endian,
    segments: &'data [Elf::ProgramHeader],
    machine: &'data Machine,
}

/// A table: the dynamic table's address and size, or zero.
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

/// Bytes of the smallest supported pages.
const LEAST_PAGE_SIZE: u64 = 4096;
/// Bytes of the largest pages.
const MOST_PAGE_SIZE: u64 = 1 << 16;
/// Tags of the dynamic table in the generic ABI, and the range of system- and processor-specific tags.
const KNOWN_TAGS: Range<i64> = 0..elf::DT_RELRENT.0 + 1;
/// The tags whose values are names.
const NAMES: [DynamicTag; 6] =
    [elf::DT_NEEDED, elf::DT_SONAME, elf::DT_RPATH, elf::DT_RUNPATH, elf::DT_AUXILIARY, elf::DT_FILTER];
const SYSTEM_TAGS: Range<i64> = elf::DT_LOOS..elf::DT_HIPROC + 1;

impl<'data, Elf: FileHeader<Endian = LittleEndian>> Loaded<'data, Elf> {
    fn loads(&self) -> impl Iterator<Item = &'data Elf::ProgramHeader> {
        self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD)
    }

    fn check_segments(&self) -> Result<()> {
        let mut span: Option<Range<u64>> = None;
        for segment in self.segments {
            if segment.p_type(self.endian) != elf::PT_LOAD {
                continue;
            }
            let (start, offset): (u64, u64) =
                (segment.p_vaddr(self.endian).into(), segment.p_offset(self.endian).into());
            let (file_size, memory_size) = (segment.p_filesz(self.endian).into(), segment.p_memsz(self.endian).into());
            let end = start.checked_add(memory_size);
            let Some(end) = end.filter(|_| segment.data(self.endian, self.data).is_ok() && file_size <= memory_size)
            else {
                return Err(Error::invalid_argument(format!(
                    "ELF segment at {start:#x} takes {file_size} bytes at {offset} of a file of {} for {memory_size} bytes of memory",
                    self.data.len()
                )));
            };
            let is_readable = segment.p_flags(self.endian).0 & elf::PF_R.0 != 0;
            let is_in_order = span.as_ref().is_none_or(|span| span.end <= start);
            if !is_readable || !is_in_order || start % LEAST_PAGE_SIZE != offset % LEAST_PAGE_SIZE {
                return Err(Error::invalid_argument(format!(
                    "ELF segment at {start:#x} is not readable, out of order or between pages"
                )));
            }
            let first = span.map_or(start, |span| span.start);
            if end - first > MAX_IMAGE_SIZE {
                return Err(Error::resource_exhausted(format!(
                    "ELF file spans {} bytes of memory; the limit is {MAX_IMAGE_SIZE}",
                    end - first
                )));
            }
            span = Some(first..end);
        }
        span.map(drop).ok_or_else(|| Error::invalid_argument("ELF file has no segment to load"))
    }

    /// Checks a header that describes a range of the segments for the linker or for unwinders.
    fn check_part(&self, part: &Elf::ProgramHeader) -> Result<()> {
        let kind = part.p_type(self.endian);
        let address: u64 = part.p_vaddr(self.endian).into();
        let (file_size, memory_size): (u64, u64) =
            (part.p_filesz(self.endian).into(), part.p_memsz(self.endian).into());
        let is_whole = match kind {
            // Zero-initialised thread-local storage occupies no space in the segment.
            elf::PT_TLS => file_size <= memory_size && memory_size <= MAX_IMAGE_SIZE,
            // Protected from writes up to the end of a page.
            elf::PT_GNU_RELRO => {
                let ends = self.loads().filter_map(|segment| {
                    let start: u64 = segment.p_vaddr(self.endian).into();
                    let end = start.saturating_add(segment.p_memsz(self.endian).into());
                    let page = segment.p_align(self.endian).into().clamp(LEAST_PAGE_SIZE, MOST_PAGE_SIZE);
                    (start <= address && address < end).then(|| end.next_multiple_of(page))
                });
                return match ends.into_iter().any(|end| end - address >= memory_size) {
                    true => Ok(()),
                    false => Err(outside("part that is protected", address, memory_size)),
                };
            }
            elf::PT_DYNAMIC | elf::PT_PHDR | elf::PT_NOTE | elf::PT_GNU_PROPERTY | elf::PT_GNU_EH_FRAME => {
                file_size == memory_size
            }
            _ => return Ok(()),
        };
        // Notes that tools read from the file need not be loaded.
        if kind == elf::PT_NOTE && address == 0 || kind == elf::PT_TLS && file_size == 0 {
            return Ok(());
        }
        let in_file = part.data(self.endian, self.data).ok();
        let in_memory = self.table::<u8>(Table { address, size: file_size }, "part").ok();
        match in_file.zip(in_memory) {
            Some((one, other)) if is_whole && core::ptr::eq(one, other) => Ok(()),
            _ => Err(outside("part that a program header describes,", address, memory_size)),
        }
    }

    /// Returns true if an address range belongs to a segment with the given permissions.
    fn is_mapped(&self, address: u64, size: u64, flags: u32) -> bool {
        self.loads().any(|segment| {
            let start: u64 = segment.p_vaddr(self.endian).into();
            let end = start.saturating_add(segment.p_memsz(self.endian).into());
            // The address after the last byte is valid, too.
            segment.p_flags(self.endian).0 & flags == flags
                && start <= address
                && address <= end
                && end - address >= size
        })
    }

    /// Returns the elements of a table in the file.
    fn table<T: Pod>(&self, table: Table, what: &str) -> Result<&'data [T]> {
        let error = || outside(what, table.address, table.size);
        for segment in self.loads() {
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

    fn dynamic(&self) -> Result<&'data [Elf::Dyn]> {
        let dynamic = self.segments.iter().find_map(|segment| segment.dynamic(self.endian, self.data).transpose());
        let Some(Ok(entries)) = dynamic else { return Err(Error::invalid_argument("ELF file has no dynamic table")) };
        // The linker reads up to this entry, whatever the table's size.
        let Some(count) = entries.iter().position(|entry| entry.d_tag(self.endian) == elf::DT_NULL) else {
            return Err(Error::invalid_argument("ELF dynamic table has no end"));
        };
        // Linkers fill the rest with null entries; others were not meant to be ignored.
        if entries.iter().skip(count).any(|entry| entry.d_tag(self.endian) != elf::DT_NULL) {
            return Err(Error::invalid_argument("ELF dynamic table continues after its end"));
        }
        let entries = entries.get(..count).unwrap_or_default();
        let unknown = |tag: i64| !KNOWN_TAGS.contains(&tag) && !SYSTEM_TAGS.contains(&tag);
        match entries.iter().map(|entry| entry.d_tag(self.endian).0).find(|tag| unknown(*tag)) {
            Some(tag) => Err(Error::invalid_argument(format!("ELF dynamic table has an entry of tag {tag:#x}"))),
            None => Ok(entries),
        }
    }

    fn check_dynamic(&self) -> Result<()> {
        let entries = self.dynamic()?;
        let find = |tag: DynamicTag| {
            let last = entries.iter().rev().find(|entry| entry.d_tag(self.endian) == tag);
            last.map(|entry| -> u64 { entry.d_val(self.endian).into() })
        };
        let value = |tag: DynamicTag| find(tag).unwrap_or(0);
        let needed = |tag: DynamicTag, what: &str| {
            find(tag).ok_or_else(|| Error::invalid_argument(format!("ELF file has no {what}")))
        };
        let table = |address: DynamicTag, size: DynamicTag| Table { address: value(address), size: value(size) };
        let strings = Table {
            address: needed(elf::DT_STRTAB, "string table")?,
            size: needed(elf::DT_STRSZ, "size of its string table")?,
        };
        let texts: &[u8] = self.table(strings, "string table")?;
        if texts.last() != Some(&0) {
            return Err(Error::invalid_argument("ELF string table has no end"));
        }
        for entry in entries.iter().filter(|entry| NAMES.contains(&entry.d_tag(self.endian))) {
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
        for tag in [elf::DT_INIT, elf::DT_FINI] {
            if find(tag).is_some_and(|function| !self.is_mapped(function, 1, elf::PF_X.0)) {
                return Err(outside("function", value(tag), 1));
            }
        }
        let symbols = Symbols { address: needed(elf::DT_SYMTAB, "symbol table")?, strings: strings.size };
        let (entry, tags) = match self.machine.addend {
            Addend::Explicit => {
                (size_of::<Elf::Rela>() as u64, (elf::DT_RELA, elf::DT_RELASZ, elf::DT_RELAENT, elf::DT_RELACOUNT))
            }
            Addend::InPlace => {
                (size_of::<Elf::Rel>() as u64, (elf::DT_REL, elf::DT_RELSZ, elf::DT_RELENT, elf::DT_RELCOUNT))
            }
        };
        let sizes =
            [(elf::DT_SYMENT, size_of::<Elf::Sym>() as u64), (tags.2, entry), (elf::DT_PLTREL, tags.0.0 as u64)];
        for (tag, wanted) in sizes {
            if find(tag).is_some_and(|found| found != wanted) {
                return Err(Error::invalid_argument(format!(
                    "ELF dynamic entry {:#x} is {}, not {wanted}",
                    tag.0,
                    value(tag)
                )));
            }
        }
        let present = [tags.0, tags.1, tags.2].map(|tag| find(tag).is_some());
        if present.contains(&true) && present.contains(&false) || value(tags.3) > value(tags.1) / entry {
            return Err(Error::invalid_argument("ELF relocation table has an invalid address, size or count"));
        }
        self.check_relocations(table(tags.0, tags.1), value(tags.3), symbols)?;
        self.check_relocations(table(elf::DT_JMPREL, elf::DT_PLTRELSZ), 0, symbols)?;
        let count = self.check_hash(value(elf::DT_HASH), value(elf::DT_GNU_HASH), symbols)?;
        if find(elf::DT_VERSYM).is_some() {
            self.table::<u8>(
                Table { address: value(elf::DT_VERSYM), size: count.saturating_mul(2) },
                "table of versions",
            )?;
        }
        for (tag, layout) in [(elf::DT_VERNEED, &VERSIONS_NEEDED), (elf::DT_VERDEF, &VERSIONS_DEFINED)] {
            if find(tag).is_some() {
                self.check_versions(value(tag), layout, symbols)?;
            }
        }
        Ok(())
    }

    /// Checks that a symbol lies in the file, with its name and its target in range.
    fn symbol(&self, symbols: Symbols, index: u64) -> Result<()> {
        let size = size_of::<Elf::Sym>() as u64;
        let address = index.checked_mul(size).and_then(|offset| symbols.address.checked_add(offset));
        let address = address.ok_or_else(|| outside("symbol", index, size))?;
        let symbol: &[Elf::Sym] = self.table(Table { address, size }, "symbol")?;
        let Some(symbol) = symbol.first() else { return Err(outside("symbol", address, size)) };
        if u64::from(symbol.st_name(self.endian)) >= symbols.strings {
            return Err(Error::invalid_argument(format!("ELF symbol {index} has a name outside of the string table")));
        }
        let flags = match symbol.st_type() {
            elf::STT_FUNC | elf::STT_GNU_IFUNC => elf::PF_X.0,
            elf::STT_TLS => return Ok(()),
            _ => 0,
        };
        let value: u64 = symbol.st_value(self.endian).into();
        let is_elsewhere = matches!(symbol.st_shndx(self.endian), elf::SHN_UNDEF | elf::SHN_ABS);
        if !is_elsewhere && !self.is_mapped(value, 0, flags) {
            return Err(outside("symbol", value, 0));
        }
        Ok(())
    }

    /// Checks relocations; the first `relative` ones must only add the load address.
    fn check_relocations(&self, table: Table, relative: u64, symbols: Symbols) -> Result<()> {
        const WHAT: &str = "relocation table";
        if table.size == 0 {
            return Ok(());
        }
        let check = |index: u64, offset: u64, kind: RelocationType, addend: Option<u64>, symbol: u32| {
            let word = size_of::<Elf::Word>() as u64;
            let adds_base = matches!((self.machine.relocation)(kind), Some(Relocation::Write(_, Value::Base)));
            if !self.is_mapped(offset, word, elf::PF_W.0) {
                return Err(outside("relocation's target", offset, word));
            }
            if index < relative && !adds_base {
                return Err(Error::invalid_argument(format!(
                    "ELF relocation {index} is not relative although the table counts it as such"
                )));
            }
            match addend.filter(|_| adds_base) {
                Some(addend) if !self.is_mapped(addend, 0, 0) => Err(outside("relocation's value", addend, 0)),
                _ => self.symbol(symbols, u64::from(symbol)),
            }
        };
        let mut indices = 0u64..;
        let mut next = || indices.next().unwrap_or(0);
        match self.machine.addend {
            Addend::Explicit => {
                let entries: &[Elf::Rela] = self.table(table, WHAT)?;
                entries.iter().try_for_each(|entry| {
                    let addend: i64 = entry.r_addend(self.endian).into();
                    let kind = RelocationType(entry.r_type(self.endian, false).0);
                    check(
                        next(),
                        entry.r_offset(self.endian).into(),
                        kind,
                        Some(addend as u64),
                        entry.r_sym(self.endian, false),
                    )
                })
            }
            Addend::InPlace => {
                let entries: &[Elf::Rel] = self.table(table, WHAT)?;
                entries.iter().try_for_each(|entry| {
                    check(
                        next(),
                        entry.r_offset(self.endian).into(),
                        entry.r_type(self.endian),
                        None,
                        entry.r_sym(self.endian),
                    )
                })
            }
        }
    }

    /// Checks the lists of symbol versions, which the linker follows unchecked.
    fn check_versions(&self, address: u64, layout: &VersionLayout, symbols: Symbols) -> Result<()> {
        let damaged = || Error::invalid_argument("ELF version lists are cyclic or contain invalid names");
        let mut left = self.data.len() / VERSION_WORD as usize;
        let mut word = |at: u64, index: u64| -> Result<u64> {
            left = left.checked_sub(1).ok_or_else(damaged)?;
            let address = at.checked_add(index * VERSION_WORD).ok_or_else(damaged)?;
            let words: &[object::U32<LittleEndian>] = self.table(Table { address, size: VERSION_WORD }, "version")?;
            words.first().map(|word| u64::from(word.get(self.endian))).ok_or_else(damaged)
        };
        let is_name = |offset: u64| if offset < symbols.strings { Ok(()) } else { Err(damaged()) };
        let mut entry = address;
        loop {
            if let Some(file) = layout.file {
                is_name(word(entry, file)?)?;
            }
            let mut version = entry.saturating_add(word(entry, layout.first)?);
            loop {
                is_name(word(version, layout.name)?)?;
                match word(version, layout.next_version)? {
                    0 => break,
                    next => version = version.saturating_add(next),
                }
            }
            match word(entry, layout.next)? {
                0 => return Ok(()),
                next => entry = entry.saturating_add(next),
            }
        }
    }

    /// Checks the divisors and tables of the linker's symbol search, and returns the number of symbols.
    fn check_hash(&self, hash: u64, gnu_hash: u64, symbols: Symbols) -> Result<u64> {
        const WHAT: &str = "hash table";
        let words = |address: u64, count: u64| -> Result<&'data [object::U32<LittleEndian>]> {
            self.table(Table { address, size: count.saturating_mul(4) }, WHAT)
        };
        let numbers = |address, count| -> Result<[u64; 4]> {
            let words = words(address, count)?;
            Ok(core::array::from_fn(|index| words.get(index).map_or(0, |word| u64::from(word.get(self.endian)))))
        };
        let damaged = || Error::invalid_argument("ELF hash table has no buckets, or endless chains");
        if gnu_hash == 0 && hash == 0 {
            return Err(Error::invalid_argument("ELF file has no hash table of symbols"));
        }
        let mut count = 0;
        if hash != 0 {
            let [buckets, chains, ..] = numbers(hash, 2)?;
            let entries = words(hash, 2 + buckets + chains)?;
            let is_damaged = entries.iter().skip(2).any(|entry| u64::from(entry.get(self.endian)) >= chains);
            if buckets == 0 || chains == 0 || is_damaged {
                return Err(damaged());
            }
            (0..chains).try_for_each(|index| self.symbol(symbols, index))?;
            count = chains;
        }
        if gnu_hash != 0 {
            let [buckets, first, bloom, _] = numbers(gnu_hash, 4)?;
            if buckets == 0 || !bloom.is_power_of_two() {
                return Err(damaged());
            }
            let filter = 16 + bloom * size_of::<Elf::Word>() as u64;
            self.table::<u8>(Table { address: gnu_hash, size: filter + buckets * 4 }, WHAT)?;
            let start = gnu_hash.saturating_add(filter);
            let heads = || words(start, buckets).map(|heads| heads.iter().map(|head| u64::from(head.get(self.endian))));
            // Chains are disjoint.
            let mut left = self.data.len() / 4;
            for head in heads()?.filter(|head| *head != 0) {
                let chain = start.saturating_add(buckets * 4);
                let mut index = head;
                loop {
                    let position = index.checked_sub(first).ok_or_else(damaged)?;
                    let word =
                        words(chain.saturating_add(position * 4), 1)?.first().map_or(1, |word| word.get(self.endian));
                    self.symbol(symbols, index)?;
                    count = count.max(index + 1);
                    if word & 1 == 1 {
                        break;
                    }
                    left = left.checked_sub(1).ok_or_else(damaged)?;
                    index += 1;
                }
            }
        }
        Ok(count)
    }
}

/// Bytes of the words in version lists.
const VERSION_WORD: u64 = 4;

/// The word offsets of the fields in a version list's entries.
#[derive(Debug)]
struct VersionLayout {
    /// The name of the library, if there is one.
    file: Option<u64>,
    /// Distance to the first version.
    first: u64,
    /// Distance to the next entry, or zero.
    next: u64,
    /// Of a version: its name, and the distance to the next one or zero.
    name: u64,
    next_version: u64,
}

/// As in `Elf_Verneed` and `Elf_Vernaux`.
const VERSIONS_NEEDED: VersionLayout = VersionLayout { file: Some(1), first: 2, next: 3, name: 2, next_version: 3 };
/// As in `Elf_Verdef` and `Elf_Verdaux`.
const VERSIONS_DEFINED: VersionLayout = VersionLayout { file: None, first: 3, next: 4, name: 0, next_version: 1 };

/// The symbol table's address, and the size of the strings that it refers to.
#[derive(Clone, Copy, Debug)]
struct Symbols {
    address: u64,
    strings: u64,
}
