//! Translates many programs into one crate and compiles it.
