//! Appending of commands to the arrays of a command buffer.

use alloc::format;
use core::ops::Range;

use super::growth;
use super::kernel::{MAXIMUM_BINDINGS, too_many_bindings};
use super::ranges::{BufferRange, check_slot};
use super::recorded::{Binding, BindingSource, BufferRef, Commands, SharedBuffer, WorkgroupCount};
use crate::memory::parameters::BufferUsage;
use crate::vm::Charge;
use crate::{Error, Result};

/// Appends to the arrays of a command buffer.
pub(super) struct Recorder<'a> {
    pub(super) commands: &'a mut Commands,
    pub(super) charge: &'a mut Charge,
    pub(super) binding_capacity: u32,
}

impl Recorder<'_> {
    /// Records a range; gives its index and its length, which is [`WHOLE_BUFFER`] only for slots.
    #[inline(always)]
    pub(super) fn binding(&mut self, range: BufferRef<impl SharedBuffer>, usage: BufferUsage) -> Result<(u32, u64)> {
        let binding = match range.buffer {
            Some(shared) => {
                let checked = BufferRange::checked(shared.buffer(), usage, (range.offset, range.length))?;
                let BufferRange { offset, length, .. } = checked;
                let source = BindingSource::Direct(index(self.commands.buffers.len())?);
                growth::reserve(&mut self.commands.buffers, self.charge, 1)?;
                self.commands.buffers.push(shared.into_arc());
                Binding { source, offset: offset as u64, length: length as u64 }
            }
            None => {
                check_slot(range.slot, self.binding_capacity)?;
                self.commands.slot_count = self.commands.slot_count.max(range.slot + 1);
                Binding { source: BindingSource::Slot(range.slot), offset: range.offset, length: range.length }
            }
        };
        let position = index(self.commands.bindings.len())?;
        growth::reserve(&mut self.commands.bindings, self.charge, 1)?;
        self.commands.bindings.push(binding);
        Ok((position, binding.length))
    }

    pub(super) fn write_target(&mut self, range: BufferRef) -> Result<(u32, u64)> {
        if let Some(buffer) = &range.buffer {
            buffer.check_writable()?;
        }
        self.binding(range, BufferUsage::TRANSFER_TARGET)
    }

    pub(super) fn indirect_count(&mut self, counts: BufferRef) -> Result<WorkgroupCount> {
        if !counts.offset.is_multiple_of(4) {
            return Err(Error::invalid_argument(format!(
                "workgroup counts at offset {} are not aligned to 4 bytes",
                counts.offset
            )));
        }
        let counts = BufferRef { length: size_of::<[u32; 3]>() as u64, ..counts };
        Ok(WorkgroupCount::Indirect(self.binding(counts, BufferUsage::DISPATCH)?.0))
    }

    pub(super) fn constants(&mut self, constants: &[u32]) -> Result<Range<u32>> {
        let start = index(self.commands.constants.len())?;
        growth::append(&mut self.commands.constants, self.charge, constants)?;
        Ok(start..index(self.commands.constants.len())?)
    }

    pub(super) fn dispatch_bindings(
        &mut self,
        bindings: impl Iterator<Item = BufferRef<impl SharedBuffer>>,
    ) -> Result<Range<u32>> {
        let start = index(self.commands.bindings.len())?;
        for (ordinal, binding) in bindings.enumerate() {
            if ordinal == MAXIMUM_BINDINGS {
                return Err(too_many_bindings());
            }
            self.binding(binding, BufferUsage::DISPATCH)
                .map_err(|error| error.context(format!("binding {ordinal}")))?;
        }
        Ok(start..index(self.commands.bindings.len())?)
    }
}

/// The index of an element of an array.
pub(super) fn index(position: usize) -> Result<u32> {
    u32::try_from(position).map_err(|_| Error::resource_exhausted("command buffer is full"))
}
