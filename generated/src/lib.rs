//! FlatBuffer accessors that flatc makes of the schemas/ folder; `schemas/regenerate` rewrites and checks them.
#![no_std]

/// Accessors and builders of `schemas/bytecode_module.fbs`.
#[allow(
    unsafe_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    mismatched_lifetime_syntaxes,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rust_2018_idioms,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    reason = "made by flatc; what it relies on is the verification that every safe entry point runs first"
)]
#[rustfmt::skip]
pub mod bytecode_module;

/// Accessors and builders of `schemas/vulkan_executable.fbs`.
#[allow(
    unsafe_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    mismatched_lifetime_syntaxes,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rust_2018_idioms,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    reason = "made by flatc; what it relies on is the verification that every safe entry point runs first"
)]
#[rustfmt::skip]
pub mod vulkan_executable;

/// Accessors and builders of `schemas/cuda_executable.fbs`.
#[allow(
    unsafe_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    mismatched_lifetime_syntaxes,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rust_2018_idioms,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    reason = "made by flatc; what it relies on is the verification that every safe entry point runs first"
)]
#[rustfmt::skip]
pub mod cuda_executable;
