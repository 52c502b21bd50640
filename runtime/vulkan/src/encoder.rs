//! Recording of Vulkan's command buffers.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::fmt;
use std::sync::Arc;

use ash::vk;
use incarnate_hal::BufferBinding;
use incarnate_hal::backend::{Command, Commands};

use crate::context::Context;
use crate::descriptors::BoundRange;
use crate::error::Checked;
use crate::features::Family;
use crate::gpu::Gpu;
use crate::memory::{Allocation, BufferPosition};
use crate::objects::Objects;
use crate::pipeline::Pipeline;
use crate::queues::Point;
use crate::timing::Timing;
use crate::{Error, Result};

/// The most bytes of `vkCmdUpdateBuffer`.
const MOST_UPDATED: usize = 65_536;
/// The bytes of a pattern that are staged at once.
const PATTERN_BLOCK: u64 = 64 << 10;
/// The bytes of tables of device addresses that are allocated at once.
const TABLE_BLOCK: u64 = 16 << 10;

/// A recorded command buffer of Vulkan, with the memory that only it uses.
pub(crate) struct Recording {
    gpu: Arc<Gpu>,
    objects: Option<Objects>,
    kept: Vec<Allocation>,
    /// Set while a profile is recorded.
    timing: Option<Timing>,
}

/// How many workgroups a dispatch has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Direct([u32; 3]),
    Indirect(BufferPosition),
}

/// Records commands.
pub(crate) struct Encoder<'a> {
    context: &'a Context,
    family: Family,
    commands: vk::CommandBuffer,
    recording: Recording,
    /// The unused part of the last table of device addresses.
    table_used: u64,
    table: Option<usize>,
    bound: vk::Pipeline,
}

impl<'a> Encoder<'a> {
    /// Begins a command buffer for queues of a family that is submitted once, or any number of times.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn begin(context: &'a Context, family: Family, is_reusable: bool) -> Result<Encoder<'a>> {
        let gpu = &context.gpu;
        let objects = match gpu.take_objects(family.index) {
            Some(objects) => objects,
            None => Objects::new(&gpu.raw, family.index)?,
        };
        let commands = objects.commands;
        let recording = Recording { gpu: Arc::clone(gpu), objects: Some(objects), kept: Vec::new(), timing: None };
        let bound = vk::Pipeline::null();
        let encoder = Encoder { context, family, commands, recording, table_used: 0, table: None, bound };
        let usage = match is_reusable {
            true => vk::CommandBufferUsageFlags::SIMULTANEOUS_USE,
            false => vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT,
        };
        let info = vk::CommandBufferBeginInfo::default().flags(usage);
        // SAFETY: the command buffer is in the initial state: it is new, or its pool was reset when it was given back.
        unsafe { gpu.raw.begin_command_buffer(commands, &info) }.checked("beginning commands")?;
        // Submissions of a queue follow each other, so that the writes of one are visible to the next.
        encoder.barrier();
        Ok(encoder)
    }

    fn raw(&self) -> (&ash::Device, vk::CommandBuffer) {
        (&self.context.gpu.raw, self.commands)
    }

    /// Times the commands from here on, if a profile is recorded.
    ///
    /// # Errors
    /// Those of [`Timing::new`].
    pub(crate) fn time(&mut self, count: usize) -> Result<()> {
        self.recording.timing = Timing::new(&self.context.gpu, self.family, count)?;
        if let Some(timing) = &self.recording.timing {
            timing.begin(self.commands);
        }
        Ok(())
    }

    /// Writes the time after a command, if commands are timed.
    pub(crate) fn timed(&mut self, commands: &Commands, command: &Command, table: &[BufferBinding<'_>]) {
        if let Some(timing) = &mut self.recording.timing {
            timing.command(self.commands, commands, command, table);
        }
    }

    /// Lets the commands after it begin when those before it are done.
    pub(crate) fn barrier(&self) {
        let (stages, written) = self.writers();
        if !self.family.has_compute {
            self.dependency(stages, written, stages, written | vk::AccessFlags::TRANSFER_READ);
            return;
        }
        let stages = stages | vk::PipelineStageFlags::DRAW_INDIRECT;
        let used = written
            | vk::AccessFlags::SHADER_READ
            | vk::AccessFlags::UNIFORM_READ
            | vk::AccessFlags::TRANSFER_READ
            | vk::AccessFlags::INDIRECT_COMMAND_READ;
        self.dependency(stages, written, stages, used);
    }

    /// The stages of the family's queues that write, and how.
    fn writers(&self) -> (vk::PipelineStageFlags, vk::AccessFlags) {
        let (stages, written) = (vk::PipelineStageFlags::TRANSFER, vk::AccessFlags::TRANSFER_WRITE);
        match self.family.has_compute {
            true => (stages | vk::PipelineStageFlags::COMPUTE_SHADER, written | vk::AccessFlags::SHADER_WRITE),
            false => (stages, written),
        }
    }

    fn dependency(
        &self,
        before: vk::PipelineStageFlags,
        written: vk::AccessFlags,
        after: vk::PipelineStageFlags,
        used: vk::AccessFlags,
    ) {
        let barrier = vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(used);
        let (raw, commands) = self.raw();
        // SAFETY: the command buffer is being recorded.
        unsafe {
            raw.cmd_pipeline_barrier(commands, before, after, vk::DependencyFlags::empty(), &[barrier], &[], &[]);
        }
    }

    /// Ends recording.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn finish(self) -> Result<Recording> {
        // What was written is visible to the host once the submission is done.
        let (stages, written) = self.writers();
        self.dependency(stages, written, vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
        let (raw, commands) = self.raw();
        // SAFETY: the command buffer is being recorded.
        unsafe { raw.end_command_buffer(commands) }.checked("ending commands")?;
        Ok(self.recording)
    }

    /// Copies a range; the ranges may overlap.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if overlapping ranges need memory; INTERNAL if a range exceeds its allocation.
    pub(crate) fn copy(&mut self, source: BufferPosition, target: BufferPosition, length: u64) -> Result<()> {
        check(source, length)?;
        check(target, length)?;
        if length == 0 || source == target {
            return Ok(());
        }
        if source.buffer == target.buffer && source.offset.abs_diff(target.offset) < length {
            let between = self.context.heap.allocate_local(length)?;
            let position = between.position(0);
            self.recording.kept.push(between);
            self.copy_region(source, position, length);
            self.barrier();
            self.copy_region(position, target, length);
            return Ok(());
        }
        self.copy_region(source, target, length);
        Ok(())
    }

    /// Copies a range, which is not empty, to another one, which the caller has checked to be disjoint and within its buffer.
    fn copy_region(&self, source: BufferPosition, target: BufferPosition, size: u64) {
        let region = vk::BufferCopy { src_offset: source.offset, dst_offset: target.offset, size };
        self.copy_regions(source, target, &[region]);
    }

    fn copy_regions(&self, source: BufferPosition, target: BufferPosition, regions: &[vk::BufferCopy]) {
        let (raw, commands) = self.raw();
        // SAFETY: the command buffer is being recorded; the regions are within the buffers, not empty and disjoint, as the callers
        // checked.
        unsafe { raw.cmd_copy_buffer(commands, source.buffer, target.buffer, regions) };
    }

    /// Repeats the low `pattern_length` bytes of a pattern.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the pattern needs memory; INTERNAL if the range exceeds its allocation.
    pub(crate) fn fill(&mut self, target: BufferPosition, length: u64, pattern: u64, pattern_length: u8) -> Result<()> {
        check(target, length)?;
        let bytes = pattern.to_le_bytes();
        let repeated: [u8; 8] = std::array::from_fn(|index| {
            bytes.get(index % usize::from(pattern_length.clamp(1, 8))).copied().unwrap_or_default()
        });
        let repeated = u64::from_le_bytes(repeated);
        // Both are truncated to 32 bits.
        let (low, high) = (repeated as u32, (repeated >> 32) as u32);
        if length == 0 {
            return Ok(());
        }
        if low == high && target.offset.is_multiple_of(4) && length.is_multiple_of(4) {
            let (raw, commands) = self.raw();
            // SAFETY: the command buffer is being recorded; the range is within the buffer, not empty, and a multiple of 4.
            unsafe { raw.cmd_fill_buffer(commands, target.buffer, target.offset, length, low) };
            return Ok(());
        }
        let block = PATTERN_BLOCK.min(length.next_multiple_of(8));
        let staged = self.context.heap.allocate_mapped(block)?;
        let bytes: Vec<u8> = repeated.to_le_bytes().into_iter().cycle().take(block as usize).collect();
        staged.write_mapped(0, &bytes)?;
        let position = staged.position(0);
        self.recording.kept.push(staged);
        let starts = (0..length.div_ceil(block)).map(|index| index * block);
        let regions: Vec<_> = starts
            .map(|start| vk::BufferCopy {
                src_offset: position.offset,
                dst_offset: target.offset + start,
                size: block.min(length - start),
            })
            .collect();
        self.copy_regions(position, target, &regions);
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the bytes need memory; INTERNAL if the range exceeds its allocation.
    pub(crate) fn update(&mut self, target: BufferPosition, bytes: &[u8]) -> Result<()> {
        check(target, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() <= MOST_UPDATED && bytes.len().is_multiple_of(4) && target.offset.is_multiple_of(4) {
            let (raw, commands) = self.raw();
            // SAFETY: the command buffer is being recorded; the range is within the buffer, not empty, and a multiple of 4.
            unsafe { raw.cmd_update_buffer(commands, target.buffer, target.offset, bytes) };
            return Ok(());
        }
        let staged = self.context.heap.allocate_mapped(bytes.len() as u64)?;
        staged.write_mapped(0, bytes)?;
        let position = staged.position(0);
        self.recording.kept.push(staged);
        self.copy_region(position, target, bytes.len() as u64);
        Ok(())
    }

    /// Runs a function. The numbers of constants and ranges are those that it declares.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; INVALID_ARGUMENT and OUT_OF_RANGE with the limit that an operand exceeds.
    pub(crate) fn dispatch(
        &mut self,
        pipeline: &Pipeline,
        count: Count,
        constants: &[u32],
        ranges: &[BoundRange],
    ) -> Result<()> {
        let limits = &self.context.gpu.properties.limits;
        if let Count::Direct(count) = count {
            let most = limits.max_compute_work_group_count;
            if count.iter().zip(&most).any(|(count, most)| count > most) {
                return Err(Error::out_of_range(format!(
                    "{count:?} workgroups exceed maxComputeWorkGroupCount {most:?} of the device"
                )));
            }
            if count.contains(&0) {
                return Ok(());
            }
        }
        let push_constants = match &pipeline.addresses {
            Some(layout) => {
                let table = self.address_table(ranges, &layout.bindings)?;
                layout.push_constants(pipeline.push_constant_bytes, table, constants)
            }
            None => constants.iter().flat_map(|constant| constant.to_ne_bytes()).collect(),
        };
        if self.bound != pipeline.raw {
            let (raw, commands) = self.raw();
            // SAFETY: the command buffer is being recorded, and the pipeline is of the device.
            unsafe { raw.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline.raw) };
            self.bound = pipeline.raw;
        }
        if pipeline.addresses.is_none()
            && !ranges.is_empty()
            && let Some(objects) = &mut self.recording.objects
        {
            objects.descriptors.bind(&self.context.gpu, self.commands, pipeline, ranges)?;
        }
        if push_constants.len() != pipeline.push_constant_bytes as usize {
            return Err(Error::internal("push constants of another length than that of the layout"));
        }
        let (raw, commands) = self.raw();
        // SAFETY: the command buffer is being recorded; the layout has one range of push constants, of that length. The counts are
        // within the limits; indirect ones are 12 bytes within the buffer, which `check_counts` checked.
        unsafe {
            if !push_constants.is_empty() {
                let stages = vk::ShaderStageFlags::COMPUTE;
                raw.cmd_push_constants(commands, pipeline.layout, stages, 0, &push_constants);
            }
            match count {
                Count::Direct([x, y, z]) => raw.cmd_dispatch(commands, x, y, z),
                Count::Indirect(position) => {
                    check_counts(position)?;
                    raw.cmd_dispatch_indirect(commands, position.buffer, position.offset);
                }
            }
        }
        Ok(())
    }

    /// Writes a table of device addresses and returns its own address.
    fn address_table(
        &mut self,
        ranges: &[BoundRange],
        requirements: &[incarnate_bytecode::gpu_executable::BdaBinding],
    ) -> Result<u64> {
        for (ordinal, (range, required)) in ranges.iter().zip(requirements).enumerate() {
            let address = range.position.address;
            if address % u64::from(required.minimum_alignment.max(1)) != 0 || range.length < required.minimum_length {
                return Err(Error::invalid_argument(format!(
                    "binding {ordinal} has {} bytes at a device address that ends in {:#x}; the shader requires {} bytes, \
                     aligned to {}",
                    range.length,
                    address & 0xFFF,
                    required.minimum_length,
                    required.minimum_alignment
                )));
            }
        }
        let length = (ranges.len() * 8) as u64;
        let fits = self.table.and_then(|index| self.recording.kept.get(index));
        if fits.is_none_or(|table| table.position(self.table_used).available < length) {
            self.recording.kept.push(self.context.heap.allocate_mapped(TABLE_BLOCK.max(length))?);
            (self.table, self.table_used) = (Some(self.recording.kept.len() - 1), 0);
        }
        let Some(table) = self.table.and_then(|index| self.recording.kept.get(index)) else {
            return Err(Error::internal("table of device addresses is gone"));
        };
        let bytes: Vec<u8> = ranges.iter().flat_map(|range| range.position.address.to_le_bytes()).collect();
        table.write_mapped(self.table_used as usize, &bytes)?;
        let address = table.position(self.table_used).address;
        self.table_used += length;
        Ok(address)
    }
}

fn check(position: BufferPosition, length: u64) -> Result<()> {
    if length <= position.available {
        return Ok(());
    }
    Err(Error::internal(format!("range of {length} bytes exceeds the {} of device memory", position.available)))
}

fn check_counts(position: BufferPosition) -> Result<()> {
    if position.offset.is_multiple_of(4) {
        return check(position, 12);
    }
    Err(Error::invalid_argument("workgroup counts are not aligned to 4 bytes"))
}

impl Recording {
    /// Adds the times of the commands, which a queue has done, to the profile that is recorded.
    pub(crate) fn report(&self, queue: usize) {
        if let Some(timing) = &self.timing {
            timing.report(queue);
        }
    }

    /// Submits the commands to a queue, after submissions of other queues, and returns the point of the submission.
    ///
    /// # Safety
    /// The recording, and everything that its commands use, live until the submission is done.
    ///
    /// # Errors
    /// Those of [`Gpu::submit`].
    pub(crate) unsafe fn submit(&self, queue: usize, waits: &[Point]) -> Result<Point> {
        let family = self.gpu.queue(queue)?.family.index;
        let Some(objects) = self.objects.as_ref().filter(|objects| objects.family == family) else {
            return Err(Error::internal("recording has no commands for queues of the family"));
        };
        // SAFETY: recording has ended; the family is that of the queue; the caller keeps what the commands use.
        unsafe { self.gpu.submit(queue, objects.commands, waits) }
    }

    /// Submits the commands to a queue and waits until they are done.
    ///
    /// # Safety
    /// Everything that the commands use lives until the call returns.
    ///
    /// # Errors
    /// Those of [`Gpu::submit`].
    pub(crate) unsafe fn run(self, queue: usize) -> Result<()> {
        // SAFETY: this call keeps the recording until the submission is done or the device is lost, and the caller the rest.
        let point = unsafe { self.submit(queue, &[]) }?;
        self.gpu.wait_for(point)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(mut objects) = self.objects.take() else { return };
        // SAFETY: the submissions of the commands are done or the device is lost (contract of `submit`).
        let reset = unsafe { self.gpu.raw.reset_command_pool(objects.pool, vk::CommandPoolResetFlags::empty()) };
        if reset.is_ok() && objects.descriptors.reset(&self.gpu.raw) {
            self.gpu.give_back_objects(objects);
        } else {
            objects.destroy(&self.gpu.raw);
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}
