//! The executable library ABI: how machine code of the compiler describes and exposes its kernels.
//!
//! Every library (an embedded ELF, a system library, functions linked into the program) exports one query function. It
//! returns tables of exports, imports and constants. [`LibraryExecutable`] reads and checks them once; calls of kernels
//! need no lookups.
//!
//! | module | contents |
//! |---|---|
//! | [`abi`] | the ABI's structures, constants and function types |
//! | [`convention`](CallingConvention) | calls by the convention of a library |
//! | [`executable`](LibraryExecutable) | a queried library as a [`LocalExecutable`](super::LocalExecutable) |
//! | [`imports`](ImportProvider) | functions of the program that kernels may call |
//! | [`processor`](processor_data) | the processor features in the executable environment |
//! | [`float_state`](FlushDenormals) | the floating-point mode of kernels |
//!
//! A loader of another format passes the address of the query function and an owner of the code to
//! [`LibraryExecutable::load`]. Another version of the ABI is one more row of `executable::VERSIONS` and a reader of
//! its tables.
//!
//! Kernels are trusted code and there is no sandbox. The checks detect damaged files, other versions and machines, and
//! calls with wrong numbers of operands.

pub mod abi;
mod c_string;
mod convention;
mod executable;
mod float_state;
mod imports;
mod processor;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
mod tests;

pub(crate) use c_string::text;
pub use convention::CallingConvention;
pub(crate) use executable::library_name;
pub use executable::{LibraryExecutable, LibraryParameters};
pub use float_state::FlushDenormals;
pub use imports::{Import, ImportProvider, ImportRegistry, Imports};
pub use processor::has_feature;
pub(crate) use processor::missing_features;
pub use processor::processor_data;
