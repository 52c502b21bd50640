//! The loader of `embedded-elf-*` executables.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

use super::elf::{ElfImage, Machine};
use crate::library::abi::{EXPORT_NAME, QueryFunction};
use crate::library::{CallingConvention, LibraryExecutable, LibraryParameters};
use crate::{Error, Result};
use crate::{ExecutableLoader, ExecutableParameters, LocalExecutable};

/// The prefix of format names, such as `embedded-elf-x86_64`.
const FORMAT_PREFIX: &str = "embedded-elf-";

/// Loads position-independent ELF libraries that import nothing from the platform, for the host's architecture.
///
/// The code is trusted: it runs with all rights of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddedElfLoader;

impl ExecutableLoader for EmbeddedElfLoader {
    fn name(&self) -> &'static str {
        "embedded-elf"
    }

    fn supports(&self, format: &str) -> bool {
        let architecture = format.strip_prefix(FORMAT_PREFIX);
        architecture.is_some() && architecture == Machine::HOST.map(|host| host.name)
    }

    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        let Some(host) = Machine::HOST.filter(|_| self.supports(parameters.format)) else {
            return Err(Error::incompatible(format!(
                "the embedded ELF loader does not load executables of format '{}' on this host",
                parameters.format
            )));
        };
        let image = ElfImage::load(parameters.data, host, EXPORT_NAME)?;
        let query = image.symbol().as_ptr();
        // SAFETY: a non-null address of code that `image` keeps mapped; data and function pointers have the same size on
        // every host that `Machine::HOST` names.
        let query = unsafe { core::mem::transmute::<*mut core::ffi::c_void, QueryFunction>(query) };
        let library = LibraryParameters {
            constants: parameters.constants,
            imports: parameters.imports.clone(),
            convention: CallingConvention::SystemV,
        };
        // SAFETY: the symbol is exported under the name that the executable library ABI reserves for its query function,
        // and `image` keeps the code mapped until it is dropped.
        let executable = unsafe { LibraryExecutable::load(query, &library, Box::new(image)) }?;
        Ok(Arc::new(executable))
    }
}
