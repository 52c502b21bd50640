//! Version 0.1 of the module, which compilers import since 3.12.

use alloc::vec::Vec;

use super::HalLoaderState;
use crate::native_functions;
use crate::vm::NativeFunction;

/// The version, as modules name the least that they need.
pub const VERSION: u32 = 1;

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalLoaderState>> {
    native_functions! {
        "executable.dispatch" => HalLoaderState::executable_dispatch,
        "executable.load" => HalLoaderState::executable_load,
        "executable.lookup.function" => HalLoaderState::executable_lookup_function,
        "executable.query_support" => HalLoaderState::executable_query_support,
    }
}
