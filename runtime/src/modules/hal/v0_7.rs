//! Version 0.7 of the module, which compilers import since 3.12.

use alloc::vec::Vec;

use super::HalState;
use crate::modules::imports::for_each_hal_0_7;
use crate::native_functions;
use crate::vm::NativeFunction;

/// The version, as modules name the least that they need.
pub const VERSION: u32 = 7;

macro_rules! functions {
    ($(($name:literal, $method:ident $(resume $resume:ident)?, $convention:literal))*) => {
        native_functions! { $($name => HalState::$method $(, resume HalState::$resume)?),* }
    };
}

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalState>> {
    for_each_hal_0_7!(functions)
}
