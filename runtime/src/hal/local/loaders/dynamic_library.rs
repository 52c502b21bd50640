//! Libraries of the system's dynamic linker, from files and from memory.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::elf::{Machine, check_shared_object};
use crate::mapping::MappedFile;
use crate::{Error, Result, ResultExt};

/// A loaded library. Dropping it closes it.
#[derive(Debug)]
pub(in crate::hal::local) struct DynamicLibrary {
    library: libloading::Library,
    /// Removed when the library is closed, on systems where it cannot be before. After the library, so that it goes last.
    _file: Option<TemporaryFile>,
}

/// Numbers the libraries of the process.
fn next_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

impl DynamicLibrary {
    /// Loads a library file.
    ///
    /// # Errors
    /// NOT_FOUND where there is no such file, or no symbol or library that it needs; INCOMPATIBLE for a file of another machine;
    /// INVALID_ARGUMENT for a damaged one.
    ///
    /// # Safety
    /// The library's initialisers run, with all rights of the process.
    pub(in crate::hal::local) unsafe fn open(path: &Path) -> Result<DynamicLibrary> {
        // A path without a folder would be searched for elsewhere.
        let path = fs::canonicalize(path)?;
        check(MappedFile::contents(&path)?.as_bytes())?;
        // SAFETY: as the caller's.
        let library = unsafe { open_library(&path) }?;
        Ok(DynamicLibrary { library, _file: None })
    }

    /// Loads a library from its bytes: through a file that only memory has, else through one that is removed. A folder in `keep`
    /// gets the file and keeps it, for tools that look for the library's symbols there; `name` is part of the file's name.
    ///
    /// # Errors
    /// As [`DynamicLibrary::open`], and those of writing the file.
    ///
    /// # Safety
    /// As [`DynamicLibrary::open`].
    pub(in crate::hal::local) unsafe fn from_memory(
        bytes: &[u8],
        name: &str,
        keep: Option<&Path>,
    ) -> Result<DynamicLibrary> {
        check(bytes)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if keep.is_none() {
            // SAFETY: as the caller's.
            if let Ok(library) = unsafe { memory::open(bytes, name) } {
                return Ok(DynamicLibrary { library, _file: None });
            }
            // Systems that forbid to run such files may still run others; where the library is at fault, that tells why.
        }
        let file = TemporaryFile::create(bytes, name, keep)?;
        // SAFETY: as the caller's.
        let library = unsafe { open_library(&file.path) }?;
        // Where an open file can be removed, nothing is left by a process that is killed.
        let file = if cfg!(unix) || keep.is_some() { None } else { Some(file) };
        Ok(DynamicLibrary { library, _file: file })
    }

    /// The address of an exported symbol, valid while the library is.
    ///
    /// # Errors
    /// NOT_FOUND where there is none.
    pub(in crate::hal::local) fn symbol(&self, name: &str) -> Result<NonNull<c_void>> {
        let missing = || Error::not_found(format!("the library does not export `{name}`"));
        // SAFETY: the symbol's address is taken, which every symbol has, and nothing is read there.
        let symbol = unsafe { self.library.get::<*mut c_void>(name) }.map_err(|_| missing())?;
        NonNull::new(*symbol).ok_or_else(missing)
    }
}

/// Checks a file before the system's linker believes it. Files of systems without ELF are left to that linker.
fn check(bytes: &[u8]) -> Result<()> {
    match Machine::HOST {
        Some(host) if cfg!(not(target_vendor = "apple")) => check_shared_object(bytes, host),
        _ => Ok(()),
    }
}

/// Opens a library whose symbols no other one sees, with all that it needs found at once.
///
/// # Safety
/// The library's initialisers run, with all rights of the process.
unsafe fn open_library(path: &Path) -> Result<libloading::Library> {
    #[cfg(unix)]
    let opened = {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: as the caller's.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(libloading::Library::from)
    };
    #[cfg(not(unix))]
    // SAFETY: as the caller's.
    let opened = unsafe { libloading::Library::new(path) };
    opened.map_err(|error| Error::not_found(format!("the system cannot load the library: {error}")))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod memory {
    //! Files that only memory has.

    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    /// Opens a library through an anonymous file.
    ///
    /// # Safety
    /// As [`open_library`].
    pub(super) unsafe fn open(bytes: &[u8], name: &str) -> Result<libloading::Library> {
        let mut file = File::from(create(name)?);
        file.write_all(bytes)?;
        // SAFETY: as the caller's.
        unsafe { open_library(&path(file.as_raw_fd(), next_number())) }
    }

    fn create(name: &str) -> std::io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC;
        // Kernels before 6.3 do not know the second flag, which later ones may insist on.
        Ok(memfd_create(name, flags | MemfdFlags::EXEC).or_else(|_| memfd_create(name, flags))?)
    }

    /// The path of a descriptor, in a spelling of its own for each number. The linker gives the library that it loaded by a path
    /// for the same path, even if the descriptor is another file's by then.
    pub(super) fn path(descriptor: i32, number: u64) -> PathBuf {
        let bits = (0..u64::BITS - number.leading_zeros()).map(|bit| if number >> bit & 1 == 1 { "./" } else { "/" });
        PathBuf::from(format!("/proc/self/fd/{}{descriptor}", bits.collect::<String>()))
    }
}

/// A file that is removed when the value is dropped, unless it is to be kept.
#[derive(Debug)]
struct TemporaryFile {
    path: PathBuf,
    is_kept: bool,
}

impl TemporaryFile {
    fn create(bytes: &[u8], name: &str, keep: Option<&Path>) -> Result<TemporaryFile> {
        let folder = keep.map_or_else(std::env::temp_dir, Path::to_owned);
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(64).collect();
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
        // Names of processes that are gone may be taken.
        for _ in 0..1 << 10 {
            let suffix = std::env::consts::DLL_SUFFIX;
            let path = folder.join(format!("incarnate-{name}-{}-{}{suffix}", std::process::id(), next_number()));
            let context = || format!("writing '{}'", path.display());
            match options.open(&path) {
                Ok(mut file) => {
                    let temporary = TemporaryFile { path: path.clone(), is_kept: keep.is_some() };
                    file.write_all(bytes).context(context)?;
                    return Ok(temporary);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::from(error).context(context())),
            }
        }
        Err(Error::resource_exhausted(format!("no name is free for a library in '{}'", folder.display())))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // One that somebody else removed is not there.
            let _ = fs::remove_file(&self.path);
        }
    }
}
