//! Version 0.0 of the module, which compilers 3.0 to 3.11 import: dispatches name a kernel by its ordinal.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::HalLoaderState;
use crate::Result;
use crate::bytecode::for_each_hal_loader_0_0;
use crate::hal::Executable;
use crate::vm::{Buffer as VmBuffer, Caller, NativeFunction, Span};
use crate::vm::{direct_table, native_table};

/// Returns the functions of this version that differ from version 0.1.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalLoaderState>> {
    for_each_hal_loader_0_0!(native_table HalLoaderState)
}

/// Returns the same functions without packed calls, for translated modules.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<HalLoaderState>> {
    for_each_hal_loader_0_0!(direct_table HalLoaderState)
}

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalLoaderState {
    pub fn executable_dispatch_v0_0(
        &self,
        caller: &mut Caller<'_>,
        executable: &Executable,
        ordinal: u32,
        x: u32,
        y: u32,
        z: u32,
        constants: Span<u32>,
        bindings: Span<(Arc<VmBuffer>, u64, u64)>,
    ) -> Result<()> {
        self.executable_dispatch(caller, executable, ordinal.into(), x, y, z, constants, bindings)
    }
}
