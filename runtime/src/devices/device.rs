//! Devices: an allocator, executable loaders, and a queue.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::bytecode::Contents;
use crate::bytecode::executable_format::untrusted_refusal;
use crate::hal::backend::{self, Backend, ExecutableCache, InlineExecution, Operation, Queue};
#[cfg(feature = "local-task")]
use crate::hal::local::engine::TaskOptions;
use crate::hal::local::library::ImportRegistry;
use crate::hal::local::{ExecutableLoader, Loaders, has_feature};
use crate::hal::{
    Allocator, Buffer, BufferBinding, BufferParameters, CallLimits, CommandBuffer, CommandBufferMode, CommandCategory,
    Executable, Fences, File, Transfers,
};
use crate::vm::{Charge, Ledger, arc_of};
use crate::{Error, Result, ref_object};

/// Options of a device, except for its queue.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Executable loaders, in order of precedence. None: those of the programs that use the device.
    pub loaders: Option<Vec<Arc<dyn ExecutableLoader>>>,
    /// Functions that machine-code executables may import, such as those of plugins.
    pub imports: ImportRegistry,
    /// The limit of live device memory in bytes.
    pub memory_limit: u64,
    /// Options of a local-task device.
    #[cfg(feature = "local-task")]
    pub task: TaskOptions,
}

impl Default for DeviceOptions {
    /// Uses the programs' loaders, without a limit.
    fn default() -> DeviceOptions {
        DeviceOptions {
            loaders: None,
            imports: ImportRegistry::default(),
            memory_limit: u64::MAX,
            #[cfg(feature = "local-task")]
            task: TaskOptions::default(),
        }
    }
}

/// A device (`!hal.device`).
///
/// Queue operations take a fence to wait for (none counts as reached) and a fence to signal. An operation runs as soon
/// as its wait fence is reached. If it fails, it fails its signal fence; an error that is known on return is also
/// returned. Operations without a wait fence start in the order of the calls; use fences where the order of completion
/// matters.
pub struct Device {
    id: String,
    allocator: Arc<Allocator>,
    loaders: Option<Vec<Arc<dyn ExecutableLoader>>>,
    imports: ImportRegistry,
    queue: Queue,
    /// Runs commands while they are recorded, if the backend can and the program allows it.
    inline: Option<InlineExecution>,
}

ref_object!(Device, "hal.device");

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.id)
    }
}

impl Device {
    /// Creates a device that executes operations with `backend`: what a [`Driver`](super::Driver) does.
    #[must_use]
    pub fn new(id: &str, options: DeviceOptions, backend: Arc<dyn Backend>) -> Device {
        let allocator = backend.device_allocator().unwrap_or_else(|| Allocator::with_limit(options.memory_limit));
        let allocator = Arc::new(allocator);
        let inline = backend.inline_execution();
        Device {
            id: id.into(),
            allocator,
            loaders: options.loaders,
            imports: options.imports,
            queue: Queue::new(backend),
            inline,
        }
    }

    /// Returns the name that programs match against patterns such as `local*`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the allocator of the device's memory.
    #[inline]
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.allocator
    }

    /// Returns the number of workers that run the workgroups of a dispatch.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.queue.backend().concurrency()
    }

    /// Answers `hal.device.query`; `None` for unknown keys. `loaders` are the program's.
    #[must_use]
    pub fn query(&self, loaders: &Loaders, category: &str, key: &str) -> Option<i64> {
        match (category, key) {
            ("hal.device.id", pattern) => Some(i64::from(matches_pattern(&self.id, pattern))),
            ("hal.executable.format", format) => Some(i64::from(self.supports(loaders, format))),
            ("hal.device", "concurrency") => i64::try_from(self.queue.backend().queue_count()).ok(),
            ("hal.dispatch", "concurrency") => i64::try_from(self.concurrency()).ok(),
            ("hal.cpu", feature) => has_feature(feature).map(i64::from),
            _ => None,
        }
    }

    /// Whether the device may run code of its own, which no verifier checks: it has no loaders, which would be the only ones, and the
    /// program is trusted.
    fn permits_own_code(&self, loaders: &Loaders) -> bool {
        self.loaders.is_none() && loaders.permit_machine_code()
    }

    fn supports(&self, loaders: &Loaders, format: &str) -> bool {
        match self.queue.backend().executable_cache() {
            Some(cache) => self.permits_own_code(loaders) && cache.supports(format),
            None => loaders.support(self.loaders(), format),
        }
    }

    /// Returns the device's own executable loaders, in order of precedence. None: those of the programs.
    #[must_use]
    pub fn loaders(&self) -> Option<&[Arc<dyn ExecutableLoader>]> {
        self.loaders.as_deref()
    }

    /// Returns the functions that machine-code executables may import.
    #[must_use]
    pub fn imports(&self) -> &ImportRegistry {
        &self.imports
    }

    /// Loads an executable of the given format. `loaders` are the program's; `contents` is the file that contains
    /// `data`, if there is one. The executable is charged to the ledger, [`Ledger::HOST`] for a host program.
    ///
    /// # Errors
    /// NOT_FOUND if no loader supports the format; PERMISSION_DENIED for code that no verifier checks, where it is refused;
    /// RESOURCE_EXHAUSTED if the ledger is used up; errors of the loader.
    pub fn create_executable(
        &self,
        loaders: &Loaders,
        format: &str,
        data: &[u8],
        contents: Option<&Arc<Contents>>,
        constants: &[u32],
        ledger: &Ledger,
    ) -> Result<Arc<Executable>> {
        let executable = match self.queue.backend().executable_cache() {
            Some(cache) => self.prepare(loaders, cache, format, data, constants, ledger),
            None => loaders.load(self.loaders(), &self.imports, format, data, contents, constants, ledger),
        };
        executable.map_err(|error| error.context(format!("on device '{}'", self.id)))
    }

    /// Loads an executable that the device itself runs.
    fn prepare(
        &self,
        loaders: &Loaders,
        cache: &dyn ExecutableCache,
        format: &str,
        data: &[u8],
        constants: &[u32],
        ledger: &Ledger,
    ) -> Result<Arc<Executable>> {
        if !cache.supports(format) {
            return Err(Error::not_found(format!("the device runs no executables of format '{format}'")));
        }
        if !loaders.permit_machine_code() {
            return Err(Error::permission_denied(untrusted_refusal(format)));
        }
        if self.loaders.is_some() {
            return Err(Error::permission_denied(format!(
                "the device has loaders (DeviceOptions::loaders), which are the only ones then, and runs no code of its own (format \
                 '{format}'): create it without loaders if you trust the module's author"
            )));
        }
        let charge = Executable::charge(data.len(), ledger)?;
        let code = cache.prepare(format, data, constants);
        let code = code.map_err(|error| error.context(format!("loading an executable of format '{format}'")))?;
        Ok(Arc::new(Executable::of_device(code, charge)))
    }

    /// Creates a command buffer of a host program, whose commands may use `binding_capacity` slots.
    #[must_use]
    pub fn create_command_buffer(
        &self,
        modes: CommandBufferMode,
        categories: CommandCategory,
        binding_capacity: u32,
    ) -> CommandBuffer {
        CommandBuffer::new(modes, categories, binding_capacity, self.inline, Charge::none())
    }

    /// Creates a command buffer for a program, which is charged to its ledger. If the call has a meter, its commands run where
    /// they are submitted and not while they are recorded, so that they are counted.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the ledger is used up.
    #[inline]
    pub fn create_command_buffer_within(
        &self,
        limits: CallLimits<'_>,
        modes: CommandBufferMode,
        categories: CommandCategory,
        binding_capacity: u32,
    ) -> Result<Arc<CommandBuffer>> {
        let charge = CommandBuffer::charge(limits.ledger())?;
        let inline = self.inline.filter(|_| limits.meter.is_none());
        Ok(arc_of(|| CommandBuffer::new(modes, categories, binding_capacity, inline, charge)))
    }

    fn submit(&self, fences: Fences<'_>, operation: Operation) -> Result<()> {
        self.queue.submit(fences, operation)
    }

    /// Returns true if no operation of any of the devices is running or waits for a fence of the host. Then only a call can
    /// signal what the others wait for.
    pub fn are_idle(devices: &[Arc<Device>]) -> bool {
        Queue::are_idle(devices.iter().map(|device| &device.queue))
    }

    /// Runs `now` on `target` at once if the wait fence is reached, otherwise submits the operation. Releases the
    /// target before it signals.
    #[inline(always)]
    fn do_or_submit<T>(
        &self,
        fences: Fences<'_>,
        target: T,
        now: impl FnOnce(T) -> Result<()>,
        later: impl FnOnce(T) -> Operation,
    ) -> Result<()> {
        match backend::is_reached(fences.wait) {
            Ok(false) => self.submit(fences, later(target)),
            waited => {
                let done = waited.and_then(|_| now(target));
                fences.signal.finish(done)
            }
        }
    }

    /// Allocates a buffer, which is ready when the signal fence is reached.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if memory is short.
    #[inline]
    pub fn queue_alloca(&self, fences: Fences<'_>, parameters: BufferParameters, length: u64) -> Result<Arc<Buffer>> {
        match self.allocator.allocate_transient(parameters, length, fences.limits.ledger()) {
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

    /// Releases a reference to a buffer once the wait fence is reached. The memory returns to the pool with the last
    /// reference, so a use after this call is safe.
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

    /// Signals the signal fence once the wait fence is reached.
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
    /// Those of [`Buffer::fill`]; the failure of a fence.
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

    /// Writes bytes, copied at the call if necessary, into a buffer; see [`Buffer::write`].
    ///
    /// # Errors
    /// Those of [`Buffer::write`]; the failure of a fence.
    pub fn queue_update(&self, fences: Fences<'_>, source: &[u8], target: Arc<Buffer>, offset: u64) -> Result<()> {
        // Without a fence to wait for, the write needs no copy of the bytes.
        match backend::is_reached(fences.wait) {
            Ok(false) => self.queue.submit_update(fences, source, target, offset),
            waited => {
                let done = waited.and_then(|_| target.write(offset, source));
                drop(target);
                fences.signal.finish(done)
            }
        }
    }

    /// Copies between buffers; see [`Buffer::copy_from`].
    ///
    /// # Errors
    /// Those of [`Buffer::copy_from`]; the failure of a fence.
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
    /// Those of [`File::read`]; the failure of a fence.
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
    /// Those of [`File::write`]; the failure of a fence.
    pub fn queue_write(
        &self,
        fences: Fences<'_>,
        (source, source_offset): (Arc<Buffer>, u64),
        (target, target_offset): (Arc<File>, u64),
        length: u64,
    ) -> Result<()> {
        self.submit(fences, Operation::Write { source, source_offset, target, target_offset, length })
    }

    /// Runs several transfers sequentially as one operation.
    ///
    /// # Errors
    /// The first error of a transfer; the failure of a fence.
    pub fn queue_transfers(&self, fences: Fences<'_>, transfers: Transfers) -> Result<()> {
        if transfers.is_empty() {
            return self.queue_barrier(fences);
        }
        self.submit(fences, transfers.into_operation())
    }

    /// Executes a command buffer with the given buffers bound to its slots.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it is not finalized; INVALID_ARGUMENT and OUT_OF_RANGE if the bindings do not fit the
    /// commands; errors of kernels; the failure of a fence.
    #[inline]
    pub fn queue_execute(
        &self,
        fences: Fences<'_>,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
    ) -> Result<()> {
        self.queue.submit_execution(fences, command_buffer, bindings)
    }

    /// Flushes submitted operations. Local devices submit at once, so this does nothing.
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
    /// Waits for running operations, but not for those whose wait fence is not reached.
    fn drop(&mut self) {
        self.queue.backend().drain();
    }
}

/// Returns true if `text` matches a pattern in which `*` stands for any characters and `?` for any one.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (mut at, mut in_pattern) = (0, 0);
    // The positions to resume from when the match of the last `*` has to grow.
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
