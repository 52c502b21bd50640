//! How a module is translated.

use incarnate_bytecode::executable_format::architecture_of;
use incarnate_bytecode::target_features;
use proc_macro2::TokenStream;

/// How a module is translated. [`Options::default`] is right for programs that depend on the crate `incarnate`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the crate `incarnate` in the program, or of `incarnate_runtime` for [`Options::no_std`]. Its own name by default.
    pub crate_path: TokenStream,
    /// Where the program takes the module's constants from.
    pub constants: Constants,
    /// Attributes of generated types: the type's name, or `.` for all of them, and the attribute, such as
    /// `#[derive(PartialEq)]`.
    pub type_attributes: Vec<(String, TokenStream)>,
    /// The format to use of executables that the module holds in several.
    pub prefer: Prefer,
    /// The target that the program is compiled for.
    pub target: Target,
    /// The target features for which functions with long loops are multiversioned, in addition to the program's own target. The
    /// program selects the best variant at run time.
    pub target_features: Vec<TargetFeatures>,
    /// The module may be anyone's. Machine code is refused; of executables in several formats, those in bytecode are translated.
    /// `Module::load` and `Module::load_with` limit memory, objects, steps and time, as `SessionBuilder::untrusted` does. Loop
    /// iterations, calls and bulk operations count against the fuel, as in the interpreter. Loops over buffers are several times
    /// slower, because each access is checked on its own.
    pub untrusted: bool,
    /// Float reductions may be computed in another order than that of the bytecode: sums along adjacent elements, for example, in
    /// partial sums, which vectors hold. Results may differ by rounding, and are the same on every processor and as interpreted ones
    /// with this option.
    pub reassociate: bool,
    /// Each `fma` of `f32`, into which IREE's compiler fuses products and sums of a model, is a product and a sum again, and rounds
    /// twice. Faster where there is no instruction for it, as in WebAssembly. Results differ by rounding, and are the same on every
    /// processor.
    pub unfuse: bool,
    /// Query functions of kernel libraries that the program links: executables of the format `static`. With such functions, the
    /// generated code contains one module with unsafe code, which does not compile in crates that forbid it.
    pub static_libraries: Vec<String>,
    /// The program's devices have loaders of their own, so that executables of any format are accepted.
    pub own_loaders: bool,
    /// The program has no `std`: the generated code names `incarnate_runtime` alone, and its API no device. Only modules whose kernels
    /// are functions of their own can be translated so.
    pub no_std: bool,
}

/// Sets of target features that functions can be multiversioned for: the microarchitecture levels of the x86-64 psABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFeatures {
    /// x86-64-v2: SSE4.2.
    X86_64V2,
    /// x86-64-v3: AVX2.
    X86_64V3,
    /// x86-64-v4: AVX-512, with Rust 1.89 or later.
    X86_64V4,
}

impl TargetFeatures {
    /// All sets.
    pub const ALL: [TargetFeatures; 3] = [TargetFeatures::X86_64V2, TargetFeatures::X86_64V3, TargetFeatures::X86_64V4];
    /// The default of [`Options::target_features`].
    pub const DEFAULT: [TargetFeatures; 2] = [TargetFeatures::X86_64V3, TargetFeatures::X86_64V4];

    /// The name that compilers use, such as `x86-64-v3`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TargetFeatures::X86_64V2 => "x86-64-v2",
            TargetFeatures::X86_64V3 => "x86-64-v3",
            TargetFeatures::X86_64V4 => "x86-64-v4",
        }
    }

    /// Its bit in generated code.
    fn bit(self) -> u8 {
        match self {
            TargetFeatures::X86_64V2 => target_features::X86_64_V2,
            TargetFeatures::X86_64V3 => target_features::X86_64_V3,
            TargetFeatures::X86_64V4 => target_features::X86_64_V4,
        }
    }

    /// The bit set of several sets in generated code.
    pub(crate) fn bits(all: &[TargetFeatures]) -> u8 {
        all.iter().fold(0, |bits, features| bits | features.bit())
    }
}

impl core::str::FromStr for TargetFeatures {
    type Err = incarnate_bytecode::Error;

    fn from_str(text: &str) -> Result<TargetFeatures, incarnate_bytecode::Error> {
        let found = TargetFeatures::ALL.into_iter().find(|features| features.name() == text);
        found.ok_or_else(|| {
            let names = TargetFeatures::ALL.map(TargetFeatures::name).join(", ");
            incarnate_bytecode::Error::invalid_argument(format!("`{text}` is not one of {names}"))
        })
    }
}

/// The format to use of executables that a module holds in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// Machine code for the target, if there is any.
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
    type Err = incarnate_bytecode::Error;

    fn from_str(text: &str) -> Result<Prefer, incarnate_bytecode::Error> {
        let found = [Prefer::Native, Prefer::Portable].into_iter().find(|prefer| prefer.name() == text);
        found.ok_or_else(|| {
            incarnate_bytecode::Error::invalid_argument(format!("`{text}` is neither `native` nor `portable`"))
        })
    }
}

/// The target that a program is compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The architecture, as Rust names it.
    pub architecture: String,
    /// Whether the program is known to be compiled for it; it is a guess otherwise.
    pub is_certain: bool,
}

impl Default for Target {
    /// In build scripts cargo's target, otherwise the host.
    fn default() -> Target {
        match std::env::var("CARGO_CFG_TARGET_ARCH") {
            Ok(architecture) => Target { architecture, is_certain: true },
            Err(_) => Target { architecture: std::env::consts::ARCH.to_owned(), is_certain: false },
        }
    }
}

impl Target {
    /// Whether a format is machine code for the target. The name of a format ends in the compiler's name of the architecture.
    pub(crate) fn is_of_format(&self, format: &str) -> bool {
        architecture_of(format) == Some(self.architecture.as_str())
    }
}

/// Where a program takes a module's constants from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constants {
    /// They are part of the program, from a file beside its source.
    Included,
    /// They are part of the program, from the module's own file at this path, which `include_bytes!` reads.
    ModuleFile(String),
    /// The program maps the file at this path when it loads the module.
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
            target_features: TargetFeatures::DEFAULT.to_vec(),
            untrusted: false,
            reassociate: false,
            unfuse: false,
            static_libraries: Vec::new(),
            own_loaders: false,
            no_std: false,
        }
    }
}

impl Options {
    /// The options of programs without `std`.
    #[must_use]
    pub fn no_std() -> Options {
        Options {
            crate_path: quote::quote!(::incarnate_runtime),
            target_features: Vec::new(),
            no_std: true,
            ..Options::default()
        }
    }

    /// The path of the crate `incarnate_runtime` in the program.
    pub(crate) fn runtime_path(&self) -> TokenStream {
        let path = &self.crate_path;
        if self.no_std { path.clone() } else { quote::quote!(#path::runtime) }
    }
}

/// Parses Rust that a user wrote.
///
/// # Errors
/// INVALID_ARGUMENT if it is not Rust.
#[cfg(feature = "files")]
pub(crate) fn rust(what: &str, text: &str) -> incarnate_bytecode::Result<TokenStream> {
    text.parse()
        .map_err(|error| incarnate_bytecode::Error::invalid_argument(format!("{what} `{text}` is not Rust: {error}")))
}
