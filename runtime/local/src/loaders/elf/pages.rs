//! Pages of the system: mapped, protected, unmapped.

pub(super) use system::{map, protect, size, unmap};

#[cfg(unix)]
mod system {
    use core::ffi::c_void;
    use std::io;

    use super::super::layout::Access;
    use crate::{Error, Result};

    /// Returns the size of a page in bytes.
    pub(in super::super) fn size() -> u64 {
        // SAFETY: sysconf has no precondition.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        u64::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
    }

    /// Maps zeroed pages that can be read and written.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the system has no such memory.
    pub(in super::super) fn map(size: usize) -> Result<*mut c_void> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a fresh private anonymous mapping at an address of the system's choice touches no other memory.
        let mapping = unsafe { libc::mmap(core::ptr::null_mut(), size, protection, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            let cause = io::Error::last_os_error();
            return Err(Error::resource_exhausted(format!("mapping {size} bytes for code: {cause}")));
        }
        Ok(mapping)
    }

    /// Sets the access to pages; `None` forbids all.
    ///
    /// # Safety
    /// The pages are of a mapping by [`map`], and no reference to their bytes exists.
    pub(in super::super) unsafe fn protect(start: *mut c_void, size: usize, access: Option<Access>) -> io::Result<()> {
        let protection = match access {
            None => libc::PROT_NONE,
            Some(Access::Read) => libc::PROT_READ,
            Some(Access::ReadWrite) => libc::PROT_READ | libc::PROT_WRITE,
            Some(Access::ReadExecute) => libc::PROT_READ | libc::PROT_EXEC,
        };
        // SAFETY: as the caller's.
        match unsafe { libc::mprotect(start, size, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Unmaps a whole mapping.
    ///
    /// # Safety
    /// It is one of [`map`] with this size, and nothing uses it any more.
    pub(in super::super) unsafe fn unmap(mapping: *mut c_void, size: usize) {
        // SAFETY: as the caller's.
        unsafe { libc::munmap(mapping, size) };
    }
}

#[cfg(windows)]
mod system {
    use core::ffi::c_void;
    use std::io;

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_EXECUTE_READ, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE,
        VirtualAlloc, VirtualFree, VirtualProtect,
    };
    use windows_sys::Win32::System::SystemInformation::{GetSystemInfo, SYSTEM_INFO};

    use super::super::layout::Access;
    use crate::{Error, Result};

    /// Returns the size of a page in bytes.
    pub(in super::super) fn size() -> u64 {
        let mut info = SYSTEM_INFO::default();
        // SAFETY: the function writes the structure.
        unsafe { GetSystemInfo(&mut info) };
        u64::from(info.dwPageSize)
    }

    /// Maps zeroed pages that can be read and written.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the system has no such memory.
    pub(in super::super) fn map(size: usize) -> Result<*mut c_void> {
        // SAFETY: fresh pages at an address of the system's choice touch no other memory.
        let mapping = unsafe { VirtualAlloc(core::ptr::null(), size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE) };
        if mapping.is_null() {
            let cause = io::Error::last_os_error();
            return Err(Error::resource_exhausted(format!("mapping {size} bytes for code: {cause}")));
        }
        Ok(mapping)
    }

    /// Sets the access to pages; `None` forbids all.
    ///
    /// # Safety
    /// The pages are of a mapping by [`map`], and no reference to their bytes exists.
    pub(in super::super) unsafe fn protect(start: *mut c_void, size: usize, access: Option<Access>) -> io::Result<()> {
        let protection = match access {
            None => PAGE_NOACCESS,
            Some(Access::Read) => PAGE_READONLY,
            Some(Access::ReadWrite) => PAGE_READWRITE,
            Some(Access::ReadExecute) => PAGE_EXECUTE_READ,
        };
        let mut previous = 0;
        // SAFETY: as the caller's.
        match unsafe { VirtualProtect(start, size, protection, &mut previous) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Unmaps a whole mapping.
    ///
    /// # Safety
    /// It is one of [`map`], and nothing uses it any more.
    pub(in super::super) unsafe fn unmap(mapping: *mut c_void, _size: usize) {
        // SAFETY: as the caller's; a release is of the whole reservation.
        unsafe { VirtualFree(mapping, 0, MEM_RELEASE) };
    }
}

#[cfg(not(any(unix, windows)))]
mod system {
    use core::ffi::c_void;
    use std::io;

    use super::super::layout::Access;
    use crate::{Error, Result};

    /// Returns a common page size, for parsing only.
    pub(in super::super) fn size() -> u64 {
        4096
    }

    /// Fails: code cannot be loaded on this system.
    ///
    /// # Errors
    /// UNIMPLEMENTED.
    pub(in super::super) fn map(_size: usize) -> Result<*mut c_void> {
        Err(Error::unimplemented("embedded ELF libraries cannot be loaded on this system"))
    }

    /// Does nothing: there are no mappings.
    ///
    /// # Safety
    /// None is needed.
    pub(in super::super) unsafe fn protect(_: *mut c_void, _: usize, _: Option<Access>) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: there are no mappings.
    ///
    /// # Safety
    /// None is needed.
    pub(in super::super) unsafe fn unmap(_: *mut c_void, _: usize) {}
}
