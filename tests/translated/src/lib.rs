//! The modules of tests/models, translated to Rust by the build script, for this package's tests.
#![forbid(unsafe_code)]

/// Names that are not Rust identifiers, in a program where `incarnate` has another path.
pub mod hostile {
    include!(concat!(env!("OUT_DIR"), "/hostile.rs"));
}

/// Functions that store, return and drop their reference arguments.
pub mod keeping {
    include!(concat!(env!("OUT_DIR"), "/keeping.rs"));
}

/// Sums in memory that need not be cleared.
pub mod accumulating {
    include!(concat!(env!("OUT_DIR"), "/accumulating.rs"));
}

/// Nests that threads divide.
pub mod dividing {
    include!(concat!(env!("OUT_DIR"), "/dividing.rs"));
}

/// Rows of sums that share conversions.
pub mod jamming {
    include!(concat!(env!("OUT_DIR"), "/jamming.rs"));
}

/// Sums of products of pairs of adjacent integers.
pub mod pairing {
    include!(concat!(env!("OUT_DIR"), "/pairing.rs"));
}

/// Functions that take and return references other than tensors.
pub mod references {
    include!(concat!(env!("OUT_DIR"), "/references.rs"));
}

/// A module with an executable in two formats, of which machine code is preferred.
pub mod formats_native {
    include!(concat!(env!("OUT_DIR"), "/formats_native.rs"));
}

/// The same module with translated bytecode.
pub mod formats_portable {
    include!(concat!(env!("OUT_DIR"), "/formats_portable.rs"));
}

/// Modules around assembled kernels.
pub mod kernels {
    use std::sync::Arc;

    use incarnate::Module;

    /// A module around a kernel.
    #[derive(Debug)]
    pub struct Kernel {
        /// Name.
        pub name: &'static str,
        /// The module's file.
        pub file: &'static [u8],
        /// The translated module.
        pub translated: fn() -> Arc<dyn Module>,
        /// The module translated as untrusted.
        pub untrusted: fn() -> Arc<dyn Module>,
    }

    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// The examples in the documentation of the typed methods.
#[allow(missing_docs, unused_variables, clippy::all, clippy::pedantic, reason = "examples are compiled, not run")]
pub mod examples {
    include!(concat!(env!("OUT_DIR"), "/examples.rs"));
}

/// Alternative names of the crate in programs.
pub mod renamed {
    pub use incarnate;
}
