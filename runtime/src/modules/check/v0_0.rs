//! Version 0.0 of the module.

use alloc::vec::Vec;

use super::CheckState;
use crate::bytecode::for_each_check_0_0;
use crate::vm::NativeFunction;
use crate::vm::native_table;

/// The version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<CheckState>> {
    for_each_check_0_0!(native_table CheckState)
}
