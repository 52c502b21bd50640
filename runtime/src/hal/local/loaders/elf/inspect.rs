//! What a library of kernels says of itself, without running any of its code.
//!
//! Libraries hand out their description by a function, which only running them would call. But the description is a constant
//! among the data, and its form is known (`iree/hal/local/executable_library.h`): so it is looked for in the relocated image,
//! whose pointers are told from other numbers by the address that the image is given.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Class, Machine, RelocatedImage};
use crate::Result;
use crate::hal::local::library::abi::{EXPORT_NAME, VERSION_0_5, VERSION_0_6};

/// Most names that are read of a table.
const NAME_LIMIT: u64 = 1 << 16;
/// Most bytes of a name.
const LENGTH_LIMIT: usize = 1 << 12;

/// What a library of kernels says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFacts {
    /// The library's name.
    pub name: String,
    /// The minor version of the executable library ABI, whose major version is 0.
    pub abi: u32,
    /// The functions that the kernels call and that the program has to provide, in their order. A name that begins with a
    /// question mark is of one that may be missing.
    pub imports: Vec<String>,
    /// Names of the kernels, in their order; none where the library does not have them.
    pub kernels: Vec<String>,
}

impl LibraryFacts {
    /// Reads an ELF file for a machine, which need not be the host's; None where the description is not found.
    ///
    /// # Errors
    /// As [`RelocatedImage::new`].
    pub fn read(data: &[u8], machine: &Machine) -> Result<Option<LibraryFacts>> {
        // Addresses that numbers of a program rarely are.
        let (word, base) = match machine.class {
            Class::Elf32 => (4, 0x6D5A_0000),
            Class::Elf64 => (8, 0x6D5A_A5D6_0000_0000),
        };
        let image = RelocatedImage::new(data, machine, base, EXPORT_NAME)?;
        let image = Reader { bytes: &image.bytes, base, word };
        let places = (0..image.bytes.len() as u64).step_by(word as usize);
        Ok(places.filter_map(|place| image.library(base + place)).next())
    }
}

/// Reads at addresses of an image.
struct Reader<'a> {
    bytes: &'a [u8],
    base: u64,
    /// Bytes of a pointer.
    word: u64,
}

impl Reader<'_> {
    fn number(&self, address: u64, size: u64) -> Option<u64> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let bytes = self.bytes.get(start..)?.get(..size as usize)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The field of a number of words behind an address, as a pointer into the image.
    fn pointer(&self, address: u64, words: u64) -> Option<u64> {
        let value = self.number(address.checked_add(words * self.word)?, self.word)?;
        let offset = value.checked_sub(self.base)?;
        (offset < self.bytes.len() as u64).then_some(value)
    }

    fn name(&self, address: u64) -> Option<String> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let bytes = self.bytes.get(start..)?;
        let end = bytes.iter().take(LENGTH_LIMIT).position(|byte| *byte == 0)?;
        let name = core::str::from_utf8(bytes.get(..end)?).ok()?;
        (!name.is_empty() && !name.chars().any(char::is_control)).then(|| name.to_string())
    }

    fn names(&self, table: u64, count: u64) -> Option<Vec<String>> {
        if count > NAME_LIMIT {
            return None;
        }
        (0..count).map(|index| self.name(self.pointer(table, index)?)).collect()
    }

    /// The library whose description is at an address: a pointer to its header, its imports, its kernels.
    fn library(&self, place: u64) -> Option<LibraryFacts> {
        let header = self.pointer(place, 0)?;
        // Version, name, features, sanitizer.
        let version = u32::try_from(self.number(header, 4)?).ok()?;
        let name = self.name(self.pointer(header, 1)?)?;
        let count = |words: u64| self.number(place.checked_add(words * self.word)?, 4);
        let (import_count, kernel_count) = (count(1)?, count(3)?);
        // What each version has between the kernels' functions and their names.
        let names = match version {
            VERSION_0_6 => 8,
            VERSION_0_5 => 6,
            _ => return None,
        };
        self.pointer(self.pointer(place, 4)?, 0)?;
        let imports = if import_count == 0 { Vec::new() } else { self.names(self.pointer(place, 2)?, import_count)? };
        let kernels = self.pointer(place, names).and_then(|table| self.names(table, kernel_count)).unwrap_or_default();
        Some(LibraryFacts { name, abi: version, imports, kernels })
    }
}
