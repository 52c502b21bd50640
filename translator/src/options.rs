//! How a module is translated.

use proc_macro2::TokenStream;

/// How a module is translated. [`Options::default`] is right for programs that depend on the crate `incarnate`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the crate `incarnate` in the program. Its own name by default.
    pub crate_path: TokenStream,
    /// Where the program takes the module's constants from.
    pub constants: Constants,
    /// Attributes of generated types: the type's name, or `.` for all of them, and the attribute, such as
    /// `#[derive(PartialEq)]`.
    pub type_attributes: Vec<(String, TokenStream)>,
}

/// Where a program takes a module's constants from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constants {
    /// They are part of the program, from a file beside its source.
    Included,
    /// They are part of the program, from the module's own file, of this path for `include_bytes!`.
    ModuleFile(String),
    /// A file that the program maps when it loads the module, of this path.
    Loaded(String),
}

impl Default for Options {
    fn default() -> Options {
        Options { crate_path: quote::quote!(::incarnate), constants: Constants::Included, type_attributes: Vec::new() }
    }
}

/// Reads Rust that a user gave.
///
/// # Errors
/// INVALID_ARGUMENT where it is none.
#[cfg(feature = "files")]
pub(crate) fn rust(what: &str, text: &str) -> incarnate_runtime::Result<TokenStream> {
    text.parse()
        .map_err(|error| incarnate_runtime::Error::invalid_argument(format!("{what} `{text}` is not Rust: {error}")))
}
