//! Version 0.1 of the module, which compilers import since 3.12.

use alloc::vec::Vec;

use super::HalLoaderState;
use crate::modules::imports::{direct_table, for_each_hal_loader_0_1, native_table};
use crate::vm::NativeFunction;

/// The version, as modules name the least that they need.
pub const VERSION: u32 = 1;

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalLoaderState>> {
    for_each_hal_loader_0_1!(native_table HalLoaderState)
}

/// The functions of this version for translated modules alone: they have no packed calls.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<HalLoaderState>> {
    for_each_hal_loader_0_1!(direct_table HalLoaderState)
}
