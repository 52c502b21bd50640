//! Loaders of executables, shared by all local devices and both execution modes.
//!
//! Each loader implements [`ExecutableLoader`]. One of machine code brings it into memory, finds the
//! library's query function and hands it to [`LibraryExecutable`](super::library::LibraryExecutable), which does everything
//! that those formats have in common. The one of bytecode verifies a module and makes a [`VmvxExecutable`] of it, as
//! whoever has translated such a module does.
//!
//! Programs of translated modules have those loaders that their modules name, by the constants of [`Loader`].

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
use crate::hal::executable_format::for_each_loader;
use crate::{Error, Result};

pub(in crate::hal::local) use dynamic_library::DynamicLibrary;
pub use embedded_elf::EmbeddedElfLoader;
pub use static_library::{StaticLibrary, StaticLibraryLoader};
pub use system_library::SystemLibraryLoader;
pub use vmvx::{CompiledKernels, VmvxExecutable, VmvxLoader, Workgroups};

/// How a loader of this crate is made, or one of a program's own. What no constant names is not linked into a program.
#[derive(Clone, Copy, Debug)]
pub struct Loader {
    make: fn() -> Arc<dyn ExecutableLoader>,
    /// Whether what it loads is part of the program.
    pub(super) is_of_program: bool,
}

impl Loader {
    /// A loader that is made so.
    #[must_use]
    pub const fn new(make: fn() -> Arc<dyn ExecutableLoader>) -> Loader {
        Loader { make, is_of_program: false }
    }

    /// A loader, made so, of what is part of the program: it is asked first, also on devices with loaders of their own.
    #[must_use]
    pub const fn of_program(make: fn() -> Arc<dyn ExecutableLoader>) -> Loader {
        Loader { make, is_of_program: true }
    }

    /// Makes the loader.
    #[must_use]
    pub fn make(self) -> Arc<dyn ExecutableLoader> {
        (self.make)()
    }
}

/// Answers for a loader whether it supports a format, and loads nothing: a program compiled for a target looks for a device that
/// runs its format, even if it has nothing to run there. What loads is not linked for that.
pub struct UnusedLoader {
    name: &'static str,
    supports: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl UnusedLoader {
    fn of(loader: impl ExecutableLoader + 'static) -> UnusedLoader {
        UnusedLoader { name: loader.name(), supports: Box::new(move |format| loader.supports(format)) }
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

        /// The same loaders for programs that ask whether a device has one, and load nothing with it.
        impl UnusedLoader {
            $($(#[$attribute])*
            pub const $constant: Loader = Loader::new(|| Arc::new(UnusedLoader::of(<$loader>::default())));)*
        }

        impl Loader {
            /// Every loader of this build, in the order in which they are asked.
            pub const ALL: &[Loader] = &[$(Loader::$constant),*];
        }
    };
}
for_each_loader!(loaders);
