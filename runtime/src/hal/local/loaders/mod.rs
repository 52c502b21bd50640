//! Loaders of executables, shared by all local devices and both execution modes.
//!
//! Each loader implements [`ExecutableLoader`](super::ExecutableLoader). One of machine code brings it into memory, finds the
//! library's query function and hands it to [`LibraryExecutable`](super::library::LibraryExecutable), which does everything
//! that those formats have in common. The one of bytecode verifies a module and makes a [`VmvxExecutable`] of it, as
//! whoever has translated such a module does.

mod dynamic_library;
pub mod elf;
mod embedded_elf;
mod system_library;
mod vmvx;

pub(in crate::hal::local) use dynamic_library::DynamicLibrary;
pub use embedded_elf::EmbeddedElfLoader;
pub use system_library::SystemLibraryLoader;
pub use vmvx::{VmvxExecutable, VmvxLoader};
