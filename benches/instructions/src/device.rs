//! Command buffers and texts of tensors, by the interfaces of the HAL.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use incarnate_runtime::Result;
use incarnate_runtime::hal::format::{format_view, parse_elements};
use incarnate_runtime::hal::local::{
    DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo, Loaders, LocalExecutable, Worker,
};
use incarnate_runtime::hal::{
    Buffer, BufferParameters, BufferRef, BufferView, CommandBuffer, CommandBufferMode, CommandCategory, Deadline,
    Device, DeviceOptions, DispatchFlags, DriverRegistry, ElementType, EncodingType, Executable, ExecutionStage, Fence,
    Fences, SignalFence, WHOLE_BUFFER, Workgroups,
};

use crate::Operation;

/// A kernel that does nothing, with this number of bindings.
#[derive(Debug)]
struct Empty([FunctionInfo; 1]);

impl LocalExecutable for Empty {
    fn functions(&self) -> &[FunctionInfo] {
        &self.0
    }

    unsafe fn dispatch(
        &self,
        _: usize,
        arguments: &DispatchArguments<'_>,
        _: Range<u64>,
        _: &mut Worker<'_>,
    ) -> Result<()> {
        black_box(arguments);
        Ok(())
    }
}

#[derive(Debug)]
struct Loader(usize);

impl ExecutableLoader for Loader {
    fn name(&self) -> &'static str {
        "empty"
    }

    fn supports(&self, format: &str) -> bool {
        format == "empty"
    }

    fn load(&self, _: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        let info = FunctionInfo { name: "empty".into(), binding_count: self.0, ..FunctionInfo::default() };
        Ok(Arc::new(Empty([info])))
    }
}

fn device(bindings: usize) -> Arc<Device> {
    let options = DeviceOptions { loaders: Some(vec![Arc::new(Loader(bindings))]), ..DeviceOptions::default() };
    DriverRegistry::default().create_device("local-sync", options).unwrap()
}

fn buffer(device: &Device) -> Arc<Buffer> {
    device.allocator().allocate(BufferParameters::DEVICE, 64).unwrap()
}

/// A kernel and its bindings on a device.
struct Dispatch {
    device: Arc<Device>,
    executable: Arc<Executable>,
    buffers: Vec<Arc<Buffer>>,
}

impl Dispatch {
    fn new(bindings: usize) -> Dispatch {
        let device = device(bindings);
        let ledger = incarnate_runtime::vm::Ledger::HOST;
        let executable = device.create_executable(&Loaders::default(), "empty", &[], None, &[], ledger).unwrap();
        let buffers = (0..bindings).map(|_| buffer(&device)).collect();
        Dispatch { device, executable, buffers }
    }

    /// Records the dispatch a number of times.
    fn record(&self, dispatches: usize, mode: CommandBufferMode) -> Arc<CommandBuffer> {
        let commands = self.device.create_command_buffer(mode, CommandCategory::all(), 0);
        for _ in 0..dispatches {
            let bindings = self.buffers.iter().map(|buffer| BufferRef {
                buffer: Some(buffer.clone()),
                slot: 0,
                offset: 0,
                length: WHOLE_BUFFER,
            });
            let (count, flags) = (Workgroups::Count([1, 1, 1]), DispatchFlags::empty());
            commands.dispatch(self.executable.clone(), 0, count, &[], bindings, flags).unwrap();
            commands.execution_barrier(ExecutionStage::DISPATCH, ExecutionStage::DISPATCH).unwrap();
        }
        commands.finalize().unwrap();
        Arc::new(commands)
    }
}

fn execute(device: &Device, commands: &Arc<CommandBuffer>) {
    let done = Arc::new(Fence::new());
    let fences = Fences { wait: None, signal: SignalFence::Given(done.clone()), ..Fences::default() };
    device.queue_execute(fences, commands, &[]).unwrap();
    done.wait(Deadline::NEVER).unwrap();
}

/// Records one dispatch with a number of bindings, and executes it.
pub(crate) fn dispatch(bindings: usize) -> Operation {
    let dispatch = Dispatch::new(bindings);
    Box::new(move || execute(&dispatch.device, &dispatch.record(1, CommandBufferMode::ONE_SHOT)))
}

/// Executes recorded dispatches once more.
pub(crate) fn replay(dispatches: usize) -> Operation {
    let dispatch = Dispatch::new(3);
    let commands = dispatch.record(dispatches, CommandBufferMode::empty());
    Box::new(move || execute(&dispatch.device, &commands))
}

/// Reads a text with the elements of a tensor.
pub(crate) fn parse() -> Operation {
    let text: Vec<String> = (0..256).map(|index| format!("{}", f64::from(index) * 0.375 - 17.0)).collect();
    let text = text.join(" ");
    Box::new(move || {
        let mut bytes = [0; 1024];
        parse_elements(black_box(&text), ElementType::FLOAT_32, &mut bytes).unwrap();
        black_box(bytes);
    })
}

/// Writes a result as text.
pub(crate) fn format() -> Operation {
    let device = device(1);
    let bytes: Vec<u8> = (0..256).flat_map(|index| (index as f32 * 0.375 - 17.0).to_le_bytes()).collect();
    let buffer = device.allocator().allocate(BufferParameters::DEVICE, 1024).unwrap();
    buffer.write(0, &bytes).unwrap();
    let view = BufferView::new(buffer, &[16, 16], ElementType::FLOAT_32, EncodingType::DENSE_ROW_MAJOR).unwrap();
    Box::new(move || {
        let mut text = String::new();
        format_view(&mut text, &view, usize::MAX).unwrap();
        black_box(text);
    })
}
