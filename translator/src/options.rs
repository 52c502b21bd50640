//! How a module is translated.

use incarnate_runtime::processor;
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
    /// Processors that there are versions of long loops for, beside that which the program is compiled for; the best is picked
    /// when the program runs.
    pub versions: Vec<Version>,
    /// The module may be anyone's: turns of loops, calls and large copies are counted against the fuel of
    /// [`Limits`](incarnate_runtime::vm::Limits), and elements of memory that threads may share are read and written one by one,
    /// as in the interpreter. Loops over buffers are then several times slower than they could be.
    pub untrusted: bool,
    /// Query functions of libraries of kernels that the program links: executables of the format `static`. Code that names some
    /// has the program's only unsafe code, in a module of its own, and so does not fit into crates that forbid it.
    pub static_libraries: Vec<String>,
}

/// Levels of processors that kernels can be compiled for beside the program's own target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// x86-64-v2: SSE4.2.
    X86_64V2,
    /// x86-64-v3: AVX2.
    X86_64V3,
    /// x86-64-v4: AVX-512, with Rust 1.89 or later.
    X86_64V4,
}

impl Version {
    /// All of them.
    pub const ALL: [Version; 3] = [Version::X86_64V2, Version::X86_64V3, Version::X86_64V4];
    /// Those that are made unless others are asked for.
    pub const DEFAULT: [Version; 2] = [Version::X86_64V3, Version::X86_64V4];

    /// Its name, as compilers name the processor.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Version::X86_64V2 => "x86-64-v2",
            Version::X86_64V3 => "x86-64-v3",
            Version::X86_64V4 => "x86-64-v4",
        }
    }

    /// The bit by which generated code names it.
    fn bit(self) -> u8 {
        match self {
            Version::X86_64V2 => processor::X86_64_V2,
            Version::X86_64V3 => processor::X86_64_V3,
            Version::X86_64V4 => processor::X86_64_V4,
        }
    }

    /// The number by which generated code names some of them.
    pub(crate) fn bits(versions: &[Version]) -> u8 {
        versions.iter().fold(0, |bits, version| bits | version.bit())
    }
}

impl core::str::FromStr for Version {
    type Err = incarnate_runtime::Error;

    fn from_str(text: &str) -> Result<Version, incarnate_runtime::Error> {
        let found = Version::ALL.into_iter().find(|version| version.name() == text);
        found.ok_or_else(|| {
            let names = Version::ALL.map(Version::name).join(", ");
            incarnate_runtime::Error::invalid_argument(format!("`{text}` is none of {names}"))
        })
    }
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
            versions: Version::DEFAULT.to_vec(),
            untrusted: false,
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
