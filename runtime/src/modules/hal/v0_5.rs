//! Version 0.5 of the module, which compilers 3.0 to 3.3 import: it has fewer flags and affinities, and executes a list
//! of command buffers.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{HalState, OptionalFence, fences};
use crate::bytecode::for_each_hal_0_5;
use crate::hal::{Buffer, BufferBinding, Channel, CommandBuffer, Device, Executable, Fence, File, SignalFence};
use crate::vm::{Buffer as VmBuffer, Caller, MaybeOwned, NativeFunction, Outcome, Span};
use crate::vm::{direct_table, native_table};
use crate::{Error, Result};

/// The queue affinity that selects any queue of a device.
const ANY_QUEUE: u64 = u64::MAX;

/// Returns the functions of this version that differ from version 0.6.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalState>> {
    for_each_hal_0_5!(native_table HalState)
}

/// Returns the same functions without packed calls, for translated modules.
#[must_use]
pub fn direct_functions() -> Vec<NativeFunction<HalState>> {
    for_each_hal_0_5!(direct_table HalState)
}

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn channel_create_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        flags: u32,
        id: Option<Arc<VmBuffer>>,
        group: Option<Arc<VmBuffer>>,
        rank: i32,
        count: i32,
    ) -> Result<Arc<Channel>> {
        self.channel_create(caller, device, affinity, flags.into(), id, group, rank, count)
    }

    pub fn channel_split_v0_5(
        &self,
        caller: &mut Caller<'_>,
        channel: Arc<Channel>,
        color: i32,
        key: i32,
        flags: u32,
    ) -> Result<Arc<Channel>> {
        self.channel_split(caller, channel, color, key, flags.into())
    }

    pub fn command_buffer_copy_buffer_v0_5(
        &self,
        caller: &mut Caller<'_>,
        commands: &CommandBuffer,
        source_slot: u32,
        target_slot: u32,
        source: Option<Arc<Buffer>>,
        source_offset: u64,
        target: Option<Arc<Buffer>>,
        target_offset: u64,
        length: u64,
    ) -> Result<()> {
        self.command_buffer_copy_buffer(
            caller,
            commands,
            source_slot,
            target_slot,
            source,
            source_offset,
            target,
            target_offset,
            length,
            0,
        )
    }

    pub fn command_buffer_execution_barrier_v0_5(
        &self,
        caller: &mut Caller<'_>,
        commands: &CommandBuffer,
        source_stages: u32,
        target_stages: u32,
        flags: u32,
    ) -> Result<()> {
        self.command_buffer_execution_barrier(caller, commands, source_stages, target_stages, flags.into())
    }

    pub fn command_buffer_fill_buffer_v0_5(
        &self,
        caller: &mut Caller<'_>,
        commands: &CommandBuffer,
        buffer: Option<Arc<Buffer>>,
        offset: u64,
        length: u64,
        slot: u32,
        pattern: u32,
        pattern_length: u32,
    ) -> Result<()> {
        let pattern = pattern.into();
        self.command_buffer_fill_buffer(caller, commands, buffer, offset, length, slot, pattern, pattern_length, 0)
    }

    pub fn command_buffer_update_buffer_v0_5(
        &self,
        caller: &mut Caller<'_>,
        commands: &CommandBuffer,
        source: Arc<VmBuffer>,
        source_offset: u64,
        buffer: Option<Arc<Buffer>>,
        offset: u64,
        length: u64,
        slot: u32,
    ) -> Result<()> {
        self.command_buffer_update_buffer(caller, commands, source, source_offset, buffer, offset, length, slot, 0)
    }

    pub fn queue_alloca_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        pool: u32,
        memory_type: u32,
        usage: u32,
        length: u64,
    ) -> Result<Arc<Buffer>> {
        self.queue_alloca(caller, device, affinity, wait, signal, pool.into(), memory_type, usage, length, 0)
    }

    pub fn queue_dealloca_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        buffer: Arc<Buffer>,
    ) -> Result<()> {
        self.queue_dealloca(caller, device, affinity, wait, signal, buffer, 0)
    }

    /// Executes the only command buffer of the list; an empty list is a barrier.
    pub fn queue_execute_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        commands: Span<MaybeOwned<'_, CommandBuffer>>,
    ) -> Result<()> {
        match &*commands {
            [] => self.queue_barrier(caller, device, affinity, wait, signal, 0),
            [only] => device.queue_execute(fences(&wait, signal), only, &[]),
            _ => Err(Error::invalid_argument("only zero or one command buffer is allowed")),
        }
    }

    pub fn queue_execute_indirect_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        commands: MaybeOwned<'_, CommandBuffer>,
        table: Span<BufferBinding<'_>>,
    ) -> Result<()> {
        self.queue_execute_indirect(caller, device, affinity, wait, signal, commands, 0, table)
    }

    pub fn queue_read_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        source: Arc<File>,
        source_offset: u64,
        target: Arc<Buffer>,
        target_offset: u64,
        length: u64,
        flags: u32,
    ) -> Result<()> {
        self.queue_read(
            caller,
            device,
            affinity,
            wait,
            signal,
            source,
            source_offset,
            target,
            target_offset,
            length,
            flags.into(),
        )
    }

    pub fn queue_write_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        source: Arc<Buffer>,
        source_offset: u64,
        target: Arc<File>,
        target_offset: u64,
        length: u64,
        flags: u32,
    ) -> Result<()> {
        self.queue_write(
            caller,
            device,
            affinity,
            wait,
            signal,
            source,
            source_offset,
            target,
            target_offset,
            length,
            flags.into(),
        )
    }

    pub fn executable_create_v0_5(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        format: Arc<VmBuffer>,
        data: Arc<VmBuffer>,
        constants: Option<Arc<VmBuffer>>,
    ) -> Result<Arc<Executable>> {
        self.executable_create(caller, device, ANY_QUEUE, format, data, constants)
    }

    pub fn fence_await_v0_5(
        &self,
        caller: &mut Caller<'_>,
        timeout_ms: u32,
        fences: Span<Option<Arc<Fence>>>,
    ) -> Result<Outcome<u32>> {
        self.fence_await(caller, timeout_ms, 0, fences)
    }

    pub fn fence_create_v0_5(&self, caller: &mut Caller<'_>, device: &Device, flags: u32) -> Result<Arc<Fence>> {
        self.fence_create(caller, device, flags.into())
    }

    pub fn fence_join_v0_5(
        &self,
        caller: &mut Caller<'_>,
        fences: Span<Option<Arc<Fence>>>,
    ) -> Result<Option<Arc<Fence>>> {
        self.fence_join(caller, 0, fences)
    }
}
