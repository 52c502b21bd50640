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
    /// Which of the formats that a module's executables come in are used.
    pub prefer: Prefer,
    /// What the program is compiled for.
    pub target: Target,
    /// Query functions of libraries of kernels that the program links: executables of the format `static`. Code that names some
    /// has the program's only unsafe code, in a module of its own, and so does not fit into crates that forbid it.
    pub static_libraries: Vec<String>,
}

/// Which formats are used of executables that a module holds in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// Machine code for the target, where there is some.
    #[default]
    Native,
    /// VMVX, which is translated.
    Portable,
}

impl Prefer {
    /// `native` or `portable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Prefer::Native => "native",
            Prefer::Portable => "portable",
        }
    }
}

impl core::str::FromStr for Prefer {
    type Err = incarnate_runtime::Error;

    fn from_str(text: &str) -> Result<Prefer, incarnate_runtime::Error> {
        let found = [Prefer::Native, Prefer::Portable].into_iter().find(|prefer| prefer.name() == text);
        found.ok_or_else(|| {
            incarnate_runtime::Error::invalid_argument(format!("`{text}` is not `native` and not `portable`"))
        })
    }
}

/// What a program is compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The architecture, as Rust names it.
    pub architecture: String,
}

impl Default for Target {
    /// In build scripts the one that cargo names, else the one that the translator runs on.
    fn default() -> Target {
        let architecture = std::env::var("CARGO_CFG_TARGET_ARCH");
        Target { architecture: architecture.unwrap_or_else(|_| std::env::consts::ARCH.to_owned()) }
    }
}

impl Target {
    /// Whether machine code of a format is for the target; formats end in the compiler's names of architectures.
    pub(crate) fn is_of_format(&self, format: &str) -> bool {
        const NAMES: &[(&str, &str)] = &[
            ("x86_64", "x86_64"),
            ("x86", "x86_32"),
            ("aarch64", "arm_64"),
            ("arm", "arm_32"),
            ("riscv64", "riscv_64"),
            ("riscv32", "riscv_32"),
            ("wasm32", "wasm_32"),
            ("wasm64", "wasm_64"),
        ];
        NAMES.iter().any(|names| names.0 == self.architecture && format.ends_with(names.1))
    }
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
        Options {
            crate_path: quote::quote!(::incarnate),
            constants: Constants::Included,
            type_attributes: Vec::new(),
            prefer: Prefer::default(),
            target: Target::default(),
            static_libraries: Vec::new(),
        }
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
