//! Imports that record command buffers.

use alloc::sync::Arc;

use super::{HalState, limits_of, with_bytes};
use crate::Result;
use crate::hal::{
    Buffer, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, Device, DispatchFlags, Executable,
    ExecutionStage, WHOLE_BUFFER, Workgroups,
};
use crate::vm::{Buffer as VmBuffer, Caller, MaybeOwned, Span};

/// A binding of a dispatch.
type DispatchBinding<'a> = BufferRef<MaybeOwned<'a, Buffer>>;

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn command_buffer_create(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        modes: u32,
        categories: u32,
        _affinity: u64,
        binding_capacity: u32,
    ) -> Result<Arc<CommandBuffer>> {
        let (modes, categories) =
            (CommandBufferMode::from_bits_retain(modes), CommandCategory::from_bits_retain(categories));
        device.create_command_buffer_within(
            limits_of(caller, &self.options.pending),
            modes,
            categories,
            binding_capacity,
        )
    }

    pub fn command_buffer_finalize(&self, _: &mut Caller<'_>, commands: &CommandBuffer) -> Result<()> {
        commands.finalize()
    }

    pub fn command_buffer_begin_debug_group(
        &self,
        _: &mut Caller<'_>,
        commands: &CommandBuffer,
        label: Arc<VmBuffer>,
    ) -> Result<()> {
        commands.begin_debug_group(&label.text()?)
    }

    pub fn command_buffer_end_debug_group(&self, _: &mut Caller<'_>, commands: &CommandBuffer) -> Result<()> {
        commands.end_debug_group()
    }

    pub fn command_buffer_execution_barrier(
        &self,
        _: &mut Caller<'_>,
        commands: &CommandBuffer,
        source_stages: u32,
        target_stages: u32,
        _flags: u64,
    ) -> Result<()> {
        commands.execution_barrier(
            ExecutionStage::from_bits_retain(source_stages),
            ExecutionStage::from_bits_retain(target_stages),
        )
    }

    pub fn command_buffer_advise_buffer(
        &self,
        _: &mut Caller<'_>,
        commands: &CommandBuffer,
        buffer: Option<Arc<Buffer>>,
        _flags: u64,
        _argument0: u64,
        _argument1: u64,
        slot: u32,
    ) -> Result<()> {
        commands.advise(&BufferRef { buffer, slot, offset: 0, length: WHOLE_BUFFER })
    }

    pub fn command_buffer_fill_buffer(
        &self,
        _: &mut Caller<'_>,
        commands: &CommandBuffer,
        buffer: Option<Arc<Buffer>>,
        offset: u64,
        length: u64,
        slot: u32,
        pattern: u64,
        pattern_length: u32,
        _flags: u64,
    ) -> Result<()> {
        commands.fill(BufferRef { buffer, slot, offset, length }, pattern, pattern_length as usize)
    }

    pub fn command_buffer_update_buffer(
        &self,
        caller: &mut Caller<'_>,
        commands: &CommandBuffer,
        source: Arc<VmBuffer>,
        source_offset: u64,
        buffer: Option<Arc<Buffer>>,
        offset: u64,
        length: u64,
        slot: u32,
        _flags: u64,
    ) -> Result<()> {
        let target = BufferRef { buffer, slot, offset, length };
        with_bytes(&source, source_offset, length, caller.ledger(), |bytes| commands.update(bytes, target))
    }

    pub fn command_buffer_copy_buffer(
        &self,
        _: &mut Caller<'_>,
        commands: &CommandBuffer,
        source_slot: u32,
        target_slot: u32,
        source_buffer: Option<Arc<Buffer>>,
        source_offset: u64,
        target_buffer: Option<Arc<Buffer>>,
        target_offset: u64,
        length: u64,
        _flags: u64,
    ) -> Result<()> {
        commands.copy(
            BufferRef { buffer: source_buffer, slot: source_slot, offset: source_offset, length },
            BufferRef { buffer: target_buffer, slot: target_slot, offset: target_offset, length },
        )
    }

    pub fn command_buffer_dispatch(
        &self,
        _: &mut Caller<'_>,
        commands: &CommandBuffer,
        executable: MaybeOwned<'_, Executable>,
        function: u64,
        workgroups_x: u32,
        workgroups_y: u32,
        workgroups_z: u32,
        flags: u64,
        constants: Span<u32>,
        bindings: Span<DispatchBinding<'_>>,
    ) -> Result<()> {
        let workgroups = Workgroups::Count([workgroups_x, workgroups_y, workgroups_z]);
        let flags = DispatchFlags::from_bits_retain(flags);
        commands.dispatch_borrowed(executable, function, workgroups, &constants, bindings, flags)
    }

    pub fn command_buffer_dispatch_indirect(
        &self,
        _: &mut Caller<'_>,
        commands: &CommandBuffer,
        executable: MaybeOwned<'_, Executable>,
        function: u64,
        slot: u32,
        buffer: Option<Arc<Buffer>>,
        offset: u64,
        flags: u64,
        constants: Span<u32>,
        bindings: Span<DispatchBinding<'_>>,
    ) -> Result<()> {
        let workgroups = Workgroups::Indirect(BufferRef { buffer, slot, offset, length: WHOLE_BUFFER });
        let flags = DispatchFlags::from_bits_retain(flags);
        commands.dispatch_borrowed(executable, function, workgroups, &constants, bindings, flags)
    }
}
