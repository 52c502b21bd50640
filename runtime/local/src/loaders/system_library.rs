//! The loader of `system-*` executables.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::ffi::c_void;
use std::path::PathBuf;

use super::dynamic_library::DynamicLibrary;
use crate::bytecode::executable_format::{ARCHITECTURE, SYSTEM_PREFIX};
use crate::library::abi::{EXPORT_NAME, QueryFunction};
use crate::library::{CallingConvention, LibraryExecutable, LibraryParameters};
use crate::{Error, Result};
use crate::{ExecutableLoader, ExecutableParameters, LocalExecutable};

/// Loads shared libraries of the platform (`--iree-llvmcpu-link-embedded=false`) by the system's dynamic linker. They
/// may depend on other system libraries.
///
/// The code is trusted: it runs with all rights of the process.
#[derive(Clone, Debug, Default)]
pub struct SystemLibraryLoader {
    /// The folder in which the files of libraries are kept.
    keep: Option<PathBuf>,
}

impl SystemLibraryLoader {
    /// Creates a loader that keeps the libraries' files in a folder, where profilers and debuggers find their symbols.
    #[must_use]
    pub fn keeping_files(folder: impl Into<PathBuf>) -> SystemLibraryLoader {
        SystemLibraryLoader { keep: Some(folder.into()) }
    }
}

impl ExecutableLoader for SystemLibraryLoader {
    fn name(&self) -> &'static str {
        "system-library"
    }

    fn supports(&self, format: &str) -> bool {
        !ARCHITECTURE.is_empty() && format.strip_prefix(SYSTEM_PREFIX) == Some(ARCHITECTURE)
    }

    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        let format = parameters.format;
        if !self.supports(format) {
            return Err(Error::incompatible(format!(
                "the system library loader does not load executables of format '{format}' on this host"
            )));
        }
        // SAFETY: to load machine code is to run it; a device's creator trusts its modules by enabling this loader.
        let library = unsafe { DynamicLibrary::from_memory(parameters.data, format, self.keep.as_deref()) }?;
        let query = library.symbol(EXPORT_NAME)?.as_ptr();
        // SAFETY: a non-null address of code that `library` keeps mapped; data and function pointers have the same size
        // on all systems with dynamic linkers.
        let query = unsafe { core::mem::transmute::<*mut c_void, QueryFunction>(query) };
        let parameters = LibraryParameters {
            constants: parameters.constants,
            imports: parameters.imports.clone(),
            convention: CallingConvention::Host,
        };
        // SAFETY: the symbol is exported under the name that the executable library ABI reserves for its query function,
        // and `library` keeps the code mapped until it is dropped.
        let executable = unsafe { LibraryExecutable::load(query, &parameters, Box::new(library)) }?;
        Ok(Arc::new(executable))
    }
}
