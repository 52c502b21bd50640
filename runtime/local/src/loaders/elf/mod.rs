//! Loading of ELF shared objects that import nothing from the platform.
//!
//! Every step is checked; only the last two depend on the host's architecture:
//!
//! 1. `fatelf`: select the member for the machine, if the file has several.
//! 2. `layout`: read the program headers; segments, span, alignment.
//! 3. `image`: copy the segments into zeroed bytes.
//! 4. `dynamic`: read the dynamic table and the symbols from the image.
//! 5. `relocate`: apply the relocations, with the rules of `arch`.
//! 6. `memory`: protect the pages; none is ever writable and executable at once.
//! 7. Run the initialisers.
//!
//! [`RelocatedImage`] stops after step 5, for any architecture, so that parsing can be tested and fuzzed on every host.
//! Parsing treats the file as hostile; its code is trusted: [`ElfImage::load`] runs it with all rights of the process.

mod arch;
mod dynamic;
mod fatelf;
mod image;
mod inspect;
mod layout;
mod memory;
mod pages;
mod relocate;
#[cfg(all(feature = "system-library", any(unix, windows)))]
mod shared_object;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
mod tests;

use alloc::format;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::fmt;
use core::ptr::NonNull;

use object::LittleEndian;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::FileHeader;

pub use arch::{Class, Machine};
pub use inspect::LibraryFacts;
pub use layout::{MAX_ALIGNMENT, MAX_IMAGE_SIZE};
#[cfg(all(feature = "system-library", any(unix, windows)))]
pub(crate) use shared_object::check_shared_object;

use crate::library::CallingConvention;
use crate::vm::array;
use crate::{Error, Result};
use dynamic::{Dynamic, Symbols};
use image::Image;
use layout::{Access, Layout};
use memory::CodeMemory;

/// The page size of images that are relocated but not loaded.
const DETACHED_PAGE_SIZE: u64 = 4096;

/// The result of linking. Addresses are those at run time.
struct Linked {
    symbol: u64,
    /// Initialisers in calling order.
    initialisers: Vec<u64>,
}

/// Reads the headers of the member for `machine`.
fn parse<'data>(data: &'data [u8], machine: &Machine, page_size: u64) -> Result<Layout<'data>> {
    let data = fatelf::select(data, machine)?;
    match machine.class {
        Class::Elf32 => Layout::parse::<FileHeader32<LittleEndian>>(data, machine, page_size),
        Class::Elf64 => Layout::parse::<FileHeader64<LittleEndian>>(data, machine, page_size),
    }
}

/// Copies segments into zeroed `bytes` for the address `base`, and relocates them.
fn link(layout: &Layout<'_>, machine: &Machine, bytes: &mut [u8], base: u64, symbol: &str) -> Result<Linked> {
    let mut image = Image::new(layout, bytes, base)?;
    match machine.class {
        Class::Elf32 => link_class::<FileHeader32<LittleEndian>>(layout, machine, &mut image, symbol),
        Class::Elf64 => link_class::<FileHeader64<LittleEndian>>(layout, machine, &mut image, symbol),
    }
}

fn link_class<Elf: FileHeader<Endian = LittleEndian>>(
    layout: &Layout<'_>,
    machine: &Machine,
    image: &mut Image<'_>,
    symbol: &str,
) -> Result<Linked> {
    let endian = LittleEndian;
    let dynamic = Dynamic::read::<Elf>(image, layout, machine, endian)?;
    let symbols = Symbols::read::<Elf>(image, layout, &dynamic, endian)?;
    relocate::relocate::<Elf>(image, &dynamic, &symbols, machine, endian)?;
    let index = symbols.find::<Elf>(image, symbol, endian)?;
    let address = symbols.address::<Elf>(image, index, endian)?;
    check_code(layout, machine, image.bias, address)?;
    let mut linked = Linked { symbol: address, initialisers: Vec::new() };
    if dynamic.init != 0 {
        linked.initialisers.push(dynamic.init.wrapping_add(image.bias));
    }
    // The entries are relocated already. Zero and minus one stand for no function.
    let word = size_of::<Elf::Word>() as u64;
    let (none, all_ones) = (0, u64::MAX >> (64 - 8 * word));
    for index in 0..dynamic.init_array.size / word {
        let entry = image.word(dynamic.init_array.address.wrapping_add(index * word), word, "table of initialisers")?;
        if entry != none && entry != all_ones {
            linked.initialisers.push(entry);
        }
    }
    linked.initialisers.iter().try_for_each(|&address| check_code(layout, machine, image.bias, address))?;
    Ok(linked)
}

/// Checks that a run-time address is in an executable segment.
fn check_code(layout: &Layout<'_>, machine: &Machine, bias: u64, address: u64) -> Result<()> {
    // On 32-bit machines addresses are taken modulo 2^32, as relocation does.
    let stated = match machine.class {
        Class::Elf32 => u64::from((address as u32).wrapping_sub(bias as u32)),
        Class::Elf64 => address.wrapping_sub(bias),
    };
    let executable = |segment: &layout::Segment<'_>| segment.access == Access::ReadExecute;
    if layout.segments.iter().any(|segment| executable(segment) && segment.addresses.contains(&stated)) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("ELF function at {stated:#x} is not in an executable segment")))
}

/// An ELF image that is relocated but not loaded, for any architecture: for inspection, tests and fuzzing.
#[derive(Clone)]
pub struct RelocatedImage {
    /// The image's bytes, with zeros between segments.
    pub bytes: Vec<u8>,
    /// The file's address of the first byte.
    pub start: u64,
    /// The address of the requested symbol, with the base applied.
    pub symbol: u64,
}

impl RelocatedImage {
    /// Relocates the ELF for `machine` as if its first page were at address `base`, and finds `symbol`.
    ///
    /// # Errors
    /// Those of [`ElfImage::load`], except for the system's.
    pub fn new(data: &[u8], machine: &Machine, base: u64, symbol: &str) -> Result<RelocatedImage> {
        let layout = parse(data, machine, DETACHED_PAGE_SIZE)?;
        // The span is at most `MAX_IMAGE_SIZE`, which fits.
        let mut bytes = array::filled((layout.span.end - layout.span.start) as usize, 0)?;
        let linked = link(&layout, machine, &mut bytes, base, symbol)?;
        Ok(RelocatedImage { bytes, start: layout.span.start, symbol: linked.symbol })
    }
}

impl fmt::Debug for RelocatedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, start, symbol } = self;
        write!(f, "RelocatedImage({} bytes at {start:#x}, symbol at {symbol:#x})", bytes.len())
    }
}

/// An ELF image that is loaded into memory, relocated, protected and initialised. Dropping it unmaps the memory.
#[derive(Debug)]
pub struct ElfImage {
    symbol: NonNull<c_void>,
    _memory: CodeMemory,
}

// SAFETY: the symbol is the address of code in the memory that the image owns.
unsafe impl Send for ElfImage {}
// SAFETY: as above.
unsafe impl Sync for ElfImage {}

impl ElfImage {
    /// Loads the ELF, or the member of a FatELF file, for the host, runs its initialisers and finds its one export.
    ///
    /// The code is trusted. The file's structure is not: a damaged file is an error before any of its code runs.
    ///
    /// # Errors
    /// INCOMPATIBLE for a file of another machine; INVALID_ARGUMENT for a damaged one; NOT_FOUND if `symbol` is not
    /// exported or another one is imported; UNIMPLEMENTED for relocations and symbols that embedded libraries do not
    /// use; PERMISSION_DENIED for writable code; RESOURCE_EXHAUSTED for an image beyond [`MAX_IMAGE_SIZE`] or if memory
    /// is short.
    pub fn load(data: &[u8], host: &Machine, symbol: &str) -> Result<ElfImage> {
        if !Machine::HOST.is_some_and(|machine| core::ptr::eq(machine, host)) {
            return Err(Error::incompatible(format!("code for {} does not run on this host", host.name)));
        }
        let layout = parse(data, host, CodeMemory::page_size())?;
        // Both are at most `MAX_IMAGE_SIZE`, which fits.
        let (size, alignment) = ((layout.span.end - layout.span.start) as usize, layout.alignment as usize);
        let mut memory = CodeMemory::map(size, alignment, (layout.span.start % layout.alignment) as usize)?;
        let base = memory.address(0).addr() as u64;
        let linked = link(&layout, host, memory.bytes(), base, symbol)?;
        protect(&layout, &memory)?;
        for address in linked.initialisers {
            let function = memory.address(address.wrapping_sub(base) as usize);
            // SAFETY: the address is in an executable segment (`check_code`), which is mapped and protected as such; that
            // an initialiser is there and takes no arguments is what the file says, which is trusted.
            unsafe {
                let function = core::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(function);
                CallingConvention::SystemV.initialise(function);
            }
        }
        let symbol = NonNull::new(memory.address(linked.symbol.wrapping_sub(base) as usize))
            .ok_or_else(|| Error::internal("image at address zero"))?;
        Ok(ElfImage { symbol, _memory: memory })
    }

    /// Returns the address of the requested symbol: code, valid while the image lives.
    #[must_use]
    pub fn symbol(&self) -> NonNull<c_void> {
        self.symbol
    }
}

/// Protects segments by their flags, then the read-only-after-relocation range, and forbids access to the gaps.
fn protect(layout: &Layout<'_>, memory: &CodeMemory) -> Result<()> {
    let start = layout.span.start;
    let offsets =
        |addresses: &core::ops::Range<u64>| (addresses.start - start) as usize..(addresses.end - start) as usize;
    let page = CodeMemory::page_size() as usize;
    let mut previous_end = 0;
    for segment in &layout.segments {
        let range = offsets(&segment.addresses);
        let first_page = range.start - range.start % page;
        if previous_end < first_page {
            memory.protect(previous_end..first_page, None)?;
        }
        previous_end = range.end.next_multiple_of(page);
        // The memory is readable and writable from the start.
        if segment.access != Access::ReadWrite {
            memory.protect(range, Some(segment.access))?;
        }
    }
    for range in &layout.read_only_after_relocation {
        let mut pages = offsets(range);
        // A page that the range shares with the rest of the segment stays writable.
        let segments = || layout.segments.iter().map(|segment| offsets(&segment.addresses));
        if !segments().any(|segment| segment.start == pages.start) {
            pages.start = pages.start.next_multiple_of(page);
        }
        if !segments().any(|segment| segment.end == pages.end) {
            pages.end -= pages.end % page;
        }
        if pages.start < pages.end {
            memory.protect(pages, Some(Access::Read))?;
        }
    }
    Ok(())
}
