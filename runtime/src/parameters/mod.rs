//! Parameters: named bytes, such as a model's weights, that programs load from archives outside their module.
//!
//! A program names a parameter by a scope and a key. A [`ParameterProvider`] supplies the parameters of scopes. A
//! [`ScopedIndex`] is the provider of a [`ParameterIndex`], which lists the contents of archives. Archives are mapped,
//! so that parameters are used in place if their alignment allows it:
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
//! A key with braces stands for several parameters, one behind the other ([`ParameterIndex::find`]): `layer.{0,1}.up` for `layer.0.up` and
//! `layer.1.up`. They are copied, unless they are adjacent in a file.
//!
//! Programs read `.irpa` archives and raw files; the feature `parameters-formats` adds GGUF, safetensors and NumPy files.
//!
//! Sources: IREE's `iree/io`, `iree/modules/io/parameters` and `iree/schemas/parameter_archive.h`.

mod archive;
mod file;
mod formats;
mod index;
mod joined;
mod provider;

pub use archive::ArchiveWriter;
pub use file::{FileAccess, ParameterFile};
pub use formats::ArchiveFormat;
pub use index::{ParameterEntry, ParameterIndex, ParameterStorage, Splat, TensorFacts};
pub use provider::{ParameterProvider, ParameterSpan, ScopedIndex, Transfer};

#[cfg(all(test, feature = "parameters-formats"))]
mod tests;

/// Escapes text of an archive for errors, because unprintable characters could deceive, and cuts long text.
fn shown(text: &str) -> impl core::fmt::Display {
    /// In characters: enough for a key, and for a message that contains one.
    const SHOWN: usize = 256;
    crate::bytecode::shown(text, SHOWN)
}
