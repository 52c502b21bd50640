//! Version 0.1 of the module, which compilers import since 3.12.

use alloc::vec::Vec;

use super::HalLoaderState;
use crate::bytecode::for_each_hal_loader_0_1;
use crate::vm::NativeFunction;
use crate::vm::{direct_table, native_table};

/// The version, which modules declare as their minimum.
pub const VERSION: u32 = 1;

/// Returns the functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalLoaderState>> {
    for_each_hal_loader_0_1!(native_table HalLoaderState)
}

/// Returns the same functions without packed calls, for translated modules.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<HalLoaderState>> {
    for_each_hal_loader_0_1!(direct_table HalLoaderState)
}
