//! The backend of Vulkan devices.

use std::path::PathBuf;
use std::sync::Arc;

use incarnate_bytecode::gpu_executable::{VULKAN_ADDRESSES, VULKAN_DESCRIPTORS, VulkanExecutable};
use incarnate_hal::backend::{
    Backend, Command, Completion, DeviceExecutable, ExecutableCache, Operation, Submitted, WaitParticipant,
};
use incarnate_hal::{Allocator, Buffer, BufferBinding, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory};
use incarnate_vm::{Charge, Fuel, profile};

use crate::context::Context;
use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::memory::{Heap, HostAccess};
use crate::physical;
use crate::pipeline::Executable;
use crate::pipeline_cache::{PipelineCache, default_folder};
use crate::queues::{MOST_QUEUES, QueueOptions};
use crate::recorder::{allocation_of, record};
use crate::replays::Replays;
use crate::staging;
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
    /// Which queues the device has.
    pub queues: QueueOptions,
}

impl Default for VulkanOptions {
    /// Without a limit and validation; with the user's folder for caches.
    fn default() -> VulkanOptions {
        VulkanOptions {
            memory_limit: u64::MAX,
            host_access: HostAccess::default(),
            validates: false,
            cache_folder: default_folder(),
            queues: QueueOptions::default(),
        }
    }
}

impl VulkanOptions {
    /// Applies the parameters of a URI: `validation=0|1`, `host_access=automatic|staged`, `cache=0|1`,
    /// `queues=N`, `transfer_queue=0|1`.
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
                ("queues", number) if number.parse().is_ok_and(|number| (1..=MOST_QUEUES).contains(&number)) => {
                    self.queues.compute = number.parse().ok();
                }
                ("transfer_queue", "0" | "1") => self.queues.transfer = Some(value == "1"),
                _ => {
                    return Err(Error::invalid_argument(format!(
                        "vulkan has no parameter '{key}={value}'; it has validation=0|1, host_access=automatic|staged, cache=0|1, \
                         queues=1 to {MOST_QUEUES}, transfer_queue=0|1"
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
        let gpu = Arc::new(Gpu::new(instance, properties, options.queues)?);
        let heap = Arc::new(Heap::new(Arc::clone(&gpu), options.memory_limit, options.host_access)?);
        let cache = PipelineCache::new(&gpu, options.cache_folder.as_deref())?;
        Ok(VulkanBackend { submissions: Submissions::new(Arc::clone(&gpu)), context: Context::new(gpu, heap), cache })
    }

    /// Records the commands of an execution, and selects its queue.
    fn record(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: &Completion<'_>,
    ) -> Result<(usize, Operands)> {
        let commands = command_buffer.commands()?;
        let dispatches = commands.list().iter().any(|command| matches!(command, Command::Dispatch(_)));
        let queue = self.context.gpu.select(completion.affinity(), dispatches);
        if commands.list().is_empty() {
            return Ok((queue, Operands::default()));
        }
        let family = self.context.gpu.queue(queue)?.family;
        if bindings.len() < commands.slot_count() {
            return Err(Error::invalid_argument(format!(
                "binding table of {} slots for commands that use {}",
                bindings.len(),
                commands.slot_count()
            )));
        }
        Fuel::of(completion.meter()).charge(commands.list().len() as u64)?;
        let is_once = command_buffer.modes().contains(CommandBufferMode::ONE_SHOT);
        // The times of a recording are those of one submission.
        let replays = if is_once || profile::is_on() { None } else { command_buffer.backend_data(Replays::default) };
        let (recording, shadows) = match replays {
            Some(replays) => replays.get(&self.context, commands, bindings, family)?,
            None => {
                let (recording, shadows) = record(&self.context, commands, bindings, family, false)?;
                (Arc::new(recording), shadows)
            }
        };
        let buffers = bindings.iter().filter_map(|binding| binding.buffer.as_ref());
        let buffers = buffers.map(|buffer| Arc::clone(buffer)).collect();
        let command_buffer = Some(Arc::clone(command_buffer));
        Ok((queue, Operands { recording: Some(recording), shadows, command_buffer, buffers }))
    }

    /// Submits an operation, or finishes it if it has no commands and follows none.
    fn submit(&self, queue: usize, operands: Operands, completion: Completion<'_>) -> Result<()> {
        if operands.recording.is_none() && completion.predecessors().is_empty() {
            drop(operands);
            return completion.finish(Ok(()));
        }
        self.submissions.submit(queue, operands, completion)
    }

    /// Submits an operation without commands, which releases buffers after others.
    fn follow(&self, buffers: Vec<Arc<Buffer>>, completion: Completion<'_>) -> Result<()> {
        let queue = self.context.gpu.select(completion.affinity(), true);
        self.submit(queue, Operands { buffers, ..Operands::default() }, completion)
    }

    /// Returns true if a buffer is memory of this device.
    fn owns(&self, buffer: &Buffer) -> bool {
        buffer.byte_length() == 0 || allocation_of(&self.context, buffer).is_some()
    }

    /// Returns true if all buffers of an execution are memory of this device, so that the host copies nothing for it.
    fn owns_operands(&self, command_buffer: &CommandBuffer, bindings: &[BufferBinding<'_>]) -> bool {
        let Ok(commands) = command_buffer.commands() else { return false };
        let mut bound = bindings.iter().filter_map(|binding| binding.buffer.as_ref());
        commands.buffers().iter().all(|buffer| self.owns(buffer)) && bound.all(|buffer| self.owns(buffer))
    }

    /// Returns a transfer as commands; `None` if the host does it.
    fn as_commands(&self, operation: &Operation) -> Option<Result<CommandBuffer>> {
        let range = |buffer: &Arc<Buffer>, offset, length| BufferRef {
            buffer: Some(Arc::clone(buffer)),
            slot: 0,
            offset,
            length,
        };
        let commands =
            CommandBuffer::new(CommandBufferMode::ONE_SHOT, CommandCategory::TRANSFER, 0, None, Charge::none());
        let recorded = match operation {
            Operation::Fill { target, offset, length, pattern, pattern_length } if self.owns(target) => {
                commands.fill(range(target, *offset, *length), *pattern, *pattern_length)
            }
            Operation::Update { source, target, offset } if self.owns(target) && is_staged_at_once(source) => {
                commands.update(source, range(target, *offset, source.len() as u64))
            }
            Operation::Copy { source, source_offset, target, target_offset, length }
                if self.owns(source) && self.owns(target) =>
            {
                commands.copy(range(source, *source_offset, *length), range(target, *target_offset, *length))
            }
            _ => return None,
        };
        Some(recorded.and_then(|()| commands.finalize()).map(|()| commands))
    }
}

/// Returns true if an update is one command: the host stages longer ones in pieces.
const fn is_staged_at_once(source: &[u8]) -> bool {
    source.len() as u64 <= staging::STAGED_BYTES
}

/// Returns true if a transfer accesses memory of a device that the host cannot access in place.
fn needs_device(operation: &Operation) -> bool {
    let is_remote = |buffer: &Buffer| buffer.byte_length() > 0 && buffer.fixed_address().is_none();
    match operation {
        Operation::Fill { target, .. } | Operation::Update { target, .. } => is_remote(target),
        Operation::Copy { source, target, .. } => is_remote(source) || is_remote(target),
        _ => false,
    }
}

impl Backend for VulkanBackend {
    fn run(&self, operation: Operation, completion: Completion<'_>) -> Result<()> {
        let is_reached = completion.predecessors().is_empty();
        match operation {
            Operation::Execute { command_buffer, bindings } => self.execute(&command_buffer, &bindings, completion),
            Operation::Barrier if !is_reached => self.follow(Vec::new(), completion),
            Operation::Release(buffer) if !is_reached => self.follow(vec![buffer], completion),
            operation => {
                let for_device = !is_reached || needs_device(&operation);
                match if for_device { self.as_commands(&operation) } else { None } {
                    Some(Ok(commands)) => self.execute(&Arc::new(commands), &[], completion),
                    Some(Err(error)) => completion.finish(Err(error)),
                    None => {
                        let result = operation.transfer(completion.meter());
                        // The operation's references are released before the signal.
                        drop(operation);
                        completion.finish(result)
                    }
                }
            }
        }
    }

    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()> {
        match self.record(command_buffer, bindings, &completion) {
            Ok((queue, operands)) => self.submit(queue, operands, completion),
            Err(error) => completion.finish(Err(error)),
        }
    }

    fn can_follow(&self, tasks: &[Arc<dyn WaitParticipant>], operation: Submitted<'_>) -> bool {
        let can_run = match operation {
            Submitted::Execution(command_buffer, bindings) => self.owns_operands(command_buffer, bindings),
            Submitted::Operation(Operation::Execute { command_buffer, bindings }) => {
                self.owns_operands(command_buffer, bindings)
            }
            Submitted::Operation(Operation::Barrier | Operation::Release(_)) => true,
            Submitted::Operation(Operation::Fill { target, .. }) => self.owns(target),
            Submitted::Operation(Operation::Update { source, target, .. }) => {
                self.owns(target) && is_staged_at_once(source)
            }
            Submitted::Operation(Operation::Copy { source, target, .. }) => self.owns(source) && self.owns(target),
            Submitted::Operation(_) => false,
        };
        can_run && tasks.iter().all(|task| self.submissions.ticket(task).is_some())
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn queue_count(&self) -> usize {
        self.context.gpu.queue_count()
    }

    fn device_allocator(&self) -> Option<Allocator> {
        Some(Allocator::of_device(Arc::clone(&self.context.heap) as _))
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
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::time::Duration;

    use incarnate_hal::backend::Queue;
    use incarnate_hal::{Allocator, BufferParameters, Deadline, Fence, Fences, QueueAffinity, WHOLE_BUFFER};
    use incarnate_vm::StatusCode;

    use super::*;
    use crate::queues::Point;

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
        let allocator = backend.device_allocator().unwrap();
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
            backend.context.gpu.wait_for(Point { queue: 0, number: 1 }).unwrap();
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

    /// Commands that take a device some hundred milliseconds at most and some at least.
    fn long(allocator: &Allocator) -> Arc<CommandBuffer> {
        let buffer = allocator.allocate(BufferParameters::DEVICE, 64 << 20).unwrap();
        let commands =
            CommandBuffer::new(CommandBufferMode::ONE_SHOT, CommandCategory::TRANSFER, 0, None, Charge::none());
        for value in 0..32 {
            let target = BufferRef { buffer: Some(Arc::clone(&buffer)), slot: 0, offset: 0, length: WHOLE_BUFFER };
            commands.fill(target, value, 4).unwrap();
        }
        commands.finalize().unwrap();
        Arc::new(commands)
    }

    #[test]
    fn operations_that_wait_for_others_of_the_device_are_submitted_at_once() {
        let queues = QueueOptions { compute: Some(2), transfer: Some(true) };
        let options = VulkanOptions { cache_folder: None, queues, ..VulkanOptions::default() };
        let Some(backend) = backend(&options) else { return };
        let allocator = backend.device_allocator().unwrap();
        let queue = Queue::new(Arc::clone(&backend) as _);
        let fences: Vec<_> = (0..6).map(|_| Arc::new(Fence::new())).collect();
        let fences_of = |wait: Option<usize>, signal: usize, affinity: u64| Fences {
            wait: wait.map(|wait| &*fences[wait]),
            signal: Arc::clone(&fences[signal]).into(),
            affinity: QueueAffinity(affinity),
            ..Fences::default()
        };
        queue.submit_execution(fences_of(None, 0, 1), &long(&allocator), &[]).unwrap();
        // On another queue, on that of transfers, without commands, and one that waits for the host as well.
        queue.submit_execution(fences_of(Some(0), 1, 2), &filling(&allocator, 64), &[]).unwrap();
        let target = allocator.allocate(BufferParameters::DEVICE, 64).unwrap();
        let fill = Operation::Fill { target, offset: 0, length: 64, pattern: 5, pattern_length: 1 };
        queue.submit(fences_of(Some(1), 2, 4), fill).unwrap();
        queue.submit(fences_of(Some(2), 3, 1), Operation::Barrier).unwrap();
        let host = Arc::new(Fence::new());
        let both = Fence::join([&fences[3], &host].into_iter(), incarnate_vm::Ledger::HOST).unwrap().unwrap();
        let waits = Fences { wait: Some(&both), ..fences_of(None, 4, 1) };
        queue.submit(waits, Operation::Barrier).unwrap();
        assert!(!fences[0].query().unwrap(), "the first operation is done before the others were submitted");
        assert_eq!(format!("{:?}", backend.submissions), "Submissions(4 running)");
        // A failed fence fails what follows it.
        let failing = Arc::new(Fence::new());
        let fences_of_failing = Fences { signal: Arc::clone(&failing).into(), ..fences_of(Some(3), 5, 1) };
        queue.submit(fences_of_failing, Operation::Barrier).unwrap();
        queue.submit(Fences { wait: Some(&failing), ..fences_of(None, 5, 2) }, Operation::Barrier).unwrap();
        failing.fail(&Error::data_loss("the host failed it"));
        let deadline = Deadline::after(Duration::from_secs(60));
        fences[3].wait_and_participate(deadline).unwrap();
        assert!(fences[..3].iter().all(|fence| fence.query().unwrap()) && !fences[4].query().unwrap());
        host.signal().unwrap();
        fences[4].wait_and_participate(deadline).unwrap();
        assert_eq!(fences[5].wait_and_participate(deadline).unwrap_err().code(), StatusCode::DataLoss);
        backend.drain();
        assert!(backend.is_idle());
    }

    #[test]
    fn compiled_pipelines_are_kept_for_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let options = VulkanOptions { cache_folder: Some(folder.path().to_owned()), ..VulkanOptions::default() };
        let Some(first) = backend(&options) else { return };
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/executables/kernels.vulkan-spirv-fb");
        // The package of this crate alone does not contain the file.
        let Ok(data) = std::fs::read(path) else { return };
        let executable = first.prepare(VULKAN_DESCRIPTORS, &data, &[]).unwrap();
        assert_eq!(executable.functions().len(), 3);
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        drop((executable, first));
        let whole = std::fs::read(&file).unwrap();
        // A damaged file is ignored.
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        for _ in 0..2 {
            let again = backend(&options).unwrap();
            again.prepare(VULKAN_DESCRIPTORS, &data, &[1, 2, 3]).unwrap();
        }
    }
}
