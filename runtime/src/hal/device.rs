//! Devices: an allocator, loaders of executables, and a queue.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::allocator::Allocator;
use super::buffer::Buffer;
use super::command_buffer::{CommandBuffer, CommandBufferMode, CommandCategory, InlineExecution};
use super::commands::BufferBinding;
use super::executable::Executable;
use super::fence::Fence;
use super::file::File;
use super::local::engine::TaskOptions;
use super::local::library::ImportRegistry;
use super::local::{ExecutableLoader, Loaders};
use super::memory::BufferParameters;
use super::queue::{self, Backend, Operation, SignalFence};
use super::transfers::Transfers;
use crate::bytecode::Contents;
use crate::{Error, Result, ref_object};

/// What a device is made of, apart from how it runs things.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Loaders of executables, asked in this order. None: those that the programs bring along which use the device.
    pub loaders: Option<Vec<Arc<dyn ExecutableLoader>>>,
    /// Functions that executables of machine code may call, such as those of plugins.
    pub imports: ImportRegistry,
    /// The most bytes of device memory that may be allocated at once.
    pub memory_limit: u64,
    /// How a local-task device works.
    pub task: TaskOptions,
}

impl Default for DeviceOptions {
    /// The programs' loaders, and no limit.
    fn default() -> DeviceOptions {
        DeviceOptions {
            loaders: None,
            imports: ImportRegistry::default(),
            memory_limit: u64::MAX,
            task: TaskOptions::default(),
        }
    }
}

/// A device (`!hal.device`).
///
/// Operations of its queue take a wait fence, which is reached where it is missing, and a fence to signal. An operation
/// runs as soon as its wait fence is reached and fails its signal fence if it fails; an error that is known when the
/// call returns is returned as well. Operations that wait for nothing start in the order of the calls; where that matters,
/// fences order them.
pub struct Device {
    id: String,
    allocator: Arc<Allocator>,
    loaders: Option<Vec<Arc<dyn ExecutableLoader>>>,
    imports: ImportRegistry,
    backend: Arc<dyn Backend>,
    /// Runs commands while they are recorded, where the device and the program allow it.
    inline: Option<InlineExecution>,
}

ref_object!(Device, "hal.device");

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.id)
    }
}

/// The fences around an operation of a queue.
#[derive(Debug, Default)]
pub struct Fences<'a> {
    /// What must be reached before the operation runs.
    pub wait: Option<&'a Fence>,
    /// What is signalled when it is done.
    pub signal: SignalFence<'a>,
}

impl Device {
    pub(super) fn new(
        id: &str,
        options: DeviceOptions,
        backend: Arc<dyn Backend>,
        inline: Option<InlineExecution>,
    ) -> Device {
        let allocator = Arc::new(Allocator::with_limit(options.memory_limit));
        Device { id: id.into(), allocator, loaders: options.loaders, imports: options.imports, backend, inline }
    }

    /// Makes the device of an address, such as `local-sync`, with default options; an empty one is the default device.
    ///
    /// # Errors
    /// NOT_FOUND where no driver has the name, or the driver no such device; INVALID_ARGUMENT for unknown parameters.
    #[expect(clippy::inline_always, reason = "what a program links depends on it")]
    #[inline(always)]
    pub fn create(uri: &str) -> Result<Arc<Device>> {
        // The compiler compares literals: a program that asks for no other device has none of the drivers in it.
        if uri == super::local::DEFAULT_DRIVER {
            return Ok(super::local::default_device(DeviceOptions::default()));
        }
        Device::create_by_drivers(uri)
    }

    fn create_by_drivers(uri: &str) -> Result<Arc<Device>> {
        super::driver::DriverRegistry::default().create_device(uri, DeviceOptions::default())
    }

    /// The name that programs match patterns such as `local*` against.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The allocator of the device's memory.
    #[inline]
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.allocator
    }

    /// How many workers run the workgroups of a dispatch.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.backend.concurrency()
    }

    /// Answers what programs ask of a device (`hal.device.query`), or `None` for what is not known. `loaders` are those that
    /// the program brings along.
    #[must_use]
    pub fn query(&self, loaders: &Loaders, category: &str, key: &str) -> Option<i64> {
        match (category, key) {
            ("hal.device.id", pattern) => Some(i64::from(matches_pattern(&self.id, pattern))),
            ("hal.executable.format", format) => Some(i64::from(loaders.support(self.loaders(), format))),
            // Queues, of which there is one, and workers of a dispatch.
            ("hal.device", "concurrency") => Some(1),
            ("hal.dispatch", "concurrency") => i64::try_from(self.concurrency()).ok(),
            ("hal.cpu", feature) => super::local::has_feature(feature).map(i64::from),
            _ => None,
        }
    }

    /// The device's own loaders of executables, in the order in which they are asked. None: those of the programs.
    #[must_use]
    pub fn loaders(&self) -> Option<&[Arc<dyn ExecutableLoader>]> {
        self.loaders.as_deref()
    }

    /// Functions that executables of machine code may call.
    #[must_use]
    pub fn imports(&self) -> &ImportRegistry {
        &self.imports
    }

    /// Loads an executable of the given format. `loaders` are those that the program brings along, `contents` is the file
    /// that `data` is a part of, if it is.
    ///
    /// # Errors
    /// NOT_FOUND where no loader knows the format, and what the loader reports.
    pub fn create_executable(
        &self,
        loaders: &Loaders,
        format: &str,
        data: &[u8],
        contents: Option<&Arc<Contents>>,
        constants: &[u32],
    ) -> Result<Arc<Executable>> {
        loaders
            .load(self.loaders(), &self.imports, format, data, contents, constants)
            .map_err(|error| error.context(format!("on device '{}'", self.id)))
    }

    /// A command buffer to record into, whose commands may use `binding_capacity` slots.
    #[must_use]
    pub fn create_command_buffer(
        &self,
        modes: CommandBufferMode,
        categories: CommandCategory,
        binding_capacity: u32,
    ) -> CommandBuffer {
        CommandBuffer::new(modes, categories, binding_capacity, self.inline)
    }

    fn submit(&self, fences: Fences<'_>, operation: Operation) -> Result<()> {
        queue::submit(&self.backend, fences.wait, fences.signal, operation)
    }

    /// Does something to `target` at once if there is nothing to wait for, or else submits the operation that does it. The target
    /// is given up before anybody is told.
    #[inline(always)]
    fn do_or_submit<T>(
        &self,
        fences: Fences<'_>,
        target: T,
        now: impl FnOnce(T) -> Result<()>,
        later: impl FnOnce(T) -> Operation,
    ) -> Result<()> {
        match queue::is_reached(fences.wait) {
            Ok(false) => self.submit(fences, later(target)),
            waited => {
                let done = waited.and_then(|_| now(target));
                fences.signal.finish(done)
            }
        }
    }

    /// Allocates a buffer that may be used once the signal fence is reached. The memory of a small one is taken from the pool at
    /// once, that of a large one when it is first used.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where there is no memory.
    #[inline]
    pub fn queue_alloca(&self, fences: Fences<'_>, parameters: BufferParameters, length: u64) -> Result<Arc<Buffer>> {
        match self.allocator.allocate_late(parameters, length) {
            Ok(buffer) => {
                self.queue_barrier(fences)?;
                Ok(buffer)
            }
            Err(error) => {
                fences.signal.finish(Err(error))?;
                Err(Error::internal("failed allocation has no error"))
            }
        }
    }

    /// Gives up a share of a buffer once the wait fence is reached. Its memory returns to the pool when nobody holds it
    /// any more, so that a program that uses it all the same does no harm.
    ///
    /// # Errors
    /// The failure of a fence.
    #[inline]
    pub fn queue_dealloca(&self, fences: Fences<'_>, buffer: Arc<Buffer>) -> Result<()> {
        let free = |buffer| {
            drop(buffer);
            Ok(())
        };
        self.do_or_submit(fences, buffer, free, Operation::Release)
    }

    /// Signals once the wait fence is reached.
    ///
    /// # Errors
    /// The failure of a fence.
    #[inline]
    pub fn queue_barrier(&self, fences: Fences<'_>) -> Result<()> {
        self.do_or_submit(fences, (), Ok, |()| Operation::Barrier)
    }

    /// Fills a range of a buffer; see [`Buffer::fill`].
    ///
    /// # Errors
    /// As [`Buffer::fill`], and the failure of a fence.
    pub fn queue_fill(
        &self,
        fences: Fences<'_>,
        target: Arc<Buffer>,
        offset: u64,
        length: u64,
        pattern: u64,
        pattern_length: usize,
    ) -> Result<()> {
        self.submit(fences, Operation::Fill { target, offset, length, pattern, pattern_length })
    }

    /// Writes bytes, as they are now, into a buffer; see [`Buffer::write`].
    ///
    /// # Errors
    /// As [`Buffer::write`], and the failure of a fence.
    pub fn queue_update(&self, fences: Fences<'_>, source: &[u8], target: Arc<Buffer>, offset: u64) -> Result<()> {
        // Where there is nothing to wait for, there is no copy to keep.
        let write = |target: Arc<Buffer>| target.write(offset, source);
        self.do_or_submit(fences, target, write, |target| Operation::Update { source: source.into(), target, offset })
    }

    /// Copies between buffers; see [`Buffer::copy_from`].
    ///
    /// # Errors
    /// As [`Buffer::copy_from`], and the failure of a fence.
    pub fn queue_copy(
        &self,
        fences: Fences<'_>,
        (source, source_offset): (Arc<Buffer>, u64),
        (target, target_offset): (Arc<Buffer>, u64),
        length: u64,
    ) -> Result<()> {
        self.submit(fences, Operation::Copy { source, source_offset, target, target_offset, length })
    }

    /// Copies from a file into a buffer; see [`File::read`].
    ///
    /// # Errors
    /// As [`File::read`], and the failure of a fence.
    pub fn queue_read(
        &self,
        fences: Fences<'_>,
        (source, source_offset): (Arc<File>, u64),
        (target, target_offset): (Arc<Buffer>, u64),
        length: u64,
    ) -> Result<()> {
        self.submit(fences, Operation::Read { source, source_offset, target, target_offset, length })
    }

    /// Copies from a buffer into a file; see [`File::write`].
    ///
    /// # Errors
    /// As [`File::write`], and the failure of a fence.
    pub fn queue_write(
        &self,
        fences: Fences<'_>,
        (source, source_offset): (Arc<Buffer>, u64),
        (target, target_offset): (Arc<File>, u64),
        length: u64,
    ) -> Result<()> {
        self.submit(fences, Operation::Write { source, source_offset, target, target_offset, length })
    }

    /// Makes transfers, one after the other, as one operation.
    ///
    /// # Errors
    /// Those of the first transfer that fails, and the failure of a fence.
    pub fn queue_transfers(&self, fences: Fences<'_>, transfers: Transfers) -> Result<()> {
        if transfers.is_empty() {
            return self.queue_barrier(fences);
        }
        self.submit(fences, Operation::Batch(transfers.operations))
    }

    /// Executes a command buffer with the given buffers bound to its slots.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where it is not finalized, INVALID_ARGUMENT and OUT_OF_RANGE where the table does not fit the
    /// commands, what kernels report, and the failure of a fence.
    #[inline]
    pub fn queue_execute(
        &self,
        fences: Fences<'_>,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
    ) -> Result<()> {
        queue::submit_execution(&self.backend, fences.wait, fences.signal, command_buffer, bindings)
    }

    /// Hands over what has been submitted; everything is already.
    ///
    /// # Errors
    /// None on local devices.
    pub fn queue_flush(&self) -> Result<()> {
        Ok(())
    }

    /// Returns cached memory to the system.
    pub fn trim(&self) {
        self.allocator.trim();
    }
}

impl Drop for Device {
    /// Waits for operations that run. Those that wait for a fence run when it is reached.
    fn drop(&mut self) {
        self.backend.drain();
    }
}

/// True where `text` matches a pattern in which `*` stands for any run of characters and `?` for any one.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (mut at, mut in_pattern) = (0, 0);
    // Where to go on when the run that the last `*` stands for has to grow.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                retry = Some((in_pattern + 1, at));
                in_pattern += 1;
            }
            Some(wanted) if *wanted == b'?' || text.get(at) == Some(wanted) => {
                at += 1;
                in_pattern += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    (at, in_pattern) = (from + 1, after);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(in_pattern).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_shells_do() {
        for (text, pattern, expected) in [
            ("local-sync", "local*", true),
            ("local-sync", "local-sync", true),
            ("local-sync", "*sync", true),
            ("local-sync", "l*-s?nc", true),
            ("local-sync", "*", true),
            ("local-sync", "local", false),
            ("local-sync", "hip*", false),
            ("local-sync", "?", false),
            ("aab", "*ab", true),
            ("", "*", true),
            ("", "", true),
            ("a", "", false),
        ] {
            assert_eq!(matches_pattern(text, pattern), expected, "{text} {pattern}");
        }
    }
}
