//! The modules of tests/models, translated to Rust by the build script, for the tests of this package.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/models.rs"));
