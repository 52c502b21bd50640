//! The modules of tests/models, translated to Rust by the build script, for the tests of this package.
#![forbid(unsafe_code)]

/// Names that are no identifiers, in a program that knows `incarnate` by another path.
pub mod hostile {
    include!(concat!(env!("OUT_DIR"), "/hostile.rs"));
}

/// What functions do with references that they are called with.
pub mod keeping {
    include!(concat!(env!("OUT_DIR"), "/keeping.rs"));
}

/// A module that holds an executable in two formats, with machine code.
pub mod formats_native {
    include!(concat!(env!("OUT_DIR"), "/formats_native.rs"));
}

/// The same with translated bytecode.
pub mod formats_portable {
    include!(concat!(env!("OUT_DIR"), "/formats_portable.rs"));
}

include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// What programs may call the crate.
pub mod renamed {
    pub use incarnate;
}
