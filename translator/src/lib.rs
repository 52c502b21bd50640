//! Translates verified modules to Rust source: every function of a module becomes a Rust function.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "the rooms that use it come next")]
mod function;
#[allow(dead_code, reason = "what uses it is made")]
mod names;
