//! Version 0.0 of the module.

use alloc::vec::Vec;

use super::IoParametersState;
use crate::bytecode::for_each_io_parameters_0_0;
use crate::vm::NativeFunction;
use crate::vm::{direct_table, native_table};

/// The version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// Returns the functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<IoParametersState>> {
    for_each_io_parameters_0_0!(native_table IoParametersState)
}

/// Returns the same functions without packed calls, for translated modules.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<IoParametersState>> {
    for_each_io_parameters_0_0!(direct_table IoParametersState)
}
