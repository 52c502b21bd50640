//! The table of executable formats and their loaders.

use alloc::format;
use alloc::string::String;

use crate::gpu_executable::is_vulkan;

/// The format of bytecode executables.
pub const VMVX: &str = "vmvx-bytecode-fb";

/// The format of executables whose data is the name of a library that the program links.
pub const STATIC: &str = "static";

/// The prefixes of formats of machine code, whose names end in the architecture.
const MACHINE_CODE: &[&str] = &["embedded-elf-", "system-elf-", "system-dll-", "system-dylib-", STATIC];

/// Whether executables of a format are machine code for a processor of the host.
#[must_use]
pub fn is_machine_code(format: &str) -> bool {
    MACHINE_CODE.iter().any(|prefix| format.starts_with(prefix))
}

/// Whether executables of a format are code that devices of this project run and that no verifier checks: machine code of the host, or
/// SPIR-V.
#[must_use]
pub fn is_unverified(format: &str) -> bool {
    is_machine_code(format) || is_vulkan(format)
}

/// Explains why an untrusted module with executables of the given formats is refused, and what to do: the same text for the command
/// line, sessions, the macro, the translator and Python.
#[must_use]
pub fn untrusted_refusal(formats: &str) -> String {
    format!(
        "the module contains machine code ({formats}), which --untrusted refuses (in Python untrusted=True, in Rust \
         SessionBuilder::untrusted, Limits::portable and the option `untrusted` of include_module!): compile the model with --target=portable (in Python target=\"portable\"), or \
         load the module without it if you trust its author"
    )
}

/// Whether executables of a format are machine code for this host's architecture, or for the program's.
#[must_use]
pub fn is_machine_code_of_host(format: &str) -> bool {
    is_machine_code(format) && (format == STATIC || !ARCHITECTURE.is_empty() && format.ends_with(ARCHITECTURE))
}

/// Invokes a macro with a row for each loader, in order of precedence: the name of its constant, its type in
/// `incarnate_local::loaders`, and the prefix of its formats.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_loader {
    ($callback:ident) => {
        $callback! {
            /// Embedded ELF libraries.
            EMBEDDED_ELF: EmbeddedElfLoader = "embedded-elf-";
            /// Libraries of the platform.
            SYSTEM_LIBRARY: SystemLibraryLoader = "system-";
            /// VMVX bytecode, which is interpreted.
            VMVX: VmvxLoader = $crate::executable_format::VMVX;
        }
    };
}

macro_rules! names {
    ($($(#[$attribute:meta])* $constant:ident: $loader:ident = $formats:expr;)*) => {
        &[$((stringify!($constant), $formats)),*]
    };
}

/// The names of the constants of `incarnate_local::loaders::Loader`, and the prefixes of their formats.
pub const LOADERS: &[(&str, &str)] = for_each_loader!(names);

/// The prefix of the host's formats of system libraries, such as `system-elf-x86_64`.
pub const SYSTEM_PREFIX: &str = system_prefix(cfg!(target_vendor = "apple"), cfg!(windows));

/// Returns the prefix of a platform's formats of system libraries: one of Apple, Windows, or any other.
#[must_use]
pub const fn system_prefix(is_apple: bool, is_windows: bool) -> &'static str {
    match (is_apple, is_windows) {
        (true, _) => "system-dylib-",
        (false, true) => "system-dll-",
        (false, false) => "system-elf-",
    }
}

macro_rules! architectures {
    ($($rust:literal = $format:literal),* $(,)?) => {
        /// The names of architectures: Rust's, as in `target_arch`, and those in which the names of formats end.
        pub const ARCHITECTURES: &[(&str, &str)] = &[$(($rust, $format)),*];

        /// The name of the host's architecture in format names; empty for one that no format names.
        pub const ARCHITECTURE: &str = $(if cfg!(target_arch = $rust) { $format } else)* { "" };
    };
}
architectures! {
    "x86_64" = "x86_64",
    "x86" = "x86_32",
    "aarch64" = "arm_64",
    "arm" = "arm_32",
    "riscv64" = "riscv_64",
    "riscv32" = "riscv_32",
    "wasm32" = "wasm_32",
    "wasm64" = "wasm_64",
}

/// Returns Rust's name of the architecture that a format of machine code is for.
#[must_use]
pub fn architecture_of(format: &str) -> Option<&'static str> {
    let row = ARCHITECTURES.iter().find(|row| is_machine_code(format) && format.ends_with(row.1));
    row.map(|row| row.0)
}
