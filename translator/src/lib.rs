//! Translates verified modules to Rust source: every function of a module becomes a Rust function.
//!
//! [`generate`] is a pure function from a module to an [`Output`], which holds tokens and the text of files. Its front ends
//! are [`Config`] for build scripts, the macro `include_module!` and the command `incarnate translate`.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     incarnate_translator::Config::new().compile("models/digits.vmfb")?;
//!     Ok(())
//! }
//! ```
//!
//! The program includes the file that it writes:
//!
//! ```ignore
//! mod digits {
//!     include!(concat!(env!("OUT_DIR"), "/digits.rs"));
//! }
//! ```
#![forbid(unsafe_code)]

mod api;
mod comments;
#[cfg(feature = "files")]
pub mod compiler;
#[cfg(feature = "files")]
mod config;
mod executables;
#[cfg(feature = "files")]
mod file_error;
#[cfg(feature = "files")]
mod files;
mod function;
mod incompatible;
mod kernel_table;
mod kernels;
mod module;
mod names;
mod options;
mod output;
#[cfg(feature = "files")]
mod static_library;

use incarnate_bytecode::Result;
use incarnate_bytecode::VerifiedModule;

#[cfg(feature = "files")]
pub use config::{Config, Written};
#[cfg(feature = "files")]
pub use files::File;
pub use function::{LoopOutcome, LoopRemark};
pub use names::module_identifier;
pub use options::{Constants, Options, Prefer, Target, TargetFeatures};
pub use output::Output;
#[cfg(feature = "files")]
pub use static_library::link_static_library;

/// The version of `support` that generated code requires.
const SUPPORT_VERSION: u32 = 27;

/// Translates a module.
///
/// # Errors
/// INVALID_ARGUMENT for options that are not Rust; INTERNAL if the module violates an invariant that its verification proves.
pub fn generate(module: &VerifiedModule, options: &Options) -> Result<Output> {
    output::generate(module, options)
}
