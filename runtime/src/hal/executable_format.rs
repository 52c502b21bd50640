//! Formats of executables and which loader is for which. The one list of the loaders of this crate.

/// The format of executables that are modules of bytecode.
pub const VMVX: &str = "vmvx-bytecode-fb";

/// The loaders, in the order in which they are asked: calls a macro with a row for each, which has the name of its constant,
/// its type in `hal::local::loaders`, and what the names of its formats begin with.
macro_rules! for_each_loader {
    ($callback:ident) => {
        $callback! {
            /// Embedded ELF libraries.
            EMBEDDED_ELF: EmbeddedElfLoader = "embedded-elf-";
            /// Libraries of the platform.
            SYSTEM_LIBRARY: SystemLibraryLoader = "system-";
            /// VMVX bytecode, which is interpreted.
            VMVX: VmvxLoader = $crate::hal::executable_format::VMVX;
        }
    };
}
#[cfg(feature = "std")]
pub(super) use for_each_loader;

macro_rules! names {
    ($($(#[$attribute:meta])* $constant:ident: $loader:ident = $formats:expr;)*) => {
        &[$((stringify!($constant), $formats)),*]
    };
}

/// The names of the constants of [`Loader`](super::local::loaders::Loader), and what the names of their formats begin with.
pub const LOADERS: &[(&str, &str)] = for_each_loader!(names);
