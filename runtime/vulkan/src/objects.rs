//! Objects of Vulkan that recordings reuse, and which a device keeps between them.
#![allow(unsafe_code, reason = "calls Vulkan")]

use ash::vk;

use crate::Result;
use crate::error::Checked;

/// Objects that recordings reuse.
pub(crate) struct Objects {
    /// The family of the queues that they are for.
    pub(crate) family: u32,
    pub(crate) pool: vk::CommandPool,
    pub(crate) commands: vk::CommandBuffer,
    pub(crate) descriptors: DescriptorPools,
}

/// The pools of a recording. Sets are allocated from the last one in use.
#[derive(Default)]
pub(crate) struct DescriptorPools {
    pub(crate) pools: Vec<vk::DescriptorPool>,
    /// The number of pools that have sets.
    pub(crate) used: usize,
    /// The contents of descriptors while they are written.
    pub(crate) infos: Vec<vk::DescriptorBufferInfo>,
}

impl Objects {
    pub(crate) fn new(raw: &ash::Device, family: u32) -> Result<Objects> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: the device lives and has queues of the family.
        let pool = unsafe { raw.create_command_pool(&info, None) }.checked("creating a command pool")?;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: the pool was created above.
        let buffers = unsafe { raw.allocate_command_buffers(&info) };
        match buffers.as_deref() {
            Ok(&[commands]) => Ok(Objects { family, pool, commands, descriptors: DescriptorPools::default() }),
            other => {
                let result = other.err().copied().unwrap_or(vk::Result::ERROR_UNKNOWN);
                // SAFETY: the pool was created above and nothing uses it.
                unsafe { raw.destroy_command_pool(pool, None) };
                Err(crate::error::error(result, "allocating a command buffer"))
            }
        }
    }

    /// Destroys the objects, which no submission uses.
    pub(crate) fn destroy(self, raw: &ash::Device) {
        self.descriptors.destroy(raw);
        // SAFETY: the pool is of the device, and the caller's submissions that used it are done.
        unsafe { raw.destroy_command_pool(self.pool, None) };
    }
}

impl DescriptorPools {
    /// Frees all sets; returns false if the pools cannot be used again.
    pub(crate) fn reset(&mut self, raw: &ash::Device) -> bool {
        let used = self.pools.iter().take(self.used);
        // SAFETY: the submissions that used the sets are done, as the recording is being dropped.
        let reset = |pool| unsafe { raw.reset_descriptor_pool(pool, vk::DescriptorPoolResetFlags::empty()).is_ok() };
        let failed = used.filter(|pool| !reset(**pool)).count();
        self.used = 0;
        failed == 0
    }

    /// Destroys the pools, whose sets no submission uses.
    pub(crate) fn destroy(self, raw: &ash::Device) {
        for pool in self.pools {
            // SAFETY: the pool is of the device, and the submissions that used its sets are done.
            unsafe { raw.destroy_descriptor_pool(pool, None) };
        }
    }
}
