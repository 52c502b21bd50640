//! Parameters: named bytes, such as a model's weights, that programs load from archives outside their module.
//!
//! A program names a parameter by a scope and a key. A [`ParameterProvider`] has the parameters of scopes; [`ScopedIndex`] is
//! the one of a [`ParameterIndex`], which lists what archives hold. Archives are mapped, so that parameters are used in
//! place where their alignment allows it:
//!
//! ```
//! use incarnate_runtime::parameters::{ParameterEntry, ParameterIndex, ScopedIndex, Splat};
//!
//! let mut index = ParameterIndex::new();
//! index.add(ParameterEntry::splat("layer.bias", Splat::new(&1f32.to_le_bytes(), 64)?))?;
//! let provider = ScopedIndex::new("model", index);
//! # assert_eq!(provider.index().get("layer.bias").map(|entry| entry.length()), Some(64));
//! # Ok::<(), incarnate_runtime::Error>(())
//! ```
//!
//! Programs read `.irpa` archives and raw files; the feature `parameters-formats` adds GGUF, safetensors and NumPy files.
//!
//! The facts are those of IREE's `iree/io`, `iree/modules/io/parameters` and `iree/schemas/parameter_archive.h`.

mod archive;
mod file;
mod formats;
mod index;
mod provider;

pub use archive::ArchiveWriter;
pub use file::{FileAccess, ParameterFile};
pub use formats::ArchiveFormat;
pub use index::{ParameterEntry, ParameterIndex, ParameterStorage, Splat, TensorFacts};
pub use provider::{ParameterProvider, ParameterSpan, ScopedIndex, Transfer};

#[cfg(all(test, feature = "parameters-formats"))]
mod tests;

/// Keys as errors show them: what is not printable, and could deceive, is written as an escape.
fn shown(key: &str) -> impl core::fmt::Display + '_ {
    key.escape_debug()
}
