//! Shared libraries that the system's dynamic linker loads, from files and from memory.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::elf::{Machine, check_shared_object};
use crate::{Error, Result, ResultExt};

/// A loaded library. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct DynamicLibrary {
    library: libloading::Library,
    /// The temporary file, on systems that cannot remove an open one. Declared after the library, which is dropped
    /// first.
    _file: Option<TemporaryFile>,
}

/// Returns process-wide unique numbers.
fn next_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

impl DynamicLibrary {
    /// Loads a library file.
    ///
    /// # Errors
    /// NOT_FOUND if the file, a symbol or a required library is missing; INCOMPATIBLE for a file of another machine;
    /// INVALID_ARGUMENT for a damaged one.
    ///
    /// # Safety
    /// The library's initialisers run, with all rights of the process.
    pub(crate) unsafe fn open(path: &Path) -> Result<DynamicLibrary> {
        // The linker would search its own folders for a path without a folder.
        let path = fs::canonicalize(path)?;
        check(&fs::read(&path)?)?;
        // SAFETY: as the caller's.
        let library = unsafe { open_library(&path) }?;
        Ok(DynamicLibrary { library, _file: None })
    }

    /// Loads a library from its bytes, through an anonymous in-memory file or else a temporary one. If `keep` is set,
    /// the file is written to that folder and stays, so that profilers and debuggers find the symbols; `name` is part
    /// of its name.
    ///
    /// # Errors
    /// Those of [`DynamicLibrary::open`] and of writing the file.
    ///
    /// # Safety
    /// As [`DynamicLibrary::open`].
    pub(crate) unsafe fn from_memory(bytes: &[u8], name: &str, keep: Option<&Path>) -> Result<DynamicLibrary> {
        check(bytes)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if keep.is_none() {
            // SAFETY: as the caller's.
            if let Ok(library) = unsafe { memory::open(bytes, name) } {
                return Ok(DynamicLibrary { library, _file: None });
            }
            // Systems that forbid to run in-memory files may allow others. If the library is at fault, the second
            // attempt reports it.
        }
        let file = TemporaryFile::create(bytes, name, keep)?;
        // SAFETY: as the caller's.
        let library = unsafe { open_library(&file.path) }?;
        // On Unix an open file can be removed at once, so that even a killed process leaves none behind.
        let file = if cfg!(unix) || keep.is_some() { None } else { Some(file) };
        Ok(DynamicLibrary { library, _file: file })
    }

    /// Returns the address of an exported symbol, valid while the library is loaded.
    ///
    /// # Errors
    /// NOT_FOUND if it is not exported.
    pub(crate) fn symbol(&self, name: &str) -> Result<NonNull<c_void>> {
        let missing = || Error::not_found(format!("the library does not export `{name}`"));
        // SAFETY: only the symbol's address is taken; nothing is read through it.
        let symbol = unsafe { self.library.get::<*mut c_void>(name) }.map_err(|_| missing())?;
        NonNull::new(*symbol).ok_or_else(missing)
    }
}

/// Checks a file before the system's linker trusts it. Systems whose libraries are not ELF skip the check.
fn check(bytes: &[u8]) -> Result<()> {
    match Machine::HOST {
        Some(host) if cfg!(not(any(target_vendor = "apple", windows))) => check_shared_object(bytes, host),
        _ => Ok(()),
    }
}

/// Opens a library with local symbol scope and immediate binding.
///
/// # Safety
/// The library's initialisers run, with all rights of the process.
unsafe fn open_library(path: &Path) -> Result<libloading::Library> {
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        return Err(Error::unimplemented(
            "a static program loads no libraries: link the kernels, or use embedded ELF or VMVX",
        ));
    }
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
    //! Anonymous in-memory files.

    use std::ffi::CString;
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
        let name = CString::new(name)?;
        let create = |flags| {
            // SAFETY: the name ends in a zero and outlives the call.
            let descriptor = unsafe { libc::memfd_create(name.as_ptr(), flags) };
            if descriptor < 0 {
                return Err(std::io::Error::last_os_error());
            }
            // SAFETY: the system has just opened this descriptor, and nothing else has it.
            Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
        };
        // Kernels before 6.3 do not have the second flag; later ones can be configured to require it.
        create(libc::MFD_CLOEXEC | libc::MFD_EXEC).or_else(|_| create(libc::MFD_CLOEXEC))
    }

    /// Returns the path of a descriptor, spelled differently for each number: the linker caches libraries by path,
    /// although a descriptor may since refer to another file.
    pub(super) fn path(descriptor: i32, number: u64) -> PathBuf {
        let bits = (0..u64::BITS - number.leading_zeros()).map(|bit| if number >> bit & 1 == 1 { "./" } else { "/" });
        PathBuf::from(format!("/proc/self/fd/{}{descriptor}", bits.collect::<String>()))
    }
}

/// A temporary file, removed on drop unless it is to be kept.
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
        // Files of earlier processes may occupy some names.
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
            // Another process may have removed the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}
