//! The executable library ABI: how machine code that the compiler made describes and exposes its kernels.
//!
//! A library, wherever it comes from (an embedded ELF, a system library, functions linked into the program), exports
//! one query function. It returns tables of exports, imports and constants; [`LibraryExecutable`] reads and checks them
//! once and then calls kernels without looking anything up.
//!
//! | module | what it holds |
//! |---|---|
//! | [`abi`] | the ABI's structures, constants and function types |
//! | [`executable`](LibraryExecutable) | a queried library as a [`LocalExecutable`](super::LocalExecutable) |
//! | [`imports`](ImportProvider) | functions of the program that kernels may call |
//! | [`processor`](processor_data) | what the executable environment says about the processor |
//! | [`float_state`](FlushDenormals) | the floating-point mode that kernels run in |
//!
//! A loader of another format needs the address of the query function and something that keeps the code in memory; it
//! hands both to [`LibraryExecutable::load`]. Another version of the ABI is one more row of `executable::VERSIONS` and a
//! reader that fills the same version-neutral tables.
//!
//! Kernels are trusted code. Nothing here is a sandbox: the checks protect against files that are damaged, made for
//! another version or another machine, and against calls with the wrong number of operands.

pub mod abi;
mod executable;
mod float_state;
mod imports;
mod processor;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
mod tests;

pub use executable::{LibraryExecutable, LibraryParameters};
pub(in crate::hal::local) use executable::{library_name, text};
pub use float_state::FlushDenormals;
pub use imports::{Import, ImportProvider, ImportRegistry, Imports};
pub(crate) use processor::has_feature;
pub use processor::processor_data;
