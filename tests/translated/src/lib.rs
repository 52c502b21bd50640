//! The modules of tests/models, translated to Rust by the build script, for the tests of this package.
#![forbid(unsafe_code)]

/// Names that are no identifiers, in a program that knows `incarnate` by another path.
pub mod hostile {
    include!(concat!(env!("OUT_DIR"), "/hostile.rs"));
}

include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// What programs may call the crate.
pub mod renamed {
    pub use incarnate;
}
