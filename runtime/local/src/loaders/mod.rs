//! Executable loaders of all local devices and both execution modes.
//!
//! Each loader implements [`ExecutableLoader`]. A machine-code loader maps the library into memory, finds its query
//! function and passes it to [`LibraryExecutable`](super::library::LibraryExecutable), which implements everything that
//! those formats share. The bytecode loader verifies a module and creates a [`VmvxExecutable`]; translated programs
//! create theirs directly.
//!
//! Programs of translated modules link only the loaders that their modules name by the constants of [`Loader`].

#[cfg(all(feature = "system-library", any(unix, windows)))]
mod dynamic_library;
#[cfg(not(all(feature = "system-library", any(unix, windows))))]
#[path = "dynamic_library/absent.rs"]
mod dynamic_library;
pub mod elf;
mod embedded_elf;
mod static_library;
mod system_library;
mod vmvx;

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;

use super::{ExecutableLoader, ExecutableParameters, LocalExecutable};
use crate::bytecode::for_each_loader;
use crate::{Error, Result};

pub(crate) use dynamic_library::DynamicLibrary;
pub use embedded_elf::EmbeddedElfLoader;
pub use static_library::{StaticLibrary, StaticLibraryLoader};
pub use system_library::SystemLibraryLoader;
pub use vmvx::{CompiledKernels, VmvxExecutable, VmvxLoader, Workgroups};

/// A constructor of a loader, built in or user-defined. Loaders that no constant names are not linked into a program.
#[derive(Clone, Copy, Debug)]
pub struct Loader {
    create: fn() -> Arc<dyn ExecutableLoader>,
    /// True if the loaded executables are part of the program.
    pub(super) is_of_program: bool,
}

impl Loader {
    /// Creates a loader entry from a constructor.
    #[must_use]
    pub const fn new(create: fn() -> Arc<dyn ExecutableLoader>) -> Loader {
        Loader { create, is_of_program: false }
    }

    /// Creates an entry for executables that are part of the program: it takes precedence, also on devices with loaders
    /// of their own.
    #[must_use]
    pub const fn of_program(create: fn() -> Arc<dyn ExecutableLoader>) -> Loader {
        Loader { create, is_of_program: true }
    }

    /// Creates the loader.
    #[must_use]
    pub fn create(self) -> Arc<dyn ExecutableLoader> {
        (self.create)()
    }
}

/// Reports a loader's formats without loading anything: a program queries devices for its target format even if it has
/// no executable. The loading code is not linked.
pub struct UnusedLoader {
    name: &'static str,
    is_verifying: bool,
    supports: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl UnusedLoader {
    fn of(loader: impl ExecutableLoader + 'static) -> UnusedLoader {
        let (name, is_verifying) = (loader.name(), loader.is_verifying());
        UnusedLoader { name, is_verifying, supports: Box::new(move |format| loader.supports(format)) }
    }
}

impl fmt::Debug for UnusedLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnusedLoader({})", self.name)
    }
}

impl ExecutableLoader for UnusedLoader {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_verifying(&self) -> bool {
        self.is_verifying
    }

    fn supports(&self, format: &str) -> bool {
        (self.supports)(format)
    }

    fn take(&self, _: &ExecutableParameters<'_>) -> Option<Result<Arc<dyn LocalExecutable>>> {
        None
    }

    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        Err(Error::not_found(format!("the program was translated without a loader of format '{}'", parameters.format)))
    }
}

macro_rules! loaders {
    ($($(#[$attribute:meta])* $constant:ident: $loader:ident = $formats:expr;)*) => {
        impl Loader {
            $($(#[$attribute])*
            pub const $constant: Loader = Loader::new(|| Arc::new(<$loader>::default()));)*
        }

        /// The same loaders, only for format queries.
        impl UnusedLoader {
            $($(#[$attribute])*
            pub const $constant: Loader = Loader::new(|| Arc::new(UnusedLoader::of(<$loader>::default())));)*
        }

        impl Loader {
            /// Every loader of this build, in order of precedence.
            pub const ALL: &[Loader] = &[$(Loader::$constant),*];
        }
    };
}
for_each_loader!(loaders);
