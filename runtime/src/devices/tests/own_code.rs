//! Executables of a device that runs code of its own, as GPUs do.

use alloc::sync::Arc;

use super::*;
use crate::bytecode::executable_format::VMVX;
use crate::bytecode::gpu_executable::VULKAN_DESCRIPTORS;
use crate::hal::backend::{Backend, Completion, DeviceExecutable, ExecutableCache};
use crate::vm::{Ledger, Limits};

/// A device that takes SPIR-V, and cannot load any.
#[derive(Debug)]
struct Gpu;

impl Backend for Gpu {
    fn execute(&self, _: &Arc<CommandBuffer>, _: &[BufferBinding<'_>], completion: Completion<'_>) -> Result<()> {
        completion.finish(Ok(()))
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn executable_cache(&self) -> Option<&dyn ExecutableCache> {
        Some(self)
    }
}

impl ExecutableCache for Gpu {
    fn supports(&self, format: &str) -> bool {
        format == VULKAN_DESCRIPTORS
    }

    fn prepare(&self, _: &str, _: &[u8], _: &[u32]) -> Result<Arc<dyn DeviceExecutable>> {
        Err(Error::unavailable("no GPU"))
    }
}

fn created(format: &str, device_loaders: Option<Vec<Arc<dyn ExecutableLoader>>>, limits: Limits) -> Error {
    let options = DeviceOptions { loaders: device_loaders, ..DeviceOptions::default() };
    let device = Device::new("gpu", options, Arc::new(Gpu));
    let loaders = Loaders::all().within(limits);
    device.create_executable(&loaders, format, &[], None, &[], Ledger::HOST).unwrap_err()
}

#[test]
fn refused_code_of_a_device_says_whose_options_refuse_it() {
    use StatusCode::{NotFound, PermissionDenied, Unavailable};
    let own = || Some(Vec::new());
    for (error, code, text) in [
        (created(VULKAN_DESCRIPTORS, None, Limits::default()), Unavailable, "no GPU"),
        (created(VULKAN_DESCRIPTORS, None, Limits::portable()), PermissionDenied, "machine code (vulkan-spirv-fb)"),
        (created(VULKAN_DESCRIPTORS, own(), Limits::portable()), PermissionDenied, "which --untrusted refuses"),
        (created(VULKAN_DESCRIPTORS, own(), Limits::default()), PermissionDenied, "DeviceOptions::loaders"),
        (
            created(VMVX, None, Limits::portable()),
            NotFound,
            "the device runs no executables of format 'vmvx-bytecode-fb'",
        ),
        (
            created(VMVX, own(), Limits::default()),
            NotFound,
            "the device runs no executables of format 'vmvx-bytecode-fb'",
        ),
    ] {
        assert!(error.code() == code && error.to_string().contains(text), "{error}");
        assert_eq!(
            error.to_string().contains("--untrusted"),
            text.contains("machine code") || text.contains("--untrusted")
        );
    }
}
