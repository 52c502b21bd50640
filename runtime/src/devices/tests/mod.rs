//! Devices and command buffers together, with an executable written here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(unsafe_code, reason = "kernels work on raw memory")]

mod borrows;
mod constants;
mod drivers;
mod elision;
mod own_code;
mod queue;

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use crate::hal::local::{
    DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo, Loaders, LocalExecutable, Worker,
};
use crate::hal::*;
use crate::{Error, Result, StatusCode, vm};

/// Functions on 32-bit integers, an element to a workgroup: 0 adds two bindings into a third, 1 multiplies binding 0 by
/// constant 0 through local memory, 2 fails, 3 counts workgroups.
#[derive(Debug)]
struct TestExecutable {
    functions: Vec<FunctionInfo>,
    workgroups: AtomicU64,
}

impl LocalExecutable for TestExecutable {
    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    unsafe fn dispatch(
        &self,
        function: usize,
        arguments: &DispatchArguments<'_>,
        workgroups: Range<u64>,
        worker: &mut Worker<'_>,
    ) -> Result<()> {
        let element = |binding: usize, index: usize| {
            assert!((index + 1) * 4 <= arguments.binding_lengths[binding]);
            // SAFETY: within the binding, as just asserted.
            unsafe { arguments.binding_pointers[binding].0.cast::<i32>().add(index) }
        };
        for workgroup in workgroups {
            let index = workgroup as usize;
            match function {
                // SAFETY: `element` checks the range, and nothing else runs meanwhile.
                0 => unsafe {
                    element(2, index).write(element(0, index).read().wrapping_add(element(1, index).read()));
                },
                1 => {
                    let memory = &mut worker.local_memory[..16];
                    assert_eq!(memory.as_ptr().align_offset(64), 0);
                    memory[..4].copy_from_slice(&arguments.constants[0].to_le_bytes());
                    let factor = i32::from_le_bytes(memory[..4].try_into().unwrap());
                    // SAFETY: as above.
                    unsafe { element(0, index).write(element(0, index).read().wrapping_mul(factor)) };
                }
                2 => return Err(Error::internal("the kernel failed")),
                _ => {
                    self.workgroups.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }
}

/// A kernel that records what it is told of its bindings, and does nothing.
#[derive(Debug)]
struct Recorder {
    info: [FunctionInfo; 1],
    read_only: AtomicU64,
    constants: Mutex<Vec<Option<vm::ConstantBytes>>>,
}

impl Recorder {
    fn new(info: FunctionInfo) -> Recorder {
        Recorder { info: [info], read_only: AtomicU64::new(0), constants: Mutex::default() }
    }
}

impl LocalExecutable for Recorder {
    fn functions(&self) -> &[FunctionInfo] {
        &self.info
    }

    unsafe fn dispatch(
        &self,
        _: usize,
        arguments: &DispatchArguments<'_>,
        _: Range<u64>,
        _: &mut Worker<'_>,
    ) -> Result<()> {
        self.read_only.store(arguments.read_only_bindings, Ordering::Relaxed);
        *self.constants.lock().unwrap() = arguments.binding_constants.to_vec();
        Ok(())
    }
}

/// Loads what a test has made.
#[derive(Debug)]
struct Made<E>(Arc<E>);

impl<E: LocalExecutable + 'static> ExecutableLoader for Made<E> {
    fn name(&self) -> &'static str {
        "test"
    }

    fn supports(&self, format: &str) -> bool {
        format == "test"
    }

    fn load(&self, _: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        Ok(self.0.clone())
    }
}

/// A device, and kernels that a test has made as an executable of it.
fn device_with<E: LocalExecutable + 'static>(
    uri: &str,
    task: local::engine::TaskOptions,
    kernels: &Arc<E>,
) -> (Arc<Device>, Arc<Executable>) {
    let loaders: Vec<Arc<dyn ExecutableLoader>> = vec![Arc::new(Made(kernels.clone()))];
    let options = DeviceOptions { loaders: Some(loaders), task, ..DeviceOptions::default() };
    let device = DriverRegistry::default().create_device(uri, options).unwrap();
    let executable =
        device.create_executable(&Loaders::default(), "test", &[], None, &[], crate::vm::Ledger::HOST).unwrap();
    (device, executable)
}

#[derive(Debug)]
struct TestLoader;

impl ExecutableLoader for TestLoader {
    fn name(&self) -> &'static str {
        "test"
    }

    fn supports(&self, format: &str) -> bool {
        format == "test-format"
    }

    fn load(&self, _: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        let function = |name: &str, constant_count, binding_count, local_memory_size| FunctionInfo {
            name: name.into(),
            constant_count,
            binding_count,
            local_memory_size,
            ..FunctionInfo::default()
        };
        let functions = vec![
            function("add", 0, 3, 0),
            function("scale", 1, 1, 16),
            function("fail", 0, 0, 0),
            function("count", 0, 0, 0),
        ];
        Ok(Arc::new(TestExecutable { functions, workgroups: AtomicU64::new(0) }))
    }
}

#[derive(Debug)]
#[repr(align(64))]
struct Aligned<const N: usize>([u8; N]);

impl<const N: usize> AsRef<[u8]> for Aligned<N> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn device() -> Arc<Device> {
    let options =
        DeviceOptions { loaders: Some(vec![Arc::new(TestLoader)]), memory_limit: u64::MAX, ..DeviceOptions::default() };
    DriverRegistry::default().create_device("local-sync://", options).unwrap()
}

fn executable(device: &Device) -> Arc<Executable> {
    device.create_executable(&Loaders::default(), "test-format", &[], None, &[], crate::vm::Ledger::HOST).unwrap()
}

fn buffer(device: &Device, values: &[i32]) -> Arc<Buffer> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let buffer = device.allocator().allocate(BufferParameters::DEVICE, bytes.len() as u64).unwrap();
    buffer.write(0, &bytes).unwrap();
    buffer
}

fn values(buffer: &Buffer) -> Vec<i32> {
    buffer.to_vec().unwrap().as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
}

fn direct(buffer: &Arc<Buffer>) -> BufferRef {
    BufferRef { buffer: Some(Arc::clone(buffer)), slot: 0, offset: 0, length: WHOLE_BUFFER }
}

fn slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset, length }
}

fn bound(buffer: &Arc<Buffer>) -> BufferBinding<'static> {
    BufferBinding { buffer: Some(Arc::clone(buffer).into()), offset: 0, length: WHOLE_BUFFER }
}

fn command_buffer(device: &Device, capacity: u32) -> Arc<CommandBuffer> {
    Arc::new(device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::all(), capacity))
}

fn record_add(
    commands: &CommandBuffer,
    executable: &Arc<Executable>,
    bindings: [BufferRef; 3],
    count: u32,
) -> Result<()> {
    let workgroups = Workgroups::Count([count, 1, 1]);
    commands.dispatch(Arc::clone(executable), 0, workgroups, &[], bindings, DispatchFlags::empty())
}

fn execute(device: &Device, commands: &Arc<CommandBuffer>, bindings: &[BufferBinding<'_>]) -> Result<()> {
    device.queue_execute(Fences::default(), commands, bindings)
}

/// An add of 4 elements, with everything in slots, recorded once.
fn indirect_add(device: &Device) -> Arc<CommandBuffer> {
    let commands = command_buffer(device, 3);
    record_add(&commands, &executable(device), [slot(0, 0, 16), slot(1, 0, 16), slot(2, 0, 16)], 4).unwrap();
    let stages = ExecutionStage::DISPATCH | ExecutionStage::TRANSFER;
    commands.execution_barrier(stages, stages).unwrap();
    commands.finalize().unwrap();
    commands
}

#[test]
fn recorded_commands_run_in_order() {
    let device = device();
    let (a, b, c) = (buffer(&device, &[1, 2, 3, 4]), buffer(&device, &[0; 4]), buffer(&device, &[0; 6]));
    let commands = command_buffer(&device, 0);
    let executable = executable(&device);
    commands.begin_debug_group("all").unwrap();
    commands.fill(direct(&b), 10, 4).unwrap();
    commands.update(&20i32.to_le_bytes(), BufferRef { offset: 4, length: 4, ..direct(&b) }).unwrap();
    record_add(&commands, &executable, [direct(&a), direct(&b), direct(&b)], 4).unwrap();
    let scale = executable.lookup("scale").unwrap() as u64;
    let workgroups = Workgroups::Count([2, 2, 1]);
    commands.dispatch(Arc::clone(&executable), scale, workgroups, &[3], [direct(&b)], DispatchFlags::empty()).unwrap();
    commands.copy(BufferRef { length: 16, ..direct(&b) }, BufferRef { offset: 8, length: 16, ..direct(&c) }).unwrap();
    commands.end_debug_group().unwrap();
    commands.finalize().unwrap();
    execute(&device, &commands, &[]).unwrap();
    assert_eq!(values(&b), [33, 66, 39, 42]);
    assert_eq!(values(&c), [0, 0, 33, 66, 39, 42]);
}

#[test]
fn slots_are_bound_anew_by_each_execution() {
    let device = device();
    let commands = indirect_add(&device);
    let (a, b) = (buffer(&device, &[1, 2, 3, 4]), buffer(&device, &[10, 20, 30, 40]));
    let c = buffer(&device, &[7; 8]);
    let upper = BufferBinding { offset: 16, length: 16, ..bound(&c) };
    execute(&device, &commands, &[bound(&a), bound(&b), upper]).unwrap();
    assert_eq!(values(&c), [7, 7, 7, 7, 11, 22, 33, 44]);
    execute(&device, &commands, &[bound(&a), bound(&a), bound(&a)]).unwrap();
    assert_eq!(values(&a), [2, 4, 6, 8]);
}

#[test]
fn a_table_that_does_not_fit_is_refused() {
    let device = device();
    let commands = indirect_add(&device);
    let (a, short) = (buffer(&device, &[0; 4]), buffer(&device, &[0; 3]));
    let code = |table: Vec<BufferBinding<'static>>| execute(&device, &commands, &table).unwrap_err().code();
    assert_eq!(code(vec![bound(&a), bound(&a)]), StatusCode::InvalidArgument);
    assert_eq!(code(vec![bound(&a), bound(&a), BufferBinding::default()]), StatusCode::InvalidArgument);
    assert_eq!(code(vec![bound(&a), bound(&a), bound(&short)]), StatusCode::OutOfRange);
    let clipped = BufferBinding { offset: 4, length: 12, ..bound(&a) };
    assert_eq!(code(vec![bound(&a), bound(&a), clipped]), StatusCode::OutOfRange);
}

#[test]
fn recording_checks_what_it_is_given() {
    let device = device();
    let commands = command_buffer(&device, 1);
    let executable = executable(&device);
    let a = buffer(&device, &[0; 4]);
    // SAFETY: no kernel runs here.
    let promise = unsafe { InputsOnlyRead::promise() };
    let constants = Arc::new(Aligned([0u8; 16]));
    let constants = device.allocator().import_read_only(constants, BufferParameters::DEVICE, promise).unwrap();
    let dispatch = |function: u64, constants: &[u32], bindings: Vec<BufferRef>, flags| {
        let workgroups = Workgroups::Count([1, 1, 1]);
        commands.dispatch(Arc::clone(&executable), function, workgroups, constants, bindings, flags).unwrap_err().code()
    };
    let none = DispatchFlags::empty();
    assert_eq!(dispatch(4, &[], vec![], none), StatusCode::OutOfRange);
    assert_eq!(dispatch(u64::MAX, &[], vec![], none), StatusCode::OutOfRange);
    assert_eq!(dispatch(0, &[], vec![direct(&a), direct(&a)], none), StatusCode::InvalidArgument);
    assert_eq!(dispatch(2, &[1], vec![], none), StatusCode::InvalidArgument);
    assert_eq!(dispatch(0, &[], vec![direct(&a), direct(&a), slot(1, 0, 16)], none), StatusCode::OutOfRange);
    assert_eq!(dispatch(2, &[], vec![], DispatchFlags::CUSTOM_DIRECT_ARGUMENTS), StatusCode::Unimplemented);
    assert_eq!(dispatch(2, &[], vec![slot(0, 0, 0); 65], none), StatusCode::OutOfRange);
    let code = |result: Result<()>| result.unwrap_err().code();
    assert_eq!(code(commands.fill(direct(&constants), 0, 1)), StatusCode::PermissionDenied);
    assert_eq!(code(commands.fill(direct(&a), 0, 3)), StatusCode::InvalidArgument);
    assert_eq!(code(commands.fill(slot(0, 2, 8), 0, 4)), StatusCode::InvalidArgument);
    assert_eq!(code(commands.update(&[0; 3], direct(&a))), StatusCode::InvalidArgument);
    assert_eq!(code(commands.copy(slot(0, 0, 8), slot(0, 8, 4))), StatusCode::InvalidArgument);
    assert_eq!(code(commands.copy(direct(&a), BufferRef { offset: 17, ..direct(&a) })), StatusCode::OutOfRange);
    assert_eq!(code(commands.end_debug_group()), StatusCode::FailedPrecondition);
    assert_eq!(code(execute(&device, &commands, &[])), StatusCode::FailedPrecondition);
    commands.begin_debug_group("open").unwrap();
    assert_eq!(code(commands.finalize()), StatusCode::FailedPrecondition);
    commands.end_debug_group().unwrap();
    commands.finalize().unwrap();
    assert_eq!(code(commands.finalize()), StatusCode::FailedPrecondition);
    assert_eq!(code(commands.fill(direct(&a), 0, 4)), StatusCode::FailedPrecondition);
    // Nothing of what failed was kept.
    execute(&device, &commands, &[]).unwrap();
    let transfers = device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::TRANSFER, 0);
    assert_eq!(
        code(record_add(&transfers, &executable, [(); 3].map(|()| direct(&a)), 1)),
        StatusCode::FailedPrecondition
    );
}

#[test]
fn workgroup_counts_come_from_buffers_and_zero_is_nothing() {
    let device = device();
    let options = ExecutableParameters {
        format: "",
        data: &[],
        contents: None,
        constants: &[],
        imports: &local::library::ImportRegistry::default(),
        limits: &crate::vm::Limits::default(),
        reassociate: false,
    };
    let code = TestLoader.load(&options).unwrap();
    let executable = Arc::new(Executable::new(Arc::clone(&code)));
    let counts = buffer(&device, &[0, 3, 2, 1]);
    let commands = command_buffer(&device, 0);
    let workgroups = || Workgroups::Indirect(BufferRef { offset: 4, ..direct(&counts) });
    commands.dispatch(Arc::clone(&executable), 3, workgroups(), &[], [], DispatchFlags::empty()).unwrap();
    commands
        .dispatch(Arc::clone(&executable), 2, Workgroups::Count([5, 0, 5]), &[], [], DispatchFlags::empty())
        .unwrap();
    commands.finalize().unwrap();
    execute(&device, &commands, &[]).unwrap();
    let text = alloc::format!("{code:?}");
    assert!(text.contains("workgroups: 6"), "{text}");
    counts.write(4, &0i32.to_le_bytes()).unwrap();
    execute(&device, &commands, &[]).unwrap();
    assert_eq!(alloc::format!("{code:?}"), text);
    let huge = command_buffer(&device, 0);
    huge.dispatch(executable, 3, Workgroups::Count([u32::MAX; 3]), &[], [], DispatchFlags::empty()).unwrap();
    huge.finalize().unwrap();
    assert_eq!(execute(&device, &huge, &[]).unwrap_err().code(), StatusCode::OutOfRange);
}

#[test]
fn one_shot_commands_run_while_they_are_recorded() {
    let device = device();
    let modes = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
    let commands = Arc::new(device.create_command_buffer(modes, CommandCategory::all(), 0));
    let a = buffer(&device, &[0; 4]);
    commands.fill(direct(&a), 5, 4).unwrap();
    assert_eq!(values(&a), [5; 4]);
    let executable = executable(&device);
    let failing = commands.dispatch(executable, 2, Workgroups::Count([1; 3]), &[], [], DispatchFlags::empty());
    assert!(failing.unwrap_err().to_string().contains("the kernel failed"));
    a.write(0, &[0; 16]).unwrap();
    commands.finalize().unwrap();
    execute(&device, &commands, &[]).unwrap();
    assert_eq!(values(&a), [0; 4]);
}

#[test]
fn failures_name_the_command_and_fail_the_fence() {
    let device = device();
    let commands = command_buffer(&device, 0);
    commands.dispatch(executable(&device), 2, Workgroups::Count([1; 3]), &[], [], DispatchFlags::empty()).unwrap();
    commands.finalize().unwrap();
    let signal = Arc::new(Fence::new());
    let fences = Fences { wait: None, signal: SignalFence::Given(Arc::clone(&signal)), ..Fences::default() };
    let error = device.queue_execute(fences, &commands, &[]).unwrap_err();
    assert_eq!(error.to_string(), "command 0, dispatch of function 2 'fail': INTERNAL; the kernel failed");
    assert_eq!(signal.query().unwrap_err().message(), "the kernel failed");
}

#[test]
fn threads_execute_one_command_buffer_at_once() {
    let device = device();
    let commands = indirect_add(&device);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, commands) = (&device, &commands);
            scope.spawn(move || {
                let (a, b) = (buffer(device, &[thread; 4]), buffer(device, &[1; 4]));
                for _ in 0..500 {
                    let table = &[bound(&a), bound(&b), bound(&a)];
                    execute(device, commands, table).unwrap();
                }
                assert_eq!(values(&a), [thread + 500; 4]);
            });
        }
    });
}

#[test]
fn read_only_bindings_are_marked_for_kernels() {
    let device = device();
    let recorder = Arc::new(Recorder::new(FunctionInfo { binding_count: 3, ..FunctionInfo::default() }));
    // SAFETY: no kernel runs here.
    let promise = unsafe { InputsOnlyRead::promise() };
    let constants = Arc::new(Aligned([0u8; 16]));
    let constants = device.allocator().import_read_only(constants, BufferParameters::DEVICE, promise).unwrap();
    let a = buffer(&device, &[0; 4]);
    let commands = command_buffer(&device, 1);
    let executable = Arc::new(Executable::new(Arc::clone(&recorder) as Arc<dyn LocalExecutable>));
    record_add(&commands, &executable, [direct(&a), direct(&constants), slot(0, 0, 16)], 1).unwrap();
    commands.finalize().unwrap();
    execute(&device, &commands, &[bound(&constants)]).unwrap();
    assert_eq!(recorder.read_only.load(Ordering::Relaxed), 0b110);
}

/// What one call of a compiled 4xf32 multiply asks of the HAL, less the kernel: run it in release mode to see its cost.
#[test]
fn steady_state_calls_take_no_memory_from_the_system() {
    let device = device();
    let commands = indirect_add(&device);
    let inputs = [buffer(&device, &[1, 2, 3, 4]), buffer(&device, &[5, 6, 7, 8])];
    let call = || {
        for input in &inputs {
            input.check(16, MemoryType::DEVICE_VISIBLE, BufferUsage::TRANSFER | BufferUsage::DISPATCH_STORAGE).unwrap();
        }
        let (ready, done) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        let fences = Fences { wait: None, signal: SignalFence::Given(Arc::clone(&ready)), ..Fences::default() };
        let output = device.queue_alloca(fences, BufferParameters::DEVICE, 16).unwrap();
        let table = &[bound(&inputs[0]), bound(&inputs[1]), bound(&output)];
        let fences = Fences { wait: Some(&ready), signal: SignalFence::Given(Arc::clone(&done)), ..Fences::default() };
        device.queue_execute(fences, &commands, table).unwrap();
        done.wait(Deadline::NEVER).unwrap();
        BufferView::new(output, &[4], ElementType::INT_32, EncodingType::DENSE_ROW_MAJOR).unwrap()
    };
    assert_eq!(values(call().buffer()), [6, 8, 10, 12]);
    let before = device.allocator().statistics().system_allocations;
    let rounds = 10_000;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        call();
    }
    std::eprintln!("{} ns a call", start.elapsed().as_nanos() / rounds);
    assert_eq!(device.allocator().statistics().system_allocations, before);
}
