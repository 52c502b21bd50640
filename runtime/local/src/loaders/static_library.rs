//! The loader of `static` executables: kernels that are linked into the program.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::library::abi::QueryFunction;
use crate::library::{CallingConvention, LibraryExecutable, LibraryParameters, library_name};
use crate::{Error, Result, ResultExt};
use crate::{ExecutableLoader, ExecutableParameters, LocalExecutable};

/// The name of the format. Executables of it contain the name of a library.
const FORMAT: &str = "static";

/// A kernel library that is linked into the program, from an object file of the compiler (`--iree-llvmcpu-link-static
/// --iree-llvmcpu-static-library-output-path=F.o`).
#[derive(Clone, Copy)]
pub struct StaticLibrary {
    query: QueryFunction,
}

impl fmt::Debug for StaticLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticLibrary").field("name", &self.name().unwrap_or_default()).finish()
    }
}

impl StaticLibrary {
    /// Creates a library from its query function. Programs need no other unsafe code:
    ///
    /// ```ignore
    /// use incarnate_runtime::hal::local::library::abi::{Environment, LibraryHeader};
    ///
    /// unsafe extern "C" {
    ///     fn model_linked_library_query(version: u32, environment: *const Environment) -> *const *const LibraryHeader;
    /// }
    /// // SAFETY: the function is in the object of kernels that the compiler wrote beside the module.
    /// let library = unsafe { StaticLibrary::new(model_linked_library_query) };
    /// ```
    ///
    /// # Safety
    /// `query` must be the query function of a library that follows the executable library ABI. Its code is trusted.
    #[must_use]
    pub const unsafe fn new(query: QueryFunction) -> StaticLibrary {
        StaticLibrary { query }
    }

    /// Returns the library's name, which modules refer to.
    ///
    /// # Errors
    /// Those of [`LibraryExecutable::load`].
    pub fn name(&self) -> Result<String> {
        // SAFETY: by the contract of `new`.
        unsafe { library_name(self.query) }
    }
}

/// Loads kernels of libraries that are linked into the program.
#[derive(Clone, Debug, Default)]
pub struct StaticLibraryLoader {
    libraries: Vec<StaticLibrary>,
}

impl StaticLibraryLoader {
    /// Creates a loader of these libraries.
    #[must_use]
    pub fn new(libraries: impl Into<Vec<StaticLibrary>>) -> StaticLibraryLoader {
        StaticLibraryLoader { libraries: libraries.into() }
    }
}

impl ExecutableLoader for StaticLibraryLoader {
    fn name(&self) -> &'static str {
        "static-library"
    }

    fn supports(&self, format: &str) -> bool {
        format == FORMAT
    }

    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        // The name is NUL-terminated.
        let wanted = parameters.data.strip_suffix(&[0]).unwrap_or(parameters.data);
        let Some(wanted) = core::str::from_utf8(wanted).ok().filter(|name| !name.contains('\0')) else {
            return Err(Error::invalid_argument("executable of format `static` is not the name of a library"));
        };
        let mut names = Vec::new();
        for library in &self.libraries {
            let name = library.name().context(|| "asking a static library for its name")?;
            if name != wanted {
                names.push(format!("`{name}`"));
                continue;
            }
            let parameters = LibraryParameters {
                constants: parameters.constants,
                imports: parameters.imports.clone(),
                convention: CallingConvention::Host,
            };
            // SAFETY: by the contract of `StaticLibrary::new` the query function follows the ABI, and linked code is
            // never unloaded.
            let executable = unsafe { LibraryExecutable::load(library.query, &parameters, Box::new(())) };
            return Ok(Arc::new(executable.context(|| format!("loading the static library `{wanted}`"))?));
        }
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        Err(Error::not_found(format!("no static library `{wanted}` is linked into the program; linked are: {known}")))
    }
}
