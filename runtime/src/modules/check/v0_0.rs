//! Version 0.0 of the module.

use alloc::vec::Vec;

use super::CheckState;
use crate::modules::imports::{for_each_check_0_0, native_table};
use crate::vm::NativeFunction;

/// The version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<CheckState>> {
    for_each_check_0_0!(native_table CheckState)
}
