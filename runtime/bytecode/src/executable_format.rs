//! The table of executable formats and their loaders.

/// The format of bytecode executables.
pub const VMVX: &str = "vmvx-bytecode-fb";

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
