//! The overhead of local-task (group `task`) by number of workers: a dispatch of a parallel execution, one workgroup,
//! and the wake-up of a sleeping worker. More workers than cores contend for them.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(unsafe_code, reason = "kernels are unsafe functions")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot begin has no caller to tell")]

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use incarnate_runtime::Result;
use incarnate_runtime::hal::local::engine::TaskOptions;
use incarnate_runtime::hal::local::{
    DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo, Loaders, LocalExecutable, Worker,
};
use incarnate_runtime::hal::{
    BufferParameters, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, Deadline, Device, DeviceOptions,
    DispatchFlags, DriverRegistry, ExecutionStage, Fence, Fences, SignalFence, WHOLE_BUFFER, Workgroups,
};

const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// A workgroup that spins for the nanoseconds in its constant.
#[derive(Debug)]
struct Busy([FunctionInfo; 1]);

impl LocalExecutable for Busy {
    fn functions(&self) -> &[FunctionInfo] {
        &self.0
    }

    unsafe fn dispatch(
        &self,
        _: usize,
        arguments: &DispatchArguments<'_>,
        workgroups: Range<u64>,
        _: &mut Worker<'_>,
    ) -> Result<()> {
        let time = Duration::from_nanos(arguments.constants.first().copied().unwrap_or(0).into());
        for _ in workgroups {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Loader;

impl ExecutableLoader for Loader {
    fn name(&self) -> &'static str {
        "busy"
    }

    fn supports(&self, format: &str) -> bool {
        format == "busy"
    }

    fn load(&self, _: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        let info = FunctionInfo { name: "busy".into(), constant_count: 1, binding_count: 1, ..FunctionInfo::default() };
        Ok(Arc::new(Busy([info])))
    }
}

fn device(workers: usize, spin: Option<Duration>) -> Arc<Device> {
    let task = TaskOptions { worker_count: Some(workers), spin, ..TaskOptions::default() };
    let options = DeviceOptions { loaders: Some(vec![Arc::new(Loader)]), task, ..DeviceOptions::default() };
    DriverRegistry::default().create_device("local-task", options).expect("a device")
}

/// Runs a chain of dispatches, each with a number of workgroups of some nanoseconds.
fn chain(device: &Device, dispatches: usize, workgroups: u32, nanoseconds: u32) -> Arc<CommandBuffer> {
    let commands = device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::all(), 0);
    let executable = device
        .create_executable(&Loaders::default(), "busy", &[], None, &[], incarnate_runtime::vm::Ledger::HOST)
        .expect("the kernel");
    let buffer = device.allocator().allocate(BufferParameters::DEVICE, 64).expect("a buffer");
    for _ in 0..dispatches {
        let binding = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER };
        let count = Workgroups::Count([workgroups, 1, 1]);
        let flags = DispatchFlags::empty();
        commands.dispatch(executable.clone(), 0, count, &[nanoseconds], [binding], flags).expect("a dispatch");
        commands.execution_barrier(ExecutionStage::DISPATCH, ExecutionStage::DISPATCH).expect("a barrier");
    }
    commands.finalize().expect("commands");
    Arc::new(commands)
}

/// Fills a buffer of a mebibyte again and again.
fn fills(device: &Device, count: usize) -> Arc<CommandBuffer> {
    const LENGTH: u64 = 1 << 20;
    let commands = device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::all(), 0);
    let buffer = device.allocator().allocate(BufferParameters::DEVICE, LENGTH).expect("a buffer");
    for _ in 0..count {
        let target = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: LENGTH };
        commands.fill(target, 0, 1).expect("a fill");
        commands.execution_barrier(ExecutionStage::TRANSFER, ExecutionStage::TRANSFER).expect("a barrier");
    }
    commands.finalize().expect("commands");
    Arc::new(commands)
}

fn execute(device: &Device, commands: &Arc<CommandBuffer>) {
    let done = Arc::new(Fence::new());
    let fences = Fences { wait: None, signal: SignalFence::Given(done.clone()), ..Fences::default() };
    device.queue_execute(fences, commands, &[]).expect("an execution");
    done.wait(Deadline::NEVER).expect("the end");
}

fn task(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("task");
    for workers in WORKERS {
        // Too short for parallel execution: the rest is the overhead of an execution and of each dispatch in it.
        let own = device(workers, None);
        let small = chain(&own, 1, 1, 0);
        group.bench_function(BenchmarkId::new("small_execution", workers), |b| b.iter(|| execute(&own, &small)));
        // 200 x 8 workgroups of 1 us: 1.6 ms on one thread.
        let spread = chain(&own, 200, 8, 1000);
        group.throughput(Throughput::Elements(200));
        group.bench_function(BenchmarkId::new("dispatches_of_8_us", workers), |b| b.iter(|| execute(&own, &spread)));
        // Each thread writes again what is in the cache of its core.
        let memory = fills(&own, 20);
        group.throughput(Throughput::Bytes(20 << 20));
        group.bench_function(BenchmarkId::new("fills_of_1_mib", workers), |b| b.iter(|| execute(&own, &memory)));
        // Workers sleep at once, so that each execution begins with wake-ups: 2 workgroups of 200 us.
        let sleepy = device(workers, Some(Duration::ZERO));
        let pair = chain(&sleepy, 1, 2, 200_000);
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("wake_up_for_2x200_us", workers), |b| b.iter(|| execute(&sleepy, &pair)));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(700));
    targets = task
}
criterion_main!(benches);
