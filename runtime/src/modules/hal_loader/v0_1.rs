//! Version 0.1 of the module, which compilers import since 3.12.

use alloc::vec::Vec;

use super::HalLoaderState;
use crate::modules::imports::for_each_hal_loader_0_1;
use crate::native_functions;
use crate::vm::NativeFunction;

/// The version, as modules name the least that they need.
pub const VERSION: u32 = 1;

macro_rules! functions {
    ($(($name:literal, $method:ident, $convention:literal))*) => {
        native_functions! { $($name => HalLoaderState::$method),* }
    };
}

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalLoaderState>> {
    for_each_hal_loader_0_1!(functions)
}
