//! Description of a kernel library without running its code.
//!
//! A library returns its description from a function, which only running it could call. But the description is constant
//! data in a known layout (`iree/hal/local/executable_library.h`), so it is found in the relocated image. A base
//! address that rarely occurs as a number distinguishes pointers from other data.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Class, Machine, RelocatedImage};
use crate::Result;
use crate::library::abi::{EXPORT_NAME, VERSION_0_5, VERSION_0_6};

/// Most names that are read from a table.
const NAME_LIMIT: u64 = 1 << 16;
/// Most bytes of a name.
const LENGTH_LIMIT: usize = 1 << 12;

/// The description of a kernel library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFacts {
    /// The library's name.
    pub name: String,
    /// The minor version of the executable library ABI, whose major version is 0.
    pub abi: u32,
    /// Names of the imported functions, in order. A leading question mark marks an optional one.
    pub imports: Vec<String>,
    /// Names of the kernels, in order; empty if the library has no names.
    pub kernels: Vec<String>,
}

impl LibraryFacts {
    /// Reads an ELF file for any machine; None if it contains no description.
    ///
    /// # Errors
    /// Those of [`RelocatedImage::new`].
    pub fn read(data: &[u8], machine: &Machine) -> Result<Option<LibraryFacts>> {
        // Base addresses that rarely occur as numbers in a program.
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

/// Reads an image by address.
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

    /// Returns the pointer in a field at a number of words after an address.
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

    /// Reads the description at an address: a pointer to the header, the imports, the kernels.
    fn library(&self, place: u64) -> Option<LibraryFacts> {
        let header = self.pointer(place, 0)?;
        // Version, name, features, sanitizer.
        let version = u32::try_from(self.number(header, 4)?).ok()?;
        let name = self.name(self.pointer(header, 1)?)?;
        let count = |words: u64| self.number(place.checked_add(words * self.word)?, 4);
        let (import_count, kernel_count) = (count(1)?, count(3)?);
        // The fields between the kernels' functions and their names depend on the version.
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
