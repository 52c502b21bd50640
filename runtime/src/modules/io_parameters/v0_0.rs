//! Version 0.0 of the module.

use alloc::vec::Vec;

use super::IoParametersState;
use crate::modules::imports::{direct_table, for_each_io_parameters_0_0, native_table};
use crate::vm::NativeFunction;

/// The version, as modules name the least that they need.
pub const VERSION: u32 = 0;

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<IoParametersState>> {
    for_each_io_parameters_0_0!(native_table IoParametersState)
}

/// The functions of this version for translated modules alone: they have no packed calls.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<IoParametersState>> {
    for_each_io_parameters_0_0!(direct_table IoParametersState)
}
