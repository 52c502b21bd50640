//! Imports on devices and their queues.

use alloc::sync::Arc;

use super::{HalState, with_bytes};
use crate::hal::backend::Transients;
use crate::hal::{
    Allocator, Buffer, BufferBinding, BufferParameters, BufferUsage, CallLimits, CommandBuffer, Device, Fence, Fences,
    File, MemoryAccess, MemoryType, PendingOperations, QueueAffinity, SignalFence,
};
use crate::vm::{Buffer as VmBuffer, Caller, MaybeOwned, Span};
use crate::{Error, Result};

/// The fence that a queue operation waits for, if any.
pub(in crate::modules) type OptionalFence<'a> = Option<MaybeOwned<'a, Fence>>;

/// The limits of what a call creates and submits, which shares the steps that the call has left, and the pending operations of
/// its session.
#[inline]
pub(in crate::modules) fn limits_of<'a>(
    caller: &'a mut Caller<'_>,
    pending: &'a Arc<PendingOperations>,
) -> CallLimits<'a> {
    caller.stack.share_meter();
    CallLimits { ledger: Some(caller.ledger()), meter: caller.stack.shared_meter(), pending: Some(pending) }
}

/// The fences of an operation.
#[inline]
pub(in crate::modules) fn fences<'a>(
    caller: &'a mut Caller<'_>,
    pending: &'a Arc<PendingOperations>,
    affinity: u64,
    wait: &'a OptionalFence<'_>,
    signal: SignalFence<'a>,
) -> Fences<'a> {
    let wait = wait.as_ref().map(|wait| &***wait);
    Fences { wait, signal, limits: limits_of(caller, pending), affinity: QueueAffinity(affinity) }
}

fn parameters(memory_type: u32, usage: u32) -> BufferParameters {
    BufferParameters {
        memory_type: MemoryType::from_bits_retain(memory_type),
        usage: BufferUsage::from_bits_retain(usage),
    }
}

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn devices_count(&self, _: &mut Caller<'_>) -> Result<u32> {
        u32::try_from(self.options.devices.len()).map_err(|_| Error::out_of_range("number of devices exceeds 32 bits"))
    }

    pub fn devices_get(&self, _: &mut Caller<'_>, index: u32) -> Result<Option<Arc<Device>>> {
        Ok(self.options.devices.get(index as usize).cloned())
    }

    pub fn device_allocator(&self, _: &mut Caller<'_>, device: &Device) -> Result<Arc<Allocator>> {
        Ok(Arc::clone(device.allocator()))
    }

    pub fn device_query(
        &self,
        _: &mut Caller<'_>,
        device: &Device,
        category: &VmBuffer,
        key: &VmBuffer,
    ) -> Result<(i32, i64)> {
        let answer = device.query(&self.loaders, &category.text()?, &key.text()?);
        Ok((i32::from(answer.is_some()), answer.unwrap_or(0)))
    }

    #[inline]
    pub fn queue_alloca(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        pool: u64,
        memory_type: u32,
        usage: u32,
        length: u64,
        _flags: u64,
    ) -> Result<Arc<Buffer>> {
        if pool != 0 {
            return Err(Error::unimplemented(alloc::format!(
                "device '{}' has one pool and not number {pool}",
                device.id()
            )));
        }
        let fences = fences(caller, &self.options.pending, affinity, &wait, signal);
        device.queue_alloca(fences, parameters(memory_type, usage), length)
    }

    /// As [`HalState::queue_alloca`], for a buffer that lives within the call, as the translator found.
    #[inline]
    pub fn queue_alloca_transient(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        pool: u64,
        memory_type: u32,
        usage: u32,
        length: u64,
        flags: u64,
    ) -> Result<Arc<Buffer>> {
        let parameters = parameters(memory_type, usage);
        // What is kept is of one allocator, and counted by no ledger.
        let is_kept = pool == 0
            && !caller.ledger().is_limited()
            && matches!(&self.options.devices[..], [only] if core::ptr::eq(&raw const **only, device));
        let transients = if is_kept { caller.stack.kept::<Transients>() } else { None };
        if let Some(buffer) = transients.and_then(|transients| transients.take(parameters, length)) {
            device.queue_barrier(fences(caller, &self.options.pending, affinity, &wait, signal))?;
            return Ok(buffer);
        }
        let buffer =
            self.queue_alloca(caller, device, affinity, wait, signal, pool, memory_type, usage, length, flags)?;
        if is_kept && let Some(transients) = caller.stack.kept::<Transients>() {
            transients.keep(parameters, &buffer);
        }
        Ok(buffer)
    }

    #[inline]
    pub fn queue_dealloca(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        buffer: Arc<Buffer>,
        _flags: u64,
    ) -> Result<()> {
        device.queue_dealloca(fences(caller, &self.options.pending, affinity, &wait, signal), buffer)
    }

    pub fn queue_fill(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        target: Arc<Buffer>,
        offset: u64,
        length: u64,
        pattern: u64,
        pattern_length: u32,
        _flags: u64,
    ) -> Result<()> {
        device.queue_fill(
            fences(caller, &self.options.pending, affinity, &wait, signal),
            target,
            offset,
            length,
            pattern,
            pattern_length as usize,
        )
    }

    pub fn queue_update(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        source: Arc<VmBuffer>,
        source_offset: u64,
        target: Arc<Buffer>,
        target_offset: u64,
        length: u64,
        _flags: u64,
    ) -> Result<()> {
        let fences = fences(caller, &self.options.pending, affinity, &wait, signal);
        let ledger = fences.limits.ledger();
        with_bytes(&source, source_offset, length, ledger, |bytes| {
            device.queue_update(fences, bytes, target, target_offset)
        })
    }

    pub fn queue_copy(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        source: Arc<Buffer>,
        source_offset: u64,
        target: Arc<Buffer>,
        target_offset: u64,
        length: u64,
        _flags: u64,
    ) -> Result<()> {
        device.queue_copy(
            fences(caller, &self.options.pending, affinity, &wait, signal),
            (source, source_offset),
            (target, target_offset),
            length,
        )
    }

    pub fn queue_read(
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
        _flags: u64,
    ) -> Result<()> {
        device.queue_read(
            fences(caller, &self.options.pending, affinity, &wait, signal),
            (source, source_offset),
            (target, target_offset),
            length,
        )
    }

    pub fn queue_write(
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
        _flags: u64,
    ) -> Result<()> {
        device.queue_write(
            fences(caller, &self.options.pending, affinity, &wait, signal),
            (source, source_offset),
            (target, target_offset),
            length,
        )
    }

    pub fn queue_barrier(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        _flags: u64,
    ) -> Result<()> {
        device.queue_barrier(fences(caller, &self.options.pending, affinity, &wait, signal))
    }

    #[inline]
    pub fn queue_execute(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        commands: MaybeOwned<'_, CommandBuffer>,
        _flags: u64,
    ) -> Result<()> {
        device.queue_execute(fences(caller, &self.options.pending, affinity, &wait, signal), &commands, &[])
    }

    /// Executes the only command buffer of the list, as version 0.5 of the module passes it; an empty list is a barrier.
    pub fn queue_execute_list(
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
            [only] => device.queue_execute(fences(caller, &self.options.pending, affinity, &wait, signal), only, &[]),
            _ => Err(Error::invalid_argument("only zero or one command buffer is allowed")),
        }
    }

    #[inline]
    pub fn queue_execute_indirect(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        commands: MaybeOwned<'_, CommandBuffer>,
        _flags: u64,
        table: Span<BufferBinding<'_>>,
    ) -> Result<()> {
        self.execute_indirect(caller, device, (affinity, wait, signal), &commands, &table)
    }

    /// Submits the execution of a command buffer with bindings, between two fences.
    // Programs have a copy of the caller for each form of its arguments.
    #[inline(never)]
    pub(crate) fn execute_indirect(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        (affinity, wait, signal): (u64, OptionalFence<'_>, SignalFence<'_>),
        commands: &Arc<CommandBuffer>,
        table: &[BufferBinding<'_>],
    ) -> Result<()> {
        device.queue_execute(fences(caller, &self.options.pending, affinity, &wait, signal), commands, table)
    }

    pub fn queue_flush(&self, _: &mut Caller<'_>, device: &Device, _affinity: u64) -> Result<()> {
        device.queue_flush()
    }

    pub fn file_from_memory(
        &self,
        caller: &mut Caller<'_>,
        _device: Arc<Device>,
        _affinity: u64,
        access: u32,
        source: Arc<VmBuffer>,
        offset: u64,
        length: u64,
        _flags: u32,
    ) -> Result<Arc<File>> {
        let access = MemoryAccess::from_bits_retain(access);
        File::from_vm_buffer(&source, offset, length, access, caller.ledger()).map(Arc::new)
    }
}
