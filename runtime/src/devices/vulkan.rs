//! The driver of Vulkan devices.

use alloc::sync::Arc;
use alloc::vec::Vec;

use incarnate_vulkan::{VulkanBackend, VulkanOptions, devices};

use super::device::{Device, DeviceOptions};
use super::driver::{DeviceInfo, DeviceUri, Driver};
use crate::Result;

/// Creates `vulkan` devices. Parameters of their addresses are those of [`VulkanOptions`].
#[derive(Debug)]
pub(super) struct VulkanDriver;

impl Driver for VulkanDriver {
    fn name(&self) -> &'static str {
        "vulkan"
    }

    fn description(&self) -> &'static str {
        "runs SPIR-V on GPUs; parameters: validation=0|1, host_access=automatic|staged, cache=0|1, queues=N, transfer_queue=0|1"
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        devices().into_iter().map(|device| DeviceInfo { path: device.path, name: device.name }).collect()
    }

    fn create_device(&self, uri: &DeviceUri<'_>, options: DeviceOptions) -> Result<Arc<Device>> {
        let of_device = VulkanOptions { memory_limit: options.memory_limit, ..VulkanOptions::default() };
        let backend = VulkanBackend::new(uri.path, &of_device.with_parameters(&uri.parameters)?)?;
        Ok(Arc::new(Device::new(self.name(), options, Arc::new(backend))))
    }
}
