//! Memory for machine code: mapped writable, filled, then protected page by page, and unmapped on drop.

use core::ffi::c_void;
use core::ops::Range;

use super::layout::Access;
use super::pages;
use crate::{Error, Result};

/// Anonymous pages. Readable and writable until [`CodeMemory::protect`].
#[derive(Debug)]
pub(super) struct CodeMemory {
    /// Start and length of the mapping.
    mapping: *mut c_void,
    mapping_size: usize,
    /// Offset of the image in the mapping, and its length.
    offset: usize,
    size: usize,
}

// SAFETY: the value owns the mapping; shared references allow no write, and protected pages are only read or executed.
unsafe impl Send for CodeMemory {}
// SAFETY: as above.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Returns the host's page size in bytes.
    pub(super) fn page_size() -> u64 {
        pages::size()
    }

    /// Maps `size` zeroed bytes at an address that leaves `remainder` when divided by `alignment`. Both must be
    /// multiples of the page size, `alignment` a power of two. Untouched pages take no memory.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the system has no such memory; UNIMPLEMENTED on a system without memory for code.
    pub(super) fn map(size: usize, alignment: usize, remainder: usize) -> Result<CodeMemory> {
        // Mappings are page-aligned; a larger alignment needs slack.
        let slack = if alignment as u64 > CodeMemory::page_size() { alignment } else { 0 };
        let Some(mapping_size) = size.checked_add(slack).filter(|size| *size > 0) else {
            return Err(Error::resource_exhausted(format!("mapping of {size} bytes aligned to {alignment}")));
        };
        let mapping = pages::map(mapping_size)?;
        let offset = match alignment.checked_sub(1).filter(|_| slack > 0) {
            Some(mask) => remainder.wrapping_sub(mapping.addr()) & mask,
            None => 0,
        };
        Ok(CodeMemory { mapping, mapping_size, offset, size })
    }

    /// Returns the image's bytes, before they are protected.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `offset + size` is at most `mapping_size` (`map`: the offset is below the slack), the pages are mapped
        // readable and writable until `protect` consumes the exclusive phase, and `&mut self` makes the borrow unique.
        unsafe { core::slice::from_raw_parts_mut(self.mapping.cast::<u8>().add(self.offset), self.size) }
    }

    /// Sets the access to the pages of a range of offsets into the image; `None` forbids all.
    ///
    /// # Errors
    /// PERMISSION_DENIED if the system refuses.
    pub(super) fn protect(&self, range: Range<usize>, access: Option<Access>) -> Result<()> {
        let page = CodeMemory::page_size() as usize;
        let start = range.start - range.start % page;
        let end = range.end.next_multiple_of(page).min(self.size);
        if start >= end {
            return Ok(());
        }
        let address = self.address(start);
        if access == Some(Access::ReadExecute) {
            flush_instruction_cache(address, end - start);
        }
        // SAFETY: the range lies within the mapping that this value owns (`end` is cut to the image's size), and the
        // loader holds no reference to its bytes.
        unsafe { pages::protect(address, end - start, access) }.map_err(|cause| {
            Error::permission_denied(format!("protecting {} bytes as {access:?}: {cause}", end - start))
        })
    }

    /// Returns the address of an offset into the image; clamps to the image's end.
    pub(super) fn address(&self, offset: usize) -> *mut c_void {
        self.mapping.wrapping_byte_add(self.offset + offset.min(self.size))
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: the value owns the mapping; the owners of code addresses keep the value alive.
        unsafe { pages::unmap(self.mapping, self.mapping_size) };
    }
}

/// Makes instructions that were written as data visible to instruction fetch. x86 keeps its caches coherent.
#[cfg(any(target_arch = "x86_64", target_arch = "x86", not(any(unix, windows))))]
fn flush_instruction_cache(_address: *mut c_void, _size: usize) {}

/// Makes instructions that were written as data visible to instruction fetch.
#[cfg(all(windows, not(any(target_arch = "x86_64", target_arch = "x86"))))]
fn flush_instruction_cache(address: *mut c_void, size: usize) {
    use windows_sys::Win32::System::Diagnostics::Debug::FlushInstructionCache;
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    // SAFETY: the system's own function for this; the range is mapped.
    unsafe { FlushInstructionCache(GetCurrentProcess(), address, size) };
}

/// Makes instructions that were written as data visible to instruction fetch.
#[cfg(all(target_vendor = "apple", target_arch = "aarch64"))]
fn flush_instruction_cache(address: *mut c_void, size: usize) {
    unsafe extern "C" {
        fn sys_icache_invalidate(start: *mut c_void, length: usize);
    }
    // SAFETY: the system's own function for this; the range is mapped.
    unsafe { sys_icache_invalidate(address, size) };
}

/// Makes instructions that were written as data visible to instruction fetch, on all processors of the coherence domain.
#[cfg(all(unix, not(target_vendor = "apple"), target_arch = "aarch64"))]
fn flush_instruction_cache(address: *mut c_void, size: usize) {
    use core::arch::asm;
    let cache_type: usize;
    // SAFETY: CTR_EL0 can be read in user mode.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags)) };
    // Logarithms of the smallest cache lines, in words of four bytes.
    let (instruction_line, data_line) = (4usize << (cache_type & 0xF), 4usize << (cache_type >> 16 & 0xF));
    let (start, end) = (address.addr(), address.addr() + size);
    // SAFETY: cleaning data lines to the point of unification and invalidating instruction lines of a mapped range changes
    // no memory; the barriers order both before the code is run.
    unsafe {
        for line in (start & !(data_line - 1)..end).step_by(data_line) {
            asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags));
        }
        asm!("dsb ish", options(nostack, preserves_flags));
        for line in (start & !(instruction_line - 1)..end).step_by(instruction_line) {
            asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags));
        }
        asm!("dsb ish", "isb", options(nostack, preserves_flags));
    }
}

/// Makes instructions that were written as data visible to instruction fetch, on all processors.
#[cfg(all(unix, any(target_arch = "riscv64", target_arch = "riscv32", target_arch = "arm")))]
fn flush_instruction_cache(address: *mut c_void, size: usize) {
    #[cfg(target_arch = "arm")]
    const FLUSH: libc::c_long = 0x000F_0002; // __ARM_NR_cacheflush
    #[cfg(not(target_arch = "arm"))]
    const FLUSH: libc::c_long = 259; // __NR_riscv_flush_icache
    let start = address.addr();
    // SAFETY: the system call writes no memory; a range that is not mapped makes it fail, and this one is mapped. The
    // flags (third argument) zero ask for all processors.
    unsafe { libc::syscall(FLUSH, start, start + size, 0usize) };
}
