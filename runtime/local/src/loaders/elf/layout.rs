//! The memory layout of an ELF file: checked program headers.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};

use super::arch::Machine;
use crate::{Error, Result};

/// Largest span of addresses of an image, in bytes. Real images take kilobytes, because models keep constants outside
/// of executables; the limit keeps a damaged header from reserving the address space.
pub const MAX_IMAGE_SIZE: u64 = 1 << 30;

/// Largest alignment of a segment, in bytes: that of large pages.
pub const MAX_ALIGNMENT: u64 = 1 << 21;

/// Largest number of loaded segments; linkers write four or five.
const MAX_SEGMENT_COUNT: usize = 64;

/// The access to a segment's pages in addition to reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    ReadWrite,
    ReadExecute,
}

/// A segment to load.
#[derive(Clone, Debug)]
pub(super) struct Segment<'data> {
    /// Addresses in the file's terms.
    pub(super) addresses: Range<u64>,
    /// The initial bytes of the segment; the rest is zero.
    pub(super) contents: &'data [u8],
    pub(super) access: Access,
}

/// The relevant program headers, checked against the file and each other.
#[derive(Clone, Debug)]
pub(super) struct Layout<'data> {
    /// In ascending order; no two share a page.
    pub(super) segments: Vec<Segment<'data>>,
    /// Addresses of the whole image, on page boundaries; at most [`MAX_IMAGE_SIZE`] of them.
    pub(super) span: Range<u64>,
    /// Alignment of the image, at least a page, at most [`MAX_ALIGNMENT`].
    pub(super) alignment: u64,
    /// Addresses of the dynamic table; it lies in the image.
    pub(super) dynamic: Range<u64>,
    /// Addresses that become read-only after relocation; each lies in one writable segment.
    pub(super) read_only_after_relocation: Vec<Range<u64>>,
    /// Length of the file in bytes, which bounds every table within it.
    pub(super) file_size: u64,
}

impl<'data> Layout<'data> {
    /// Reads the headers of an ELF file for `machine`, for pages of `page_size` bytes.
    ///
    /// # Errors
    /// INCOMPATIBLE for a file of another machine; INVALID_ARGUMENT for a damaged one; RESOURCE_EXHAUSTED for an image
    /// beyond [`MAX_IMAGE_SIZE`]; PERMISSION_DENIED for a segment that is writable and executable; UNIMPLEMENTED for
    /// thread-local storage.
    pub(super) fn parse<Elf: FileHeader>(
        data: &'data [u8],
        machine: &Machine,
        page_size: u64,
    ) -> Result<Layout<'data>> {
        let header = Elf::parse(data)
            .map_err(|_| Error::incompatible(format!("not an ELF file of the class that {} has", machine.name)))?;
        let endian = header
            .endian()
            .map_err(|_| Error::incompatible(format!("ELF file is big-endian; {} is little-endian", machine.name)))?;
        let (id, kind, version) = (header.e_machine(endian), header.e_type(endian), header.e_version(endian));
        if id != machine.id {
            let (id, wanted, name) = (id.0, machine.id.0, machine.name);
            return Err(Error::incompatible(format!("ELF file is for machine {id}; {name} is {wanted}")));
        }
        if kind != elf::ET_DYN || version != u32::from(elf::EV_CURRENT.0) {
            let kind = kind.0;
            return Err(Error::invalid_argument(format!(
                "ELF file has type {kind} and version {version} instead of 3 (shared object) and 1"
            )));
        }
        let headers = header
            .program_headers(endian, data)
            .map_err(|_| Error::invalid_argument("ELF program header table lies outside of the file or is damaged"))?;
        let mut layout = Layout {
            segments: Vec::new(),
            span: 0..0,
            alignment: page_size,
            dynamic: 0..0,
            read_only_after_relocation: Vec::new(),
            file_size: data.len() as u64,
        };
        for header in headers {
            layout.add::<Elf>(header, endian, data, page_size)?;
        }
        layout.check()?;
        Ok(layout)
    }

    fn add<Elf: FileHeader>(
        &mut self,
        header: &Elf::ProgramHeader,
        endian: Elf::Endian,
        data: &'data [u8],
        page_size: u64,
    ) -> Result<()> {
        let start = header.p_vaddr(endian).into();
        let (file_size, memory_size) = (header.p_filesz(endian).into(), header.p_memsz(endian).into());
        // The end must not overflow when it is rounded up to pages.
        let Some(end) = start.checked_add(memory_size).filter(|end| end.checked_add(MAX_ALIGNMENT).is_some()) else {
            return Err(Error::invalid_argument(format!(
                "ELF segment of {memory_size} bytes at {start:#x} wraps around the address space"
            )));
        };
        match header.p_type(endian) {
            elf::PT_LOAD if memory_size > 0 => {
                let contents =
                    header.data(endian, data).ok().filter(|_| file_size <= memory_size).ok_or_else(|| {
                        Error::invalid_argument(format!(
                            "ELF segment at {start:#x} takes {file_size} bytes at {} of a file of {} for {memory_size} \
                         bytes of memory",
                            header.p_offset(endian).into(),
                            data.len()
                        ))
                    })?;
                let access = access(header.p_flags(endian), start)?;
                self.load(Segment { addresses: start..end, contents, access }, header.p_align(endian).into(), page_size)
            }
            elf::PT_DYNAMIC => {
                // A file has one dynamic table, of the size in the file.
                self.dynamic = start..start + file_size.min(memory_size);
                Ok(())
            }
            elf::PT_GNU_RELRO if memory_size > 0 => {
                self.read_only_after_relocation.push(start..end);
                Ok(())
            }
            elf::PT_TLS => Err(Error::unimplemented("ELF file has thread-local storage")),
            _ => Ok(()),
        }
    }

    /// Adds a segment and widens the span.
    fn load(&mut self, segment: Segment<'data>, alignment: u64, page_size: u64) -> Result<()> {
        let addresses = segment.addresses.clone();
        if alignment > MAX_ALIGNMENT || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(Error::invalid_argument(format!(
                "ELF segment at {:#x} has alignment {alignment}; it must be a power of two up to {MAX_ALIGNMENT}",
                addresses.start
            )));
        }
        self.alignment = self.alignment.max(alignment);
        let start = addresses.start - addresses.start % page_size;
        let end = addresses.end.next_multiple_of(page_size);
        if self.segments.is_empty() {
            self.span.start = start;
        } else if start < self.span.end {
            return Err(Error::invalid_argument(format!(
                "ELF segment at {:#x} shares a page of {page_size} bytes with the one before it or is out of order",
                addresses.start
            )));
        }
        self.span.end = end;
        if end - self.span.start > MAX_IMAGE_SIZE {
            let size = end - self.span.start;
            return Err(Error::resource_exhausted(format!(
                "ELF image spans {size} bytes of memory; the limit is {MAX_IMAGE_SIZE}"
            )));
        }
        if self.segments.len() == MAX_SEGMENT_COUNT {
            return Err(Error::resource_exhausted(format!(
                "ELF file has more than {MAX_SEGMENT_COUNT} segments to load"
            )));
        }
        self.segments.push(segment);
        Ok(())
    }

    /// Checks the headers as a whole.
    fn check(&self) -> Result<()> {
        if self.segments.is_empty() {
            return Err(Error::invalid_argument("ELF file has no segment to load"));
        }
        if self.dynamic.is_empty() {
            return Err(Error::invalid_argument("ELF file has no dynamic table"));
        }
        for range in &self.read_only_after_relocation {
            if !self.segments.iter().any(|segment| {
                segment.access == Access::ReadWrite
                    && segment.addresses.start <= range.start
                    && range.end <= segment.addresses.end
            }) {
                return Err(Error::invalid_argument(format!(
                    "ELF range {range:#x?} to be read-only after relocation is not within a writable segment"
                )));
            }
        }
        Ok(())
    }
}

/// Returns the access that the flags of a segment allow.
fn access(flags: elf::ProgramFlags, address: u64) -> Result<Access> {
    let (write, execute) = (flags.0 & elf::PF_W.0 != 0, flags.0 & elf::PF_X.0 != 0);
    match (write, execute) {
        (false, false) => Ok(Access::Read),
        (true, false) => Ok(Access::ReadWrite),
        (false, true) => Ok(Access::ReadExecute),
        (true, true) => Err(Error::permission_denied(format!(
            "ELF segment at {address:#x} is writable and executable, which this loader does not allow"
        ))),
    }
}
