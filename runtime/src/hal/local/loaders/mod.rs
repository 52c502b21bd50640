//! Loaders of executables, shared by all local devices and both execution modes.
//!
//! Each loader implements [`ExecutableLoader`](super::ExecutableLoader): it brings code of one kind of format into memory,
//! finds the library's query function and hands it to [`LibraryExecutable`](super::library::LibraryExecutable), which does
//! everything that the formats have in common.

pub mod elf;
mod embedded_elf;

pub use embedded_elf::EmbeddedElfLoader;
