//! Version 0.6 of the module, which compilers 3.4 to 3.11 import: dispatches name a kernel by its ordinal.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::HalState;
use super::command_buffer::DispatchBinding;
use crate::Result;
use crate::bytecode::for_each_hal_0_6;
use crate::hal::{Buffer, CommandBuffer, Executable};
use crate::vm::{Caller, NativeFunction, Span};
use crate::vm::{direct_table, native_table};

/// Returns the functions of this version that differ from version 0.7.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalState>> {
    for_each_hal_0_6!(native_table HalState)
}

/// Returns the same functions without packed calls, for translated modules.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<HalState>> {
    for_each_hal_0_6!(direct_table HalState)
}

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn command_buffer_dispatch_v0_6(
        &self,
        caller: &mut Caller<'_>,
        commands: &CommandBuffer,
        executable: Arc<Executable>,
        ordinal: u32,
        workgroups_x: u32,
        workgroups_y: u32,
        workgroups_z: u32,
        flags: u64,
        constants: Span<u32>,
        bindings: Span<DispatchBinding>,
    ) -> Result<()> {
        let (function, [x, y, z]) = (u64::from(ordinal), [workgroups_x, workgroups_y, workgroups_z]);
        self.command_buffer_dispatch(caller, commands, executable, function, x, y, z, flags, constants, bindings)
    }

    pub fn command_buffer_dispatch_indirect_v0_6(
        &self,
        caller: &mut Caller<'_>,
        commands: &CommandBuffer,
        executable: Arc<Executable>,
        ordinal: u32,
        slot: u32,
        buffer: Option<Arc<Buffer>>,
        offset: u64,
        flags: u64,
        constants: Span<u32>,
        bindings: Span<DispatchBinding>,
    ) -> Result<()> {
        let function = u64::from(ordinal);
        self.command_buffer_dispatch_indirect(
            caller, commands, executable, function, slot, buffer, offset, flags, constants, bindings,
        )
    }
}
