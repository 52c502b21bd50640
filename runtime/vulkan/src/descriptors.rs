//! Descriptor sets of recordings: pushed where the device can, otherwise allocated from pools.
#![allow(unsafe_code, reason = "calls Vulkan")]

use ash::vk;

use crate::error::Checked;
use crate::gpu::Gpu;
use crate::memory::BufferPosition;
use crate::objects::DescriptorPools;
use crate::pipeline::{Pipeline, descriptor_type};
use crate::{Error, Result};

/// Sets, and descriptors of each kind, of a pool.
const SETS: u32 = 256;
const STORAGE_DESCRIPTORS: u32 = 2048;
const UNIFORM_DESCRIPTORS: u32 = 256;

/// A range of a dispatch's binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundRange {
    pub(crate) position: BufferPosition,
    pub(crate) length: u64,
}

impl DescriptorPools {
    /// Binds ranges to the descriptors of a pipeline, in order.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the limit that a range exceeds; RESOURCE_EXHAUSTED.
    pub(crate) fn bind(
        &mut self,
        gpu: &Gpu,
        commands: vk::CommandBuffer,
        pipeline: &Pipeline,
        ranges: &[BoundRange],
    ) -> Result<()> {
        if ranges.len() != pipeline.descriptor_count {
            return Err(Error::internal("dispatch has another number of bindings than its function has descriptors"));
        }
        self.infos.clear();
        for (ordinal, (range, is_uniform)) in ranges.iter().zip(&pipeline.uniforms).enumerate() {
            let info = info(gpu, range, *is_uniform).map_err(|error| error.context(format!("binding {ordinal}")))?;
            self.infos.push(info);
        }
        let pushes = gpu.push_descriptors.as_ref().filter(|_| pipeline.is_pushed);
        let sets = if pushes.is_some() { vec![vk::DescriptorSet::null()] } else { self.allocate(gpu, pipeline)? };
        let mut start = 0;
        let mut writes = Vec::new();
        for &(set, ref binding) in &pipeline.descriptors {
            let end = start + binding.count as usize;
            let Some(infos) = self.infos.get(start..end) else {
                return Err(Error::internal("descriptors of a pipeline are miscounted"));
            };
            let kind = descriptor_type(binding.is_uniform);
            let set = sets.get(set).copied().unwrap_or_default();
            let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding.binding);
            writes.push(write.descriptor_type(kind).buffer_info(infos));
            start = end;
        }
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the command buffer is being recorded; layout and sets are of the device and fit each other; no submission uses the
        // sets yet. Each write is within its binding, as `descriptors` is that of the layout.
        unsafe {
            match pushes {
                Some(functions) => {
                    functions.cmd_push_descriptor_set(commands, point, pipeline.layout, 0, &writes);
                }
                None => {
                    gpu.raw.update_descriptor_sets(&writes, &[]);
                    gpu.raw.cmd_bind_descriptor_sets(commands, point, pipeline.layout, 0, &sets, &[]);
                }
            }
        }
        Ok(())
    }

    fn allocate(&mut self, gpu: &Gpu, pipeline: &Pipeline) -> Result<Vec<vk::DescriptorSet>> {
        let allocate = |pool: vk::DescriptorPool| {
            let info =
                vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&pipeline.set_layouts);
            // SAFETY: pool and layouts are of the device.
            unsafe { gpu.raw.allocate_descriptor_sets(&info) }
        };
        loop {
            let last = self.used.checked_sub(1).and_then(|index| self.pools.get(index));
            match last.map(|pool| allocate(*pool)) {
                Some(Ok(sets)) => return Ok(sets),
                None | Some(Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL)) => {
                    if self.used < self.pools.len() {
                        self.used += 1;
                        continue;
                    }
                    let pool = create_pool(gpu, pipeline)?;
                    self.pools.push(pool);
                    self.used = self.pools.len();
                    // A pool that was created for the pipeline has room for it.
                    return allocate(pool).checked("allocating descriptor sets");
                }
                Some(Err(result)) => return Err(crate::error::error(result, "allocating descriptor sets")),
            }
        }
    }
}

fn create_pool(gpu: &Gpu, pipeline: &Pipeline) -> Result<vk::DescriptorPool> {
    // At most 64 bindings of a dispatch.
    let count = u32::try_from(pipeline.descriptor_count).unwrap_or(u32::MAX);
    let sets = u32::try_from(pipeline.set_layouts.len()).unwrap_or(u32::MAX);
    let size = |is_uniform, count| vk::DescriptorPoolSize { ty: descriptor_type(is_uniform), descriptor_count: count };
    let sizes = [size(false, STORAGE_DESCRIPTORS.max(count)), size(true, UNIFORM_DESCRIPTORS.max(count))];
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(SETS.max(sets)).pool_sizes(&sizes);
    // SAFETY: the device lives.
    unsafe { gpu.raw.create_descriptor_pool(&info, None) }.checked("creating a descriptor pool")
}

/// The descriptor of a range, which is within the limits of the device.
fn info(gpu: &Gpu, range: &BoundRange, is_uniform: bool) -> Result<vk::DescriptorBufferInfo> {
    let limits = &gpu.properties.limits;
    let (alignment, most, names) = match is_uniform {
        true => (
            limits.min_uniform_buffer_offset_alignment,
            limits.max_uniform_buffer_range,
            ("minUniformBufferOffsetAlignment", "maxUniformBufferRange"),
        ),
        false => (
            limits.min_storage_buffer_offset_alignment,
            limits.max_storage_buffer_range,
            ("minStorageBufferOffsetAlignment", "maxStorageBufferRange"),
        ),
    };
    // Shaders emulate narrow elements by words, so that the last one is bound as a whole.
    let length = range.length.next_multiple_of(4).min(range.position.available);
    if !range.position.offset.is_multiple_of(alignment.max(1)) {
        return Err(Error::invalid_argument(format!("its offset is not a multiple of {} {alignment}", names.0)));
    }
    if length > u64::from(most) {
        return Err(Error::invalid_argument(format!("its {length} bytes exceed {} {most} of the device", names.1)));
    }
    Ok(vk::DescriptorBufferInfo { buffer: range.position.buffer, offset: range.position.offset, range: length })
}
