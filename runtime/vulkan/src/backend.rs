//! The backend of Vulkan devices.

use std::path::PathBuf;
use std::sync::Arc;

use incarnate_bytecode::gpu_executable::{VULKAN_ADDRESSES, VULKAN_DESCRIPTORS, VulkanExecutable};
use incarnate_hal::backend::{Backend, Completion, DeviceAllocator, DeviceExecutable, ExecutableCache};
use incarnate_hal::{BufferBinding, CommandBuffer, CommandBufferMode};
use incarnate_vm::Fuel;

use crate::context::Context;
use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::memory::{Heap, HostAccess};
use crate::physical;
use crate::pipeline::Executable;
use crate::pipeline_cache::{PipelineCache, default_folder};
use crate::recorder::record;
use crate::replays::Replays;
use crate::submissions::{Operands, Submissions};
use crate::{Error, Result};

/// Options of a Vulkan device.
#[derive(Clone, Debug)]
pub struct VulkanOptions {
    /// The limit of live device memory in bytes.
    pub memory_limit: u64,
    /// Whether host code accesses device memory in place.
    pub host_access: HostAccess,
    /// Vulkan's validation layers check every call, and print what they find to standard error.
    pub validates: bool,
    /// The folder of the files of compiled pipelines; `None` to keep none.
    pub cache_folder: Option<PathBuf>,
}

impl Default for VulkanOptions {
    /// Without a limit and validation; with the user's folder for caches.
    fn default() -> VulkanOptions {
        VulkanOptions {
            memory_limit: u64::MAX,
            host_access: HostAccess::default(),
            validates: false,
            cache_folder: default_folder(),
        }
    }
}

impl VulkanOptions {
    /// Applies the parameters of a URI: `validation=0|1`, `host_access=automatic|staged`, `cache=0|1`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for other parameters and values.
    pub fn with_parameters(mut self, parameters: &[(&str, &str)]) -> Result<VulkanOptions> {
        for &(key, value) in parameters {
            match (key, value) {
                ("validation", "0" | "1") => self.validates = value == "1",
                ("host_access", "automatic") => self.host_access = HostAccess::Automatic,
                ("host_access", "staged") => self.host_access = HostAccess::Staged,
                ("cache", "0") => self.cache_folder = None,
                ("cache", "1") => {}
                _ => {
                    return Err(Error::invalid_argument(format!(
                        "vulkan has no parameter '{key}={value}'; it has validation=0|1, host_access=automatic|staged, cache=0|1"
                    )));
                }
            }
        }
        Ok(self)
    }
}

/// The backend of a Vulkan device.
#[derive(Debug)]
pub struct VulkanBackend {
    submissions: Arc<Submissions>,
    context: Context,
    cache: PipelineCache,
}

impl VulkanBackend {
    /// Creates the backend of the device that a path names: empty for the default one, an index, or a UUID.
    ///
    /// # Errors
    /// UNAVAILABLE if the machine has no Vulkan; NOT_FOUND if it has no such device; errors of the driver.
    pub fn new(path: &str, options: &VulkanOptions) -> Result<VulkanBackend> {
        let instance = Instance::shared(options.validates)?;
        let properties = physical::find(instance.devices()?, path)?;
        let gpu = Arc::new(Gpu::new(instance, properties)?);
        let heap = Arc::new(Heap::new(Arc::clone(&gpu), options.memory_limit, options.host_access)?);
        let cache = PipelineCache::new(&gpu, options.cache_folder.as_deref())?;
        Ok(VulkanBackend { submissions: Submissions::new(Arc::clone(&gpu)), context: Context::new(gpu, heap), cache })
    }

    fn submit(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: &Completion<'_>,
    ) -> Result<Option<Operands>> {
        let commands = command_buffer.commands()?;
        if commands.list().is_empty() {
            return Ok(None);
        }
        if bindings.len() < commands.slot_count() {
            return Err(Error::invalid_argument(format!(
                "binding table of {} slots for commands that use {}",
                bindings.len(),
                commands.slot_count()
            )));
        }
        Fuel::of(completion.meter()).charge(commands.list().len() as u64)?;
        let is_once = command_buffer.modes().contains(CommandBufferMode::ONE_SHOT);
        let replays = if is_once { None } else { command_buffer.backend_data(Replays::default) };
        let (recording, shadows) = match replays {
            Some(replays) => replays.get(&self.context, commands, bindings)?,
            None => {
                let (recording, shadows) = record(&self.context, commands, bindings, false)?;
                (Arc::new(recording), shadows)
            }
        };
        let buffers = bindings.iter().filter_map(|binding| binding.buffer.as_ref());
        let buffers = buffers.map(|buffer| Arc::clone(buffer)).collect();
        Ok(Some(Operands { recording, shadows, command_buffer: Arc::clone(command_buffer), buffers }))
    }
}

impl Backend for VulkanBackend {
    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()> {
        match self.submit(command_buffer, bindings, &completion) {
            Ok(Some(operands)) => self.submissions.submit(operands, completion),
            Ok(None) => completion.finish(Ok(())),
            Err(error) => completion.finish(Err(error)),
        }
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn device_allocator(&self) -> Option<Arc<dyn DeviceAllocator>> {
        Some(Arc::clone(&self.context.heap) as _)
    }

    fn executable_cache(&self) -> Option<&dyn ExecutableCache> {
        Some(self)
    }

    fn drain(&self) {
        self.submissions.drain();
    }

    fn is_idle(&self) -> bool {
        self.submissions.is_idle()
    }
}

impl ExecutableCache for VulkanBackend {
    fn supports(&self, format: &str) -> bool {
        format == VULKAN_DESCRIPTORS
            || format == VULKAN_ADDRESSES && self.context.gpu.properties.features.has_device_addresses()
    }

    fn prepare(&self, _format: &str, data: &[u8], constants: &[u32]) -> Result<Arc<dyn DeviceExecutable>> {
        let source = VulkanExecutable::read(data)?;
        let executable = Executable::new(&self.context.gpu, self.cache.raw, &source, constants)?;
        self.cache.store();
        Ok(Arc::new(executable))
    }
}

impl Drop for VulkanBackend {
    fn drop(&mut self) {
        // Operations that are not done keep what they use, and the thread finishes them.
        self.submissions.end();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use incarnate_hal::backend::Queue;
    use incarnate_hal::{
        Allocator, BufferParameters, BufferRef, CommandCategory, Deadline, Fence, Fences, WHOLE_BUFFER,
    };
    use incarnate_vm::{Charge, StatusCode};

    use super::*;

    fn backend(options: &VulkanOptions) -> Option<Arc<VulkanBackend>> {
        match VulkanBackend::new("", options) {
            Ok(backend) => Some(Arc::new(backend)),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    fn filling(allocator: &Allocator, length: u64) -> Arc<CommandBuffer> {
        let buffer = allocator.allocate(BufferParameters::DEVICE, length).unwrap();
        let commands =
            CommandBuffer::new(CommandBufferMode::ONE_SHOT, CommandCategory::TRANSFER, 0, None, Charge::none());
        commands.fill(BufferRef { buffer: Some(buffer), slot: 0, offset: 0, length: WHOLE_BUFFER }, 7, 4).unwrap();
        commands.finalize().unwrap();
        Arc::new(commands)
    }

    #[test]
    fn a_lost_device_fails_every_fence_that_waits() {
        let Some(backend) = backend(&VulkanOptions { cache_folder: None, ..VulkanOptions::default() }) else { return };
        let allocator = Allocator::of_device(backend.device_allocator().unwrap());
        let queue = Queue::new(Arc::clone(&backend) as _);
        let execute = |wait: Option<&Fence>, signal: &Arc<Fence>| {
            let fences = Fences { wait, signal: Arc::clone(signal).into(), ..Fences::default() };
            queue.submit_execution(fences, &filling(&allocator, 64 << 20), &[])
        };
        // One runs, or is done; one waits for the host, and one for that.
        let fences: Vec<_> = (0..4).map(|_| Arc::new(Fence::new())).collect();
        let [running, start, waiting, chained] = &fences[..] else { return };
        execute(None, running).unwrap();
        execute(Some(start), waiting).unwrap();
        execute(Some(waiting), chained).unwrap();
        let waits = std::thread::scope(|scope| {
            let wait = |fence: &Arc<Fence>| {
                let fence = Arc::clone(fence);
                scope.spawn(move || fence.wait(Deadline::after(Duration::from_secs(60))).map_err(|error| error.code()))
            };
            let waits = [wait(running), wait(waiting), wait(chained)];
            // What a lost device was executing is over.
            backend.context.gpu.wait_for(1).unwrap();
            backend.context.gpu.lose("running a test");
            start.signal().unwrap();
            waits.map(|wait| wait.join().unwrap())
        });
        let [first, second, third] = waits;
        assert!(first.is_ok() || first == Err(StatusCode::Unavailable), "{first:?}");
        assert_eq!((second, third), (Err(StatusCode::Unavailable), Err(StatusCode::Unavailable)));
        let after = Arc::new(Fence::new());
        let error = execute(None, &after).unwrap_err();
        assert!(error.message().contains("lost") && after.query().is_err(), "{error}");
        backend.drain();
        assert!(backend.is_idle());
    }

    #[test]
    fn compiled_pipelines_are_kept_for_the_next_process() {
        let folder = std::env::temp_dir().join(format!("incarnate-vulkan-{}", std::process::id()));
        let options = VulkanOptions { cache_folder: Some(folder.clone()), ..VulkanOptions::default() };
        let Some(first) = backend(&options) else { return };
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/executables/kernels.vulkan-spirv-fb");
        // The package of this crate alone does not contain the file.
        let Ok(data) = std::fs::read(path) else { return };
        let executable = first.prepare(VULKAN_DESCRIPTORS, &data, &[]).unwrap();
        assert_eq!(executable.functions().len(), 3);
        let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        drop((executable, first));
        let whole = std::fs::read(&file).unwrap();
        // A damaged file is ignored.
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        for _ in 0..2 {
            let again = backend(&options).unwrap();
            again.prepare(VULKAN_DESCRIPTORS, &data, &[1, 2, 3]).unwrap();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
