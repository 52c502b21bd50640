//! Version 0.7 of the module, which compilers import since 3.12.

use alloc::vec::Vec;

use super::HalState;
use crate::bytecode::for_each_hal_0_7;
use crate::vm::NativeFunction;
use crate::vm::{direct_table, native_table};

/// The version, which modules declare as their minimum.
pub const VERSION: u32 = 7;

/// Returns the functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalState>> {
    for_each_hal_0_7!(native_table HalState)
}

/// Returns the same functions without packed calls, for translated modules.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<HalState>> {
    for_each_hal_0_7!(direct_table HalState)
}
