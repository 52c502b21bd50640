//! Version 0.0 of the module, which compilers import since 3.8 at least.

use alloc::vec::Vec;

use super::HalInlineState;
use crate::bytecode::for_each_hal_inline_0_0;
use crate::vm::NativeFunction;
use crate::vm::{direct_table, native_table};

/// The version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// Returns the functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalInlineState>> {
    for_each_hal_inline_0_0!(native_table HalInlineState)
}

/// Returns the same functions without packed calls, for translated modules.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<HalInlineState>> {
    for_each_hal_inline_0_0!(direct_table HalInlineState)
}
