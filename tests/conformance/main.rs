//! One list of cases for the devices of every driver, by the meaning of IREE's HAL conformance suite: allocators and buffers, command
//! buffers, dispatches, semaphores, queues, files.
//!
//! With the feature `vulkan`, the list also runs on the default Vulkan device, with memory that the host accesses in place and with
//! memory that it does not, with one queue and with several, with Vulkan's validation layers where they are installed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod buffers;
mod command_buffers;
mod dispatches;
mod files;
mod queues;
mod semaphores;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use incarnate_runtime::hal::local::Loaders;
use incarnate_runtime::hal::{
    Buffer, BufferBinding, BufferParameters, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, Deadline,
    Device, DeviceOptions, DriverRegistry, Executable, Fence, Fences,
};
use incarnate_runtime::{Result, StatusCode, vm};

/// A device, and the formats of executables that it runs.
struct Subject {
    uri: String,
    device: Arc<Device>,
    formats: &'static [&'static str],
}

const ONCE: CommandBufferMode = CommandBufferMode::ONE_SHOT;
const REUSABLE: CommandBufferMode = CommandBufferMode::empty();

/// The devices of this build and machine; says which are left out.
fn subjects() -> Vec<Subject> {
    let local = ["local-sync", "local-task://?workers=3"].map(|uri| (uri.to_owned(), &["vmvx-bytecode-fb"][..]));
    let gpu = vulkan().into_iter().map(|uri| (uri, &["vulkan-spirv-fb", "vulkan-spirv-bda-v1"][..]));
    let create = |(uri, formats): (String, _)| {
        let device = DriverRegistry::default().create_device(&uri, DeviceOptions::default());
        let device = device.unwrap_or_else(|error| panic!("{uri}: {error}"));
        Subject { uri, device, formats }
    };
    local.into_iter().chain(gpu).map(create).collect()
}

#[cfg(not(feature = "vulkan"))]
fn vulkan() -> Vec<String> {
    println!("skipped: vulkan, as the tests are built without the feature");
    Vec::new()
}

#[cfg(feature = "vulkan")]
fn vulkan() -> Vec<String> {
    let registry = DriverRegistry::default();
    if registry.driver("vulkan").unwrap().devices().is_empty() {
        println!("skipped: vulkan, as this machine has no Vulkan device");
        return Vec::new();
    }
    let validates = registry.create_device("vulkan://?validation=1", DeviceOptions::default());
    let validation = match validates {
        Ok(_) => 1,
        Err(error) => {
            println!("without validation: {error}");
            0
        }
    };
    // The last one has several queues on any device, which share one of Vulkan where it has no more.
    ["automatic", "staged", "staged&queues=3&transfer_queue=1"]
        .map(|access| format!("vulkan://?validation={validation}&host_access={access}"))
        .into()
}

/// Runs a case on each device.
fn on_each(case: impl Fn(&Subject)) {
    for subject in subjects() {
        println!("on {}", subject.uri);
        case(&subject);
        drop(subject);
    }
    #[cfg(feature = "vulkan")]
    assert_eq!(incarnate_runtime::hal::vulkan::validation_messages(), 0, "messages of validation layers");
}

/// Runs a case on each device with the kernels in each of its formats.
fn with_kernels(case: impl Fn(&Subject, &Arc<Executable>)) {
    on_each(|subject| {
        for format in subject.formats {
            println!("  format {format}");
            case(subject, &subject.kernels(format).unwrap());
        }
    });
}

/// Words as bytes.
fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Subject {
    fn kernels(&self, format: &str) -> Result<Arc<Executable>> {
        let name = format.split_once("-bytecode").map_or(format, |parts| parts.0);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/executables");
        let data = std::fs::read(folder.join(format!("kernels.{name}"))).unwrap();
        self.device.create_executable(&Loaders::all(), format, &data, None, &[], vm::Ledger::HOST)
    }

    fn buffer(&self, bytes: &[u8]) -> Arc<Buffer> {
        let buffer = self.device.allocator().allocate(all_uses(), bytes.len() as u64).unwrap();
        buffer.write(0, bytes).unwrap();
        buffer
    }

    fn words(&self, words: &[u32]) -> Arc<Buffer> {
        self.buffer(&bytes_of(words))
    }

    fn command_buffer(&self, modes: CommandBufferMode, slots: u32) -> CommandBuffer {
        self.device.create_command_buffer(modes, CommandCategory::all(), slots)
    }

    /// Records and executes commands once, and waits.
    fn run(&self, record: impl FnOnce(&CommandBuffer)) {
        let commands = self.command_buffer(ONCE, 0);
        record(&commands);
        commands.finalize().unwrap();
        self.execute(&Arc::new(commands), &[]).unwrap();
    }

    fn execute(&self, commands: &Arc<CommandBuffer>, table: &[BufferBinding<'_>]) -> Result<()> {
        let done = Arc::new(Fence::new());
        self.device.queue_execute(signalling(&done), commands, table)?;
        wait(&done)
    }
}

/// Waits for a fence, for a bounded time: a conforming device never hangs.
fn wait(fence: &Arc<Fence>) -> Result<()> {
    fence.wait_and_participate(Deadline::after(Duration::from_secs(60)))
}

fn signalling(fence: &Arc<Fence>) -> Fences<'static> {
    Fences { signal: Arc::clone(fence).into(), ..Fences::default() }
}

fn waiting<'a>(wait: &'a Fence, signal: &Arc<Fence>) -> Fences<'a> {
    Fences { wait: Some(wait), signal: Arc::clone(signal).into(), ..Fences::default() }
}

fn all_uses() -> BufferParameters {
    use incarnate_runtime::hal::BufferUsage;
    BufferParameters { usage: BufferUsage::TRANSFER | BufferUsage::DISPATCH, ..BufferParameters::DEVICE }
}

/// A range of a buffer.
fn range(buffer: &Arc<Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(Arc::clone(buffer)), slot: 0, offset, length }
}

/// All of a buffer.
fn whole(buffer: &Arc<Buffer>) -> BufferRef {
    range(buffer, 0, buffer.byte_length())
}

/// A range of what is bound to a slot.
fn slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset, length }
}

fn bound(buffer: &Arc<Buffer>) -> BufferBinding<'static> {
    BufferBinding { buffer: Some(Arc::clone(buffer).into()), offset: 0, length: buffer.byte_length() }
}

fn read_words(buffer: &Buffer) -> Vec<u32> {
    buffer.to_vec().unwrap().as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

fn code<T>(result: Result<T>) -> Option<StatusCode> {
    result.err().map(|error| error.code())
}

#[test]
fn devices_are_created_by_every_name_that_is_listed() {
    let registry = DriverRegistry::default();
    for driver in registry.drivers() {
        for info in driver.devices() {
            let uri = format!("{}://{}", driver.name(), info.path);
            let device = registry.create_device(&uri, DeviceOptions::default()).unwrap();
            assert!(!info.name.is_empty() && device.id() == driver.name(), "{uri}");
            let missing = registry.create_device(&format!("{}://77", driver.name()), DeviceOptions::default());
            assert_eq!(code(missing), Some(StatusCode::NotFound));
            let unknown = registry.create_device(&format!("{uri}?colour=red"), DeviceOptions::default());
            assert_eq!(code(unknown), Some(StatusCode::InvalidArgument));
        }
    }
}
