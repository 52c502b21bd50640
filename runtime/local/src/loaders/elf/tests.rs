//! Tests with handwritten ELF files: every relocation of every architecture, symbols, initialisers, page protection.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use object::elf;

use super::arch::Addend;
use super::*;
use crate::StatusCode;

const BASE: u64 = 0x7654_3000;
const SYMBOL_VALUE: u64 = 0x1010;
const PLACE: u64 = 0x2010;
const SYMBOL: &str = "query";

/// An ELF whose addresses are its file offsets: tables in a read-only segment at 0, code at 0x1000, data at 0x2000.
struct File {
    machine: &'static Machine,
    /// (name, value, binding, type, section), after the reserved one and `query`, which is symbol 1.
    symbols: Vec<(&'static str, u64, u8, u8, u16)>,
    relocations: Vec<(u64, u32, u32, i64)>,
    plt_relocations: Vec<(u64, u32, u32, i64)>,
    packed: Vec<u64>,
    dynamic: Vec<(i64, u64)>,
    /// Words of the data segment.
    words: BTreeMap<u64, u64>,
    code: Vec<u8>,
    gnu_hash: bool,
}

const SYMBOLS_AT: u64 = 0x200;
const HASH_AT: u64 = 0x400;
const STRINGS_AT: u64 = 0x500;
const RELOCATIONS_AT: u64 = 0x600;
const PLT_RELOCATIONS_AT: u64 = 0x900;
const PACKED_AT: u64 = 0xA00;
const CODE_AT: u64 = 0x1000;
const DATA_AT: u64 = 0x2000;
const DYNAMIC_AT: u64 = 0x2400;
const END: u64 = 0x2800;

impl File {
    fn new(machine: &'static Machine) -> File {
        File {
            machine,
            symbols: Vec::new(),
            relocations: Vec::new(),
            plt_relocations: Vec::new(),
            packed: Vec::new(),
            dynamic: Vec::new(),
            words: BTreeMap::new(),
            code: vec![0xCC; 0x100],
            gnu_hash: false,
        }
    }

    fn word(&self) -> usize {
        if self.machine.class == Class::Elf64 { 8 } else { 4 }
    }

    /// Number of one word, little-endian.
    fn wide(&self, value: u64) -> Vec<u8> {
        value.to_le_bytes()[..self.word()].to_vec()
    }

    fn relocation(&self, &(place, kind, symbol, addend): &(u64, u32, u32, i64)) -> Vec<u8> {
        let info = match self.machine.class {
            Class::Elf64 => u64::from(symbol) << 32 | u64::from(kind),
            Class::Elf32 => u64::from(symbol) << 8 | u64::from(kind),
        };
        let mut bytes = [self.wide(place), self.wide(info)].concat();
        if self.machine.addend == Addend::Explicit {
            bytes.extend(self.wide(addend as u64));
        }
        bytes
    }

    fn symbol(&self, name: u64, value: u64, info: u8, section: u16) -> Vec<u8> {
        let (name, section) = ((name as u32).to_le_bytes(), section.to_le_bytes());
        match self.machine.class {
            Class::Elf64 => [&name[..], &[info, 0], &section[..], &value.to_le_bytes(), &0u64.to_le_bytes()].concat(),
            Class::Elf32 => {
                [&name[..], &(value as u32).to_le_bytes(), &0u32.to_le_bytes(), &[info, 0], &section[..]].concat()
            }
        }
    }

    fn segment(&self, kind: u32, flags: u32, start: u64, end: u64) -> Vec<u8> {
        let size = self.wide(end - start);
        let (kind, flags, start, alignment) =
            (kind.to_le_bytes(), flags.to_le_bytes(), self.wide(start), self.wide(0x1000));
        match self.machine.class {
            Class::Elf64 => [&kind[..], &flags, &start, &start, &start, &size, &size, &alignment].concat(),
            Class::Elf32 => [&kind[..], &start, &start, &start, &size, &size, &flags, &alignment].concat(),
        }
    }

    fn header(&self) -> Vec<u8> {
        let (class, header_size, segment_size) =
            if self.machine.class == Class::Elf64 { (2, 64u16, 56u16) } else { (1, 52, 32) };
        let mut bytes = vec![0x7F, b'E', b'L', b'F', class, 1, 1];
        bytes.resize(16, 0);
        bytes.extend(3u16.to_le_bytes());
        bytes.extend(self.machine.id.0.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        // Entry, program headers, section headers, flags, sizes.
        bytes.extend([self.wide(0), self.wide(header_size.into()), self.wide(0), vec![0; 4]].concat());
        for value in [header_size, segment_size, 5, 0, 0, 0] {
            bytes.extend(value.to_le_bytes());
        }
        let relro = DATA_AT + 0x400;
        bytes.extend(self.segment(1, 4, 0, 0xF00));
        bytes.extend(self.segment(1, 5, CODE_AT, CODE_AT + self.code.len() as u64));
        bytes.extend(self.segment(1, 6, DATA_AT, END));
        bytes.extend(self.segment(2, 6, DYNAMIC_AT, END));
        bytes.extend(self.segment(0x6474_E552, 4, relro, END));
        bytes
    }

    fn build(&self) -> Vec<u8> {
        let mut file = vec![0; END as usize];
        let mut put = |at: u64, bytes: &[u8]| file[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(0, &self.header());
        let mut strings = vec![0];
        let mut symbols = self.symbol(0, 0, 0, 0);
        let all = [(SYMBOL, SYMBOL_VALUE, elf::STB_GLOBAL.0, elf::STT_FUNC.0, 1)];
        for &(name, value, binding, kind, section) in all.iter().chain(&self.symbols) {
            symbols.extend(self.symbol(strings.len() as u64, value, binding << 4 | kind, section));
            strings.extend(name.as_bytes());
            strings.push(0);
        }
        put(SYMBOLS_AT, &symbols);
        put(STRINGS_AT, &strings);
        let count = self.symbols.len() as u32 + 2;
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        if self.gnu_hash {
            // One bucket, first hashed symbol, one word of Bloom filter, shift; filter; bucket; chains.
            let table = [words(&[1, 1, 1, 0]), self.wide(u64::MAX), words(&[1]), words(&vec![2; count as usize - 2])];
            put(HASH_AT, &[table.concat(), words(&[3])].concat());
        } else {
            put(HASH_AT, &words(&[1, count]));
        }
        let table = |entries: &[(u64, u32, u32, i64)]| -> Vec<u8> {
            entries.iter().flat_map(|entry| self.relocation(entry)).collect()
        };
        let (relocations, plt_relocations) = (table(&self.relocations), table(&self.plt_relocations));
        let packed: Vec<u8> = self.packed.iter().flat_map(|word| self.wide(*word)).collect();
        put(RELOCATIONS_AT, &relocations);
        put(PLT_RELOCATIONS_AT, &plt_relocations);
        put(PACKED_AT, &packed);
        put(CODE_AT, &self.code);
        self.words.iter().for_each(|(at, value)| put(*at, &self.wide(*value)));
        let (address, size) = match self.machine.addend {
            Addend::Explicit => (elf::DT_RELA, elf::DT_RELASZ),
            Addend::InPlace => (elf::DT_REL, elf::DT_RELSZ),
        };
        let mut dynamic = vec![
            (elf::DT_SYMTAB.0, SYMBOLS_AT),
            (elf::DT_STRTAB.0, STRINGS_AT),
            (elf::DT_STRSZ.0, strings.len() as u64),
            (if self.gnu_hash { elf::DT_GNU_HASH.0 } else { elf::DT_HASH.0 }, HASH_AT),
            (address.0, RELOCATIONS_AT),
            (size.0, relocations.len() as u64),
            (elf::DT_JMPREL.0, PLT_RELOCATIONS_AT),
            (elf::DT_PLTRELSZ.0, plt_relocations.len() as u64),
            (elf::DT_RELR.0, PACKED_AT),
            (elf::DT_RELRSZ.0, packed.len() as u64),
        ];
        dynamic.extend(&self.dynamic);
        let dynamic: Vec<u8> =
            dynamic.iter().flat_map(|(tag, value)| [self.wide(*tag as u64), self.wide(*value)].concat()).collect();
        put(DYNAMIC_AT, &dynamic);
        file
    }

    fn relocate(&self) -> Result<RelocatedImage> {
        RelocatedImage::new(&self.build(), self.machine, BASE, SYMBOL)
    }

    /// Returns the word of `size` bytes at an address after relocation.
    fn relocated(&self, at: u64, size: usize) -> Result<u64> {
        let image = self.relocate()?;
        let bytes = &image.bytes[at as usize..][..size];
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn error(&self) -> StatusCode {
        self.relocate().unwrap_err().code()
    }
}

fn machine(name: &str) -> &'static Machine {
    Machine::ALL.into_iter().find(|machine| machine.name == name).unwrap()
}

const S: u64 = BASE + SYMBOL_VALUE;
const P: u64 = BASE + PLACE;
const A: u64 = 0x24;

#[test]
fn every_kind_of_relocation() {
    // (architecture, kind as the ABI documents number it, bytes written, value)
    let cases: [(&str, u32, usize, u64); 35] = [
        ("x86_64", 0, 8, A),
        ("x86_64", 1, 8, S + A),
        ("x86_64", 2, 4, (S + A).wrapping_sub(P)),
        ("x86_64", 6, 8, S),
        ("x86_64", 7, 8, S),
        ("x86_64", 8, 8, BASE + A),
        ("x86_64", 10, 4, S + A),
        ("x86_64", 11, 4, S + A),
        ("x86_64", 24, 8, (S + A).wrapping_sub(P)),
        ("arm_64", 0, 8, A),
        ("arm_64", 257, 8, S + A),
        ("arm_64", 258, 4, S + A),
        ("arm_64", 260, 8, (S + A).wrapping_sub(P)),
        ("arm_64", 261, 4, (S + A).wrapping_sub(P)),
        ("arm_64", 1025, 8, S + A),
        ("arm_64", 1026, 8, S + A),
        ("arm_64", 1027, 8, BASE + A),
        ("riscv_64", 1, 4, S + A),
        ("riscv_64", 2, 8, S + A),
        ("riscv_64", 3, 8, BASE + A),
        ("riscv_64", 5, 8, S),
        ("riscv_32", 1, 4, S + A),
        ("riscv_32", 3, 4, BASE + A),
        ("riscv_32", 5, 4, S),
        ("arm_32", 2, 4, S + A),
        ("arm_32", 3, 4, (S + A).wrapping_sub(P)),
        ("arm_32", 21, 4, S),
        ("arm_32", 22, 4, S),
        ("arm_32", 23, 4, BASE + A),
        ("x86_32", 0, 4, A),
        ("x86_32", 1, 4, S + A),
        ("x86_32", 2, 4, (S + A).wrapping_sub(P)),
        ("x86_32", 6, 4, S),
        ("x86_32", 7, 4, S),
        ("x86_32", 8, 4, BASE + A),
    ];
    for (name, kind, size, value) in cases {
        let mut file = File::new(machine(name));
        // REL formats store the addend in the word; for RELA the word's value must not matter, except for NONE.
        let in_place = file.machine.addend == Addend::InPlace || kind == 0;
        let neighbour = 0x1122_3344;
        file.words.insert(PLACE, if in_place { A } else { 0x5566_7788 });
        file.words.insert(PLACE + 8, neighbour);
        for plt in [false, true] {
            file.relocations.clear();
            file.plt_relocations.clear();
            if plt { &mut file.plt_relocations } else { &mut file.relocations }.push((PLACE, kind, 1, A as i64));
            let value = value & (u64::MAX >> (64 - 8 * size));
            assert_eq!(file.relocated(PLACE, size).unwrap(), value, "{name} {kind} plt: {plt}");
            assert_eq!(file.relocated(PLACE + 8, 4).unwrap(), neighbour, "{name} {kind}: wrote too much");
            assert_eq!(file.relocate().unwrap().symbol, S);
        }
    }
}

#[test]
fn invalid_relocations_are_rejected() {
    // Copies, thread-local storage, functions to run for an address; kinds that do not exist.
    for (name, kinds) in [
        ("x86_64", &[5, 16, 18, 37, 200][..]),
        ("arm_64", &[1024, 1029, 1030, 1032, 9999]),
        ("riscv_64", &[4, 7, 9, 58, 200]),
        ("riscv_32", &[2, 4, 6, 58, 200]),
        ("arm_32", &[13, 17, 20, 160, 255]),
        ("x86_32", &[5, 14, 35, 42, 255]),
    ] {
        for &kind in kinds {
            let mut file = File::new(machine(name));
            file.relocations.push((PLACE, kind, 1, 0));
            assert_eq!(file.error(), StatusCode::Unimplemented, "{name} {kind}");
        }
    }
    for machine in Machine::ALL {
        let base = if machine.name == "arm_64" { 1027 } else { 8 };
        let kind = match machine.name {
            "riscv_64" | "riscv_32" => 3,
            "arm_32" => 23,
            _ => base,
        };
        // Outside of the image, at its very end, and wrapping around.
        for place in [END + 0x1000, 0x3000 - 2, u64::MAX - 1] {
            let mut file = File::new(machine);
            file.relocations.push((place, kind, 0, 0));
            assert_eq!(file.error(), StatusCode::InvalidArgument, "{} {place:#x}", machine.name);
        }
    }
    // Values that exceed 32 bits; a symbol that does not exist.
    for (kind, symbol, addend) in [(10, 1, -0x1_0000_0000), (11, 1, 0x7FFF_FFFF), (2, 1, 0x8000_2000), (1, 9, 0)] {
        let mut file = File::new(machine("x86_64"));
        file.relocations.push((PLACE, kind, symbol, addend));
        assert_eq!(file.error(), StatusCode::InvalidArgument, "{kind}");
    }
}

#[test]
fn packed_relocations() {
    for machine in Machine::ALL {
        let mut file = File::new(machine);
        let word = file.word() as u64;
        // An address; then bits for the words after it: the first, the third, and the last of the bitmap.
        let last = word * 8 - 1;
        file.packed = vec![DATA_AT, 1 | 1 << 1 | 1 << 3 | 1 << last, 1 | 1 << 2];
        let relocated = [0, 1, 3, last, last + 2];
        file.words.extend((0..=last + 3).map(|index| (DATA_AT + index * word, index)));
        for index in 0..=last + 3 {
            let expected = if relocated.contains(&index) { BASE + index } else { index };
            let at = DATA_AT + index * word;
            assert_eq!(file.relocated(at, word as usize).unwrap(), expected, "{} {index}", machine.name);
        }
        file.packed.push(END + 0x1000);
        assert_eq!(file.error(), StatusCode::InvalidArgument);
    }
}

#[test]
fn symbols() {
    for (machine, gnu_hash) in Machine::ALL.into_iter().flat_map(|machine| [(machine, false), (machine, true)]) {
        let absolute = match machine.name {
            "x86_64" | "x86_32" => 1,
            "arm_64" => 257,
            "riscv_64" => 2,
            "riscv_32" => 1,
            _ => 2,
        };
        let with = |symbol: (&'static str, u64, u8, u8, u16)| {
            let mut file = File::new(machine);
            file.gnu_hash = gnu_hash;
            file.symbols = vec![("other", 0x1020, 1, 0, 1), symbol];
            file.relocations.push((PLACE, absolute, 3, 0));
            file
        };
        let word = File::new(machine).word();
        let (weak, global) = (elf::STB_WEAK.0, elf::STB_GLOBAL.0);
        // A local or weak definition, an undefined weak symbol, an absolute one.
        assert_eq!(with(("s", 0x1030, 0, 0, 1)).relocated(PLACE, word).unwrap(), BASE + 0x1030);
        assert_eq!(with(("s", 0x1030, weak, 0, 1)).relocated(PLACE, word).unwrap(), BASE + 0x1030);
        assert_eq!(with(("s", 0, weak, 0, 0)).relocated(PLACE, word).unwrap(), 0);
        assert_eq!(with(("s", 0x1234, global, 0, elf::SHN_ABS.0)).relocated(PLACE, word).unwrap(), 0x1234);
        let error = with(("fmaf", 0, global, 0, 0)).relocate().unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound);
        assert!(error.message().contains("`fmaf`"), "{error}");
        assert_eq!(with(("s", 8, global, elf::STT_TLS.0, 1)).error(), StatusCode::Unimplemented);
        assert_eq!(with(("s", 8, global, elf::STT_GNU_IFUNC.0, 1)).error(), StatusCode::Unimplemented);
        // The last symbol is found, too, and names with a common prefix are distinguished.
        let found = |name| {
            let file = with(("query_two", 0x1050, global, 2, 1)).build();
            RelocatedImage::new(&file, machine, BASE, name).map(|image| image.symbol).map_err(|error| error.code())
        };
        assert_eq!(found("query_two"), Ok(BASE + 0x1050));
        assert_eq!(found("query"), Ok(S));
        assert_eq!(found("quer"), Err(StatusCode::NotFound));
        // A function must be code.
        let data = with(("data", PLACE, global, 0, 1)).build();
        let error = RelocatedImage::new(&data, machine, BASE, "data").unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument);
    }
}

#[test]
fn damaged_dynamic_tables() {
    let x86_64 = machine("x86_64");
    for (tag, value) in [
        (elf::DT_RELASZ, 0x10_0000),
        (elf::DT_RELASZ, u64::MAX),
        (elf::DT_RELAENT, 23),
        (elf::DT_SYMENT, 16),
        (elf::DT_PLTREL, 17),
        (elf::DT_STRSZ, u64::MAX),
        (elf::DT_SYMTAB, u64::MAX - 8),
        (elf::DT_HASH, 0x9000),
        (elf::DT_HASH, 0),
        (elf::DT_INIT, DATA_AT),
        (elf::DT_INIT, u64::MAX),
        (elf::DT_INIT_ARRAYSZ, 0x10_0000),
    ] {
        let mut file = File::new(x86_64);
        file.dynamic.push((tag.0, value));
        assert_eq!(file.error(), StatusCode::InvalidArgument, "{tag:?} {value:#x}");
    }
    for (machine, tag) in [("x86_64", elf::DT_REL), ("x86_32", elf::DT_RELA)] {
        let mut file = File::new(self::machine(machine));
        file.dynamic.push((tag.0, RELOCATIONS_AT));
        assert_eq!(file.error(), StatusCode::Unimplemented);
    }
    // Hash tables with exaggerated counts, and a chain without an end.
    let mut file = File::new(x86_64);
    file.gnu_hash = true;
    file.dynamic.push((elf::DT_GNU_HASH.0, END - 0x100));
    file.words.extend([(END - 0x100, 1 | 1 << 32), (END - 0xF0, 1)]);
    assert_eq!(file.error(), StatusCode::InvalidArgument);
    // With an end, the chain counts symbols of zeros, which are undefined.
    file.words.insert(END - 0x88, 1);
    assert_eq!(file.error(), StatusCode::NotFound);
    let mut built = File::new(x86_64).build();
    built[HASH_AT as usize + 4..][..4].copy_from_slice(&[0xFF; 4]);
    assert!(RelocatedImage::new(&built, x86_64, BASE, SYMBOL).is_err());
}

#[test]
fn initialisers_in_order() {
    let (relative, word) = (8, 8);
    let mut file = File::new(machine("x86_64"));
    let array = DATA_AT + 0x40;
    file.dynamic.push((elf::DT_INIT_ARRAY.0, array));
    file.dynamic.push((elf::DT_INIT_ARRAYSZ.0, 4 * word));
    file.dynamic.push((elf::DT_INIT.0, 0x1080));
    file.relocations.push((array, relative, 0, 0x1040));
    file.words.insert(array + 2 * word, u64::MAX);
    file.relocations.push((array + 3 * word, relative, 0, 0x1020));
    let built = file.build();
    let layout = parse(&built, file.machine, 4096).unwrap();
    let mut bytes = vec![0; (layout.span.end - layout.span.start) as usize];
    let linked = link(&layout, file.machine, &mut bytes, BASE, SYMBOL).unwrap();
    assert_eq!(linked.initialisers, [BASE + 0x1080, BASE + 0x1040, BASE + 0x1020]);
    // An initialiser outside of the code.
    file.relocations.push((array + word, relative, 0, 0x2000));
    assert_eq!(file.error(), StatusCode::InvalidArgument);
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod host {
    use super::*;

    /// Returns a function at `at` that sets the number at 0x2008 to ten times itself plus `digit`.
    fn append_digit(at: u64, digit: u8) -> Vec<u8> {
        let offset = |end: u64| ((0x2008 - (at + end)) as u32).to_le_bytes();
        // imul eax, [rip + number], 10; add eax, digit; mov [rip + number], eax; ret
        let mut code = [&[0x6B, 0x05][..], &offset(7), &[10]].concat();
        code.extend([0x83, 0xC0, digit, 0x89, 0x05]);
        code.extend(offset(16));
        code.push(0xC3);
        code
    }

    fn file_with_initialisers() -> File {
        let mut file = File::new(machine("x86_64"));
        for (at, digit) in [(0x1040, 1), (0x1060, 2), (0x1080, 3)] {
            let code = append_digit(at, digit);
            file.code[(at - CODE_AT) as usize..][..code.len()].copy_from_slice(&code);
        }
        // The exported function returns the number: mov eax, [rip + number]; ret.
        let offset = (0x2008 - (SYMBOL_VALUE + 6)) as u32;
        let query = [&[0x8B, 0x05][..], &offset.to_le_bytes(), &[0xC3]].concat();
        file.code[(SYMBOL_VALUE - CODE_AT) as usize..][..query.len()].copy_from_slice(&query);
        let array = DATA_AT + 0x40;
        file.dynamic.extend([(elf::DT_INIT.0, 0x1080), (elf::DT_INIT_ARRAY.0, array), (elf::DT_INIT_ARRAYSZ.0, 24)]);
        file.relocations.extend([(array, 8, 0, 0x1040), (array + 16, 8, 0, 0x1060)]);
        file
    }

    #[test]
    fn initialisers_run_once_in_order() {
        let image = ElfImage::load(&file_with_initialisers().build(), machine("x86_64"), SYMBOL).unwrap();
        // SAFETY: the code above: a function without arguments that returns a number.
        let function = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(image.symbol().as_ptr()) };
        assert_eq!(function(), 312);
        assert_eq!(function(), 312);
    }

    /// Returns the permissions of an address's page in `/proc/self/maps`; `None` if it is not mapped.
    fn permissions(address: usize) -> Option<alloc::string::String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(start)..number(end)).contains(&address).then(|| rest[..3].into())
        })
    }

    #[test]
    fn pages_are_protected() {
        let mut built = file_with_initialisers().build();
        let access = |built: &[u8]| {
            let image = ElfImage::load(built, machine("x86_64"), SYMBOL).unwrap();
            let base = image.symbol().as_ptr().addr() - SYMBOL_VALUE as usize;
            [0, CODE_AT, DATA_AT].map(|at| permissions(base + at as usize).unwrap())
        };
        // The read-only-after-relocation range ends the data segment, but does not fill its page.
        assert_eq!(access(&built), ["r--", "r-x", "rw-"]);
        // It fills the segment; initialisers could not write to it, so there are none.
        built[64 + 4 * 56 + 16..][..8].copy_from_slice(&DATA_AT.to_le_bytes());
        built[64 + 4 * 56 + 40..][..8].copy_from_slice(&(END - DATA_AT).to_le_bytes());
        built[DYNAMIC_AT as usize + 4 * 16..][..8].fill(0);
        assert_eq!(access(&built), ["r--", "r-x", "r--"]);

        // A segment with an alignment beyond a page leaves inaccessible gaps.
        let mut spread = file_with_initialisers().build();
        let data_header = 64 + 2 * 56;
        spread[data_header + 16..][..8].copy_from_slice(&0x2_2000u64.to_le_bytes());
        spread[data_header + 48..][..8].copy_from_slice(&0x2_0000u64.to_le_bytes());
        let relro_header = 64 + 4 * 56;
        spread[relro_header..][..4].copy_from_slice(&[0; 4]);
        let dynamic_header = 64 + 3 * 56;
        spread[dynamic_header + 16..][..8].copy_from_slice(&0x2_2400u64.to_le_bytes());
        // No initialisers and no relocations: end the dynamic table after the hash table.
        spread[DYNAMIC_AT as usize + 4 * 16..][..8].fill(0);
        let image = ElfImage::load(&spread, machine("x86_64"), SYMBOL).unwrap();
        let base = image.symbol().as_ptr().addr() - SYMBOL_VALUE as usize;
        assert_eq!(base % 0x2_0000, 0, "the alignment of 0x20000");
        assert_eq!(permissions(base + 0x5000).as_deref(), Some("---"));
        assert_eq!(permissions(base + 0x2_2000).as_deref(), Some("rw-"));
    }
}

#[test]
fn invalid_layouts_are_rejected() {
    // (offset into the data segment's program header, value, error)
    let cases: [(usize, u64, StatusCode); 9] = [
        (8, u64::MAX, StatusCode::InvalidArgument),          // offset in the file
        (8, 0x4000, StatusCode::InvalidArgument),            //
        (16, 0x1800, StatusCode::InvalidArgument),           // address on the page of the code
        (16, 0x0, StatusCode::InvalidArgument),              // address out of order
        (16, u64::MAX - 0x100, StatusCode::InvalidArgument), // address that wraps
        (16, 0x8000_0000, StatusCode::ResourceExhausted),    // image of 2 GB
        (40, 0x10, StatusCode::InvalidArgument),             // less memory than contents
        (40, u64::MAX, StatusCode::InvalidArgument),         // memory that wraps
        (48, 0x1001, StatusCode::InvalidArgument),           // alignment
    ];
    let x86_64 = machine("x86_64");
    for (offset, value, code) in cases {
        let mut file = File::new(x86_64).build();
        file[64 + 2 * 56 + offset..][..8].copy_from_slice(&value.to_le_bytes());
        let error = RelocatedImage::new(&file, x86_64, BASE, SYMBOL).unwrap_err();
        assert_eq!(error.code(), code, "{offset} {value:#x}: {error}");
    }
    for (kind, code) in [(7u32, StatusCode::Unimplemented), (0, StatusCode::InvalidArgument)] {
        // Thread-local storage instead of the dynamic table; no dynamic table.
        let mut file = File::new(x86_64).build();
        file[64 + 3 * 56..][..4].copy_from_slice(&kind.to_le_bytes());
        assert_eq!(RelocatedImage::new(&file, x86_64, BASE, SYMBOL).unwrap_err().code(), code);
    }
}
