//! The backend as a whole, with kernels written here that meet, sleep, fail and count.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(unsafe_code, reason = "kernels are unsafe functions")]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex};

use super::participate::Engine;
use super::{Executor, TaskBackend, TaskOptions, Work};
use crate::cost::kernel_cost;
use crate::hal::backend::Queue;
use crate::hal::*;
use crate::vm::Charge;
use crate::{DispatchArguments, FunctionInfo, LocalExecutable, Worker};
use crate::{Error, Result, StatusCode};

/// How long tests wait for what must happen; only a failure takes as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// What kernels share: counts of workgroups by dispatch, and a place to meet.
#[derive(Debug, Default)]
struct Kernels {
    functions: Vec<FunctionInfo>,
    counts: [AtomicU64; 32],
    faults: AtomicUsize,
    present: Mutex<u32>,
    came: Condvar,
}

const COUNT: u64 = 0;
const SLEEP: u64 = 1;
const FAIL: u64 = 2;
const MEET: u64 = 3;
const PANIC: u64 = 4;
const DIVIDE: u64 = 5;

impl LocalExecutable for Kernels {
    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    unsafe fn dispatch(
        &self,
        function: usize,
        arguments: &DispatchArguments<'_>,
        workgroups: Range<u64>,
        _: &mut Worker<'_>,
    ) -> Result<()> {
        let count = workgroups.end - workgroups.start;
        match (function as u64, arguments.constants) {
            // Counts the workgroups of a dispatch, and notes where another one has not counted all of its own.
            (COUNT, [own, before, expected]) => {
                let complete = self.counts[*before as usize].load(Ordering::Relaxed) == u64::from(*expected);
                if own != before && !complete {
                    self.faults.fetch_add(1, Ordering::Relaxed);
                }
                self.counts[*own as usize].fetch_add(count, Ordering::Relaxed);
            }
            (SLEEP, [milliseconds]) => std::thread::sleep(Duration::from_millis(u64::from(*milliseconds) * count)),
            (FAIL, [code]) => return Err(Error::data_loss(alloc::format!("kernel fails with {code}"))),
            // Waits until as many workgroups are here at the same time.
            (MEET, [wanted]) => self.meet(*wanted)?,
            // Divides a loop whose parts meet, and counts the iterations.
            (DIVIDE, [wanted]) => {
                let strangers = AtomicUsize::new(0);
                crate::vm::parallel::divide(100, u64::MAX, &|range| {
                    self.counts[0].fetch_add(range.len() as u64, Ordering::Relaxed);
                    if self.meet(*wanted).is_err() {
                        strangers.fetch_add(1, Ordering::Relaxed);
                    }
                });
                self.faults.fetch_add(strangers.into_inner(), Ordering::Relaxed);
            }
            // Without the message that a panic prints.
            (PANIC, [_]) => std::panic::resume_unwind(Box::new("as told")),
            other => panic!("{other:?}"),
        }
        Ok(())
    }
}

impl Kernels {
    /// Waits until as many threads are here at the same time.
    fn meet(&self, wanted: u32) -> Result<()> {
        let mut present = self.present.lock().unwrap();
        *present += 1;
        self.came.notify_all();
        let (guard, timeout) = self.came.wait_timeout_while(present, PATIENCE, |present| *present < wanted).unwrap();
        if timeout.timed_out() {
            return Err(Error::deadline_exceeded("no other thread came"));
        }
        drop(guard);
        // What is quick is not spread.
        std::thread::sleep(Duration::from_millis(3));
        Ok(())
    }
}

/// A backend and the executable whose functions are dispatched on it.
struct Bench {
    engine: Arc<Engine>,
    queue: Queue,
    executable: Arc<Executable>,
    kernels: Arc<Kernels>,
}

impl Bench {
    fn new(task: TaskOptions) -> Bench {
        let function = |constant_count, binding_count| FunctionInfo {
            constant_count,
            binding_count,
            name: "kernel".into(),
            ..FunctionInfo::default()
        };
        let functions =
            vec![function(3, 1), function(1, 1), function(1, 1), function(1, 1), function(1, 1), function(1, 1)];
        let kernels = Arc::new(Kernels { functions, ..Kernels::default() });
        let backend = TaskBackend::new(&task).unwrap();
        let engine = backend.engine.clone();
        let queue = Queue::new(Arc::new(backend));
        let executable = Arc::new(Executable::new(kernels.clone()));
        Bench { engine, queue, executable, kernels }
    }

    fn with_workers(count: usize) -> Bench {
        Bench::new(TaskOptions { worker_count: Some(count), ..TaskOptions::default() })
    }

    fn commands(&self, capacity: u32) -> Arc<CommandBuffer> {
        Arc::new(CommandBuffer::new(CommandBufferMode::empty(), CommandCategory::all(), capacity, None, Charge::none()))
    }

    fn dispatch(&self, commands: &CommandBuffer, function: u64, workgroups: u32, constants: &[u32], on: &[BufferRef]) {
        let count = Workgroups::Count([workgroups, 1, 1]);
        let bindings = on.iter().cloned();
        let flags = DispatchFlags::empty();
        commands.dispatch(self.executable.clone(), function, count, constants, bindings, flags).unwrap();
    }

    /// Commands that are one dispatch.
    fn single(&self, function: u64, workgroups: u32, constants: &[u32]) -> Arc<CommandBuffer> {
        let commands = self.commands(0);
        let scratch = direct(&self.buffer());
        self.dispatch(&commands, function, workgroups, constants, &[scratch]);
        commands.finalize().unwrap();
        commands
    }

    fn buffer(&self) -> Arc<Buffer> {
        Allocator::new().allocate(BufferParameters::DEVICE, 64).unwrap()
    }

    fn execute(&self, wait: Option<&Fence>, signal: SignalFence<'_>, commands: &Arc<CommandBuffer>) -> Result<()> {
        let fences = Fences { wait, signal, ..Fences::default() };
        self.queue.submit_execution(fences, commands, &[])
    }

    fn start(&self, commands: &Arc<CommandBuffer>, wait: Option<&Fence>) -> Arc<Fence> {
        let done = Arc::new(Fence::new());
        // An error that is known already is the fence's as well.
        let _ = self.execute(wait, SignalFence::Given(done.clone()), commands);
        done
    }
}

fn barrier(commands: &CommandBuffer) {
    commands.execution_barrier(ExecutionStage::DISPATCH, ExecutionStage::DISPATCH).unwrap();
}

fn direct(buffer: &Arc<Buffer>) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER }
}

/// Dispatches of several sizes, each of which finds the one before complete.
fn chain(bench: &Bench, sizes: &[u32]) -> Arc<CommandBuffer> {
    let commands = bench.commands(0);
    let shared = bench.buffer();
    let mut before = None;
    for (index, size) in (0u32..).zip(sizes) {
        let (of, count) = before.unwrap_or((index, 0));
        // What they touch is what orders them.
        bench.dispatch(&commands, COUNT, *size, &[index, of, count], &[direct(&shared)]);
        barrier(&commands);
        before = Some((index, *size));
    }
    commands.finalize().unwrap();
    commands
}

#[test]
fn unaligned_memory_is_bound_to_no_kernel() {
    let bench = Bench::with_workers(1);
    let memory = crate::vm::Buffer::zeroed(64, 64, None).unwrap();
    let odd = crate::vm::Buffer::part(&memory, 1, 32, true, Charge::none().share()).unwrap();
    let odd = Allocator::new().import_for_transfers(&odd, BufferParameters::DEVICE).unwrap();
    let commands = bench.commands(1);
    let slot = BufferRef { buffer: None, slot: 0, offset: 0, length: WHOLE_BUFFER };
    bench.dispatch(&commands, COUNT, 1, &[0, 0, 0], &[slot]);
    commands.finalize().unwrap();
    let execute = |buffer: Arc<Buffer>| {
        let bound = BufferBinding { buffer: Some(buffer.into()), offset: 0, length: WHOLE_BUFFER };
        let done = Arc::new(Fence::new());
        let fences = Fences { signal: SignalFence::Given(done.clone()), ..Fences::default() };
        let submitted = bench.queue.submit_execution(fences, &commands, &[bound]);
        submitted.and_then(|()| done.wait(Deadline::NEVER))
    };
    execute(bench.buffer()).unwrap();
    assert_eq!(execute(odd).unwrap_err().code(), StatusCode::PermissionDenied);
}

#[test]
fn every_workgroup_runs_once_and_after_what_it_waits_for() {
    for workers in [1, 2, 4, 16] {
        let bench = Bench::with_workers(workers);
        let sizes = [1u32, 3, 1000, 0, 17, 64, 1, 5];
        let commands = chain(&bench, &sizes);
        for _ in 0..50 {
            bench.kernels.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
            bench.start(&commands, None).wait(Deadline::NEVER).unwrap();
            for (size, count) in sizes.iter().zip(&bench.kernels.counts) {
                assert_eq!(count.load(Ordering::Relaxed), u64::from(*size), "{workers} workers");
            }
        }
        assert_eq!(bench.kernels.faults.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn loops_of_one_workgroup_are_divided() {
    // On one thread nothing is divided; with more, at least two meet in the parts.
    for (workers, meeting) in [(1, 1), (2, 2), (4, 2)] {
        let bench = Bench::with_workers(workers);
        let commands = bench.single(DIVIDE, 1, &[meeting]);
        for round in 1..=20 {
            *bench.kernels.present.lock().unwrap() = 0;
            // A loop is divided where a thread is idle, and one that ran parts of the last round may still count as busy.
            while bench.engine.idle_threads() < workers {
                std::thread::yield_now();
            }
            bench.start(&commands, None).wait(Deadline::NEVER).unwrap();
            assert_eq!(bench.kernels.counts[0].load(Ordering::Relaxed), round * 100, "{workers} workers");
        }
        assert_eq!(bench.kernels.faults.load(Ordering::Relaxed), 0, "{workers} workers");
    }
}

#[test]
fn execution_returns_before_the_work_is_done() {
    for workers in [1, 2] {
        let bench = Bench::with_workers(workers);
        // The workgroup waits for this thread.
        let commands = bench.single(MEET, 1, &[2]);
        // What it costs is not known before the first time.
        for _ in 0..2 {
            *bench.kernels.present.lock().unwrap() = 0;
            let done = bench.start(&commands, None);
            assert!(!done.query().unwrap());
            let error = done.wait(Deadline::after(Duration::from_millis(10))).unwrap_err();
            assert_eq!(error.code(), StatusCode::DeadlineExceeded);
            bench.kernels.meet(2).unwrap();
            // With a limit this thread does not work along, so that another one must.
            done.wait(Deadline::after(PATIENCE)).unwrap();
        }
    }
}

#[test]
fn an_execution_by_others_leaves_a_fence_that_was_asked_for() {
    let bench = Bench::with_workers(2);
    // The workgroup waits for this thread.
    let commands = bench.single(MEET, 1, &[2]);
    for _ in 0..3 {
        *bench.kernels.present.lock().unwrap() = 0;
        let mut fence = None;
        bench.execute(None, SignalFence::Later(&mut fence), &commands).unwrap();
        let done = fence.unwrap();
        assert!(!done.query().unwrap());
        bench.kernels.meet(2).unwrap();
        done.wait(Deadline::after(PATIENCE)).unwrap();
    }
    // What is done when the call returns leaves none.
    let commands = chain(&bench, &[1]);
    bench.start(&commands, None).wait(Deadline::NEVER).unwrap();
    let mut done_at_once = 0;
    for _ in 0..50 {
        bench.kernels.counts[0].store(0, Ordering::Relaxed);
        let mut fence = None;
        bench.execute(None, SignalFence::Later(&mut fence), &commands).unwrap();
        match fence {
            Some(fence) => fence.wait(Deadline::NEVER).unwrap(),
            None => done_at_once += 1,
        }
        assert_eq!(bench.kernels.counts[0].load(Ordering::Relaxed), 1);
    }
    assert!(done_at_once > 0);
}

#[test]
fn executions_overlap() {
    let bench = Bench::with_workers(4);
    // Two workgroups of each wait for those of the other.
    let commands = bench.single(MEET, 2, &[4]);
    let fences = [bench.start(&commands, None), bench.start(&commands, None)];
    Fence::wait_all(fences.iter().map(|fence| &**fence), Deadline::after(PATIENCE)).unwrap();
}

#[test]
fn dispatches_of_a_stage_overlap() {
    let bench = Bench::with_workers(2);
    let (a, b) = (bench.buffer(), bench.buffer());
    let commands = bench.commands(0);
    bench.dispatch(&commands, MEET, 1, &[2], &[direct(&a)]);
    bench.dispatch(&commands, MEET, 1, &[2], &[direct(&b)]);
    barrier(&commands);
    bench.dispatch(&commands, COUNT, 5, &[0, 0, 0], &[direct(&a)]);
    commands.finalize().unwrap();
    bench.start(&commands, None).wait(Deadline::NEVER).unwrap();
    assert_eq!(bench.kernels.counts[0].load(Ordering::Relaxed), 5);
}

#[test]
fn a_failure_is_that_of_its_own_fence() {
    for workers in [1, 4] {
        let bench = Bench::with_workers(workers);
        let good = bench.single(SLEEP, 1, &[3]);
        let bad = bench.single(FAIL, 100, &[7]);
        for _ in 0..10 {
            let before = bench.start(&good, None);
            let failing = Arc::new(Fence::new());
            // It may be known already when this returns.
            let _ = bench.execute(None, SignalFence::Given(failing.clone()), &bad);
            let after = bench.start(&good, None);
            let chained = bench.start(&good, Some(&failing));
            for fence in [&failing, &chained] {
                let error = fence.wait(Deadline::NEVER).unwrap_err();
                assert_eq!(error.code(), StatusCode::DataLoss);
                assert!(error.to_string().contains("kernel fails with 7"), "{error}");
                assert!(error.to_string().contains("dispatch of function 2 'kernel'"), "{error}");
            }
            before.wait(Deadline::NEVER).unwrap();
            after.wait(Deadline::NEVER).unwrap();
        }
    }
}

#[test]
fn a_panic_in_a_kernel_is_an_error_like_any_other() {
    let bench = Bench::with_workers(2);
    let panics = bench.single(PANIC, 100, &[7]);
    let good = bench.single(SLEEP, 4, &[1]);
    for _ in 0..10 {
        let (failing, after) = (bench.start(&panics, None), bench.start(&good, None));
        let error = failing.wait(Deadline::NEVER).unwrap_err();
        assert_eq!(error.code(), StatusCode::Internal);
        assert!(error.to_string().contains("a kernel panicked: as told"), "{error}");
        after.wait(Deadline::NEVER).unwrap();
    }
}

#[test]
fn a_timeline_orders_executions() {
    let bench = Bench::with_workers(3);
    let commands = bench.single(COUNT, 50, &[0, 0, 0]);
    let sleep = bench.single(SLEEP, 2, &[1]);
    let mut last = bench.start(&sleep, None);
    for _ in 0..40 {
        last = bench.start(&commands, Some(&last));
        last = bench.start(&sleep, Some(&last));
    }
    last.wait(Deadline::NEVER).unwrap();
    assert_eq!(bench.kernels.counts[0].load(Ordering::Relaxed), 40 * 50);
}

#[test]
fn dropping_a_backend_waits() {
    for workers in [1, 2] {
        let bench = Bench::with_workers(workers);
        let sleep = bench.single(SLEEP, 1, &[50]);
        let fences: Vec<Arc<Fence>> = (0..3).map(|_| bench.start(&sleep, None)).collect();
        let Bench { queue, .. } = bench;
        drop(queue);
        for fence in fences {
            assert!(fence.query().unwrap());
        }
    }
}

#[test]
fn callers_share_a_backend() {
    for workers in [1, 2, 4] {
        let bench = Bench::with_workers(workers);
        // Executions at the same time count together, so that they cannot tell what is complete.
        let commands = chain(&bench, &[7, 300, 1]);
        let small = bench.single(COUNT, 1, &[9, 9, 0]);
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let (bench, commands, small) = (&bench, &commands, &small);
                scope.spawn(move || {
                    for round in 0..100 {
                        let fences = [bench.start(commands, None), bench.start(small, None)];
                        if (caller + round) % 3 == 0 {
                            let limit = Deadline::after(PATIENCE);
                            Fence::wait_all(fences.iter().map(|fence| &**fence), limit).unwrap();
                        } else {
                            fences.iter().for_each(|fence| fence.wait(Deadline::NEVER).unwrap());
                        }
                    }
                });
            }
        });
        let counts = [0, 1, 2, 9].map(|index| bench.kernels.counts[index].load(Ordering::Relaxed));
        assert_eq!(counts, [800 * 7, 800 * 300, 800, 800]);
    }
}

/// Provides a thread for each request.
#[derive(Debug, Default)]
struct ThreadPerRequest {
    requests: AtomicUsize,
}

impl Executor for ThreadPerRequest {
    fn concurrency(&self) -> usize {
        3
    }

    fn wake(&self, work: &Arc<dyn Work>, count: usize) -> usize {
        self.requests.fetch_add(count, Ordering::Relaxed);
        for _ in 0..count {
            let work = work.clone();
            std::thread::spawn(move || work.participate(true));
        }
        count
    }
}

#[test]
fn a_program_provides_its_own_threads() {
    let executor = Arc::new(ThreadPerRequest::default());
    let bench = Bench::new(TaskOptions { executor: Some(executor.clone()), ..TaskOptions::default() });
    assert_eq!(bench.queue.backend().concurrency(), 3);
    let commands = bench.single(MEET, 3, &[3]);
    bench.start(&commands, None).wait(Deadline::after(PATIENCE)).unwrap();
    assert!(executor.requests.load(Ordering::Relaxed) >= 2);
}

#[cfg(feature = "rayon")]
#[test]
fn a_rayon_pool_is_lent() {
    let pool = Arc::new(rayon_core::ThreadPoolBuilder::new().num_threads(3).build().unwrap());
    let executor: Arc<dyn Executor> = Arc::new(super::RayonExecutor::new(pool));
    let bench = Bench::new(TaskOptions { executor: Some(executor), ..TaskOptions::default() });
    let commands = bench.single(MEET, 3, &[3]);
    for _ in 0..10 {
        *bench.kernels.present.lock().unwrap() = 0;
        bench.start(&commands, None).wait(Deadline::after(PATIENCE)).unwrap();
    }
}

/// Has every kernel of the bench cost so many picoseconds for each workgroup.
fn set_costs(bench: &Bench, picoseconds: u64) {
    for function in 0..bench.kernels.functions.len() {
        kernel_cost(&bench.executable, function).unwrap().learn(picoseconds);
    }
}

#[test]
fn the_submitting_thread_shares_a_short_execution() {
    let bench = Bench::with_workers(2);
    // 80 us: too little to leave to workers, and enough to wake one. The workgroups meet, so two threads run them.
    set_costs(&bench, 40_000_000);
    bench.start(&bench.single(MEET, 2, &[2]), None).wait(Deadline::NEVER).unwrap();
    for _ in 0..200 {
        // Kernels that are counted take less than was said, which is learned: each round begins anew.
        let sizes = [1u32, 3, 1000, 0, 17, 64, 2, 5];
        let commands = chain(&bench, &sizes);
        bench.kernels.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        bench.start(&commands, None).wait(Deadline::NEVER).unwrap();
        for (size, count) in sizes.iter().zip(&bench.kernels.counts) {
            assert_eq!(count.load(Ordering::Relaxed), u64::from(*size));
        }
    }
    assert_eq!(bench.kernels.faults.load(Ordering::Relaxed), 0);
}

#[test]
fn shared_executions_fail_and_the_next_succeed() {
    for picoseconds in [400_000, 5_000_000] {
        let bench = Bench::with_workers(2);
        for _ in 0..50 {
            set_costs(&bench, picoseconds);
            let error = bench.start(&bench.single(FAIL, 50, &[7]), None).wait(Deadline::NEVER).unwrap_err();
            assert_eq!(error.code(), StatusCode::DataLoss);
            assert!(error.to_string().contains("kernel fails with 7"), "{error}");
            bench.kernels.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
            bench.start(&chain(&bench, &[40, 2]), None).wait(Deadline::NEVER).unwrap();
            assert_eq!(bench.kernels.counts[0].load(Ordering::Relaxed), 40);
        }
    }
}

#[test]
fn commands_that_are_not_divided_may_run_while_they_are_recorded() {
    let bench = Bench::with_workers(2);
    let modes = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
    let inline = bench.queue.backend().inline_execution();
    let scratch = direct(&bench.buffer());
    // How many workgroups have run when the dispatches of so many workgroups are recorded.
    let counted = |sizes: &[u32]| {
        let commands = Arc::new(CommandBuffer::new(modes, CommandCategory::all(), 0, inline, Charge::none()));
        bench.kernels.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        for size in sizes {
            bench.dispatch(&commands, 0, *size, &[0, 0, 0], core::slice::from_ref(&scratch));
        }
        let recorded = bench.kernels.counts[0].load(Ordering::Relaxed);
        commands.finalize().unwrap();
        bench.start(&commands, None).wait(Deadline::NEVER).unwrap();
        assert_eq!(bench.kernels.counts[0].load(Ordering::Relaxed), sizes.iter().copied().map(u64::from).sum::<u64>());
        recorded
    };
    // Nothing is known of the kernel yet.
    assert_eq!(counted(&[2]), 0);
    // 1 us for each workgroup; what is learned from runs changes that by a part.
    (0..50).for_each(|_| set_costs(&bench, 1_000_000));
    if cfg!(not(perturb)) {
        assert_eq!(counted(&[2]), 2);
        (0..50).for_each(|_| set_costs(&bench, 1_000_000));
        // The first dispatch that takes long is recorded, and so is the one behind it.
        assert_eq!(counted(&[2, 1000, 2]), 2);
    }
}

#[test]
fn transfers_are_divided() {
    const LENGTH: u64 = 1 << 20;
    let bench = Bench::with_workers(2);
    let allocate = || Allocator::new().allocate(BufferParameters::DEVICE, LENGTH).unwrap();
    let (source, target, other) = (allocate(), allocate(), allocate());
    for round in 0..20u64 {
        let bytes: Vec<u8> = (0..LENGTH).map(|index| ((index * 7 + round) % 251) as u8).collect();
        source.write(0, &bytes).unwrap();
        let commands = bench.commands(0);
        let range = |buffer: &Arc<Buffer>, offset: u64, length: u64| BufferRef {
            buffer: Some(buffer.clone()),
            slot: 0,
            offset,
            length,
        };
        // Of the same stage.
        commands.fill(range(&other, 16, LENGTH - 16), !round, 8).unwrap();
        commands.fill(range(&target, 0, LENGTH), round, 8).unwrap();
        barrier(&commands);
        // A part that begins and ends anywhere.
        let length = LENGTH - 10_001;
        commands.copy(range(&source, 77, length), range(&target, 301, length)).unwrap();
        barrier(&commands);
        // Of overlapping ranges only one thread knows the order.
        commands.copy(range(&source, 0, length), range(&source, 64, length)).unwrap();
        commands.finalize().unwrap();
        bench.start(&commands, None).wait(Deadline::NEVER).unwrap();
        let mut found = vec![0; LENGTH as usize];
        target.read(0, &mut found).unwrap();
        let fill = |index: usize| round.to_le_bytes()[index % 8];
        assert!(found[..301].iter().enumerate().all(|(index, byte)| *byte == fill(index)));
        let (end, length) = (301 + length as usize, length as usize);
        assert!(found[301..end] == bytes[77..77 + length]);
        assert!((end..LENGTH as usize).all(|index| found[index] == fill(index)));
        other.read(0, &mut found).unwrap();
        assert!((16..LENGTH as usize).all(|index| found[index] == !fill(index)));
        source.read(0, &mut found).unwrap();
        assert!(found[64..64 + length] == bytes[..length]);
    }
}
