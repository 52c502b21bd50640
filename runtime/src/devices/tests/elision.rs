//! Elided copies against what copies would leave, on both devices.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::device_with;
use crate::hal::backend::Access;
use crate::hal::local::engine::TaskOptions;
use crate::hal::local::{DispatchArguments, FunctionInfo, LocalExecutable, Worker};
use crate::hal::*;
use crate::vm::testing::Random;
use crate::{Error, Result};

/// Length of a buffer, the least that can take over memory, and where the copied part of it begins.
const LENGTH: u64 = 16 << 10;
const START: u64 = 4096;

/// A kernel that fails.
#[derive(Debug)]
struct Failing(Vec<FunctionInfo>);

impl LocalExecutable for Failing {
    fn functions(&self) -> &[FunctionInfo] {
        &self.0
    }

    unsafe fn dispatch(&self, _: usize, _: &DispatchArguments<'_>, _: Range<u64>, _: &mut Worker<'_>) -> Result<()> {
        Err(Error::internal("the kernel failed"))
    }
}

fn devices() -> Vec<(Arc<Device>, Arc<Executable>)> {
    let kernels = Arc::new(Failing(vec![FunctionInfo::default()]));
    let task = || TaskOptions { worker_count: Some(2), ..TaskOptions::default() };
    ["local-sync://", "local-task://"].map(|uri| device_with(uri, task(), &kernels)).into()
}

fn range(buffer: &Arc<Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(Arc::clone(buffer)), slot: 0, offset, length }
}

/// A buffer that was never accessed.
fn untouched(device: &Device) -> Arc<Buffer> {
    device.queue_alloca(Fences::default(), BufferParameters::DEVICE, LENGTH).unwrap()
}

/// A buffer of bytes that count up from a first one.
fn counting(device: &Device, first: u8) -> Arc<Buffer> {
    let buffer = untouched(device);
    let bytes: Vec<u8> = (0..LENGTH).map(|index| first.wrapping_add(index as u8)).collect();
    buffer.write(0, &bytes).unwrap();
    buffer
}

fn recording(device: &Device) -> Arc<CommandBuffer> {
    Arc::new(device.create_command_buffer(CommandBufferMode::ONE_SHOT, CommandCategory::all(), 0))
}

fn barrier(commands: &CommandBuffer) {
    commands.execution_barrier(ExecutionStage::TRANSFER, ExecutionStage::TRANSFER).unwrap();
}

/// What every step of a scan records: something new at the beginning, the rest out of the last step's buffer, and one more
/// piece of what is new.
fn record_step(commands: &CommandBuffer, last: &Arc<Buffer>, next: &Arc<Buffer>, step: u64) {
    commands.fill(range(next, 0, START), step, 1).unwrap();
    barrier(commands);
    commands.copy(range(last, START, LENGTH - START), range(next, START, LENGTH - START)).unwrap();
    barrier(commands);
    commands.copy(range(next, 0, 64), range(next, START + 64 * step, 64)).unwrap();
}

fn run(device: &Device, commands: Arc<CommandBuffer>) -> Result<()> {
    commands.finalize().unwrap();
    execute(device, &commands)
}

fn execute(device: &Device, commands: &Arc<CommandBuffer>) -> Result<()> {
    let done = Arc::new(Fence::new());
    // The fence tells of a failure, too.
    let _ = device.queue_execute(
        Fences { wait: None, signal: SignalFence::Given(Arc::clone(&done)), ..Fences::default() },
        commands,
        &[],
    );
    done.wait(Deadline::NEVER)
}

/// What [`record_step`] leaves.
fn expected(first: u8, step: u64) -> Vec<u8> {
    (0..LENGTH)
        .map(|index| match index {
            ..START => step as u8,
            _ if (START + 64 * step..START + 64 * step + 64).contains(&index) => step as u8,
            _ => first.wrapping_add(index as u8),
        })
        .collect()
}

fn place(buffer: &Buffer) -> usize {
    buffer.pin(Access::Kernel).unwrap().address().0.addr()
}

#[test]
fn a_buffer_without_other_holders_hands_its_memory_over() {
    for (device, _) in devices() {
        let (last, next) = (counting(&device, 7), untouched(&device));
        let memory = place(&last);
        let commands = recording(&device);
        record_step(&commands, &last, &next, 3);
        drop(last);
        run(&device, commands).unwrap();
        assert_eq!(place(&next), memory);
        assert_eq!(next.to_vec().unwrap(), expected(7, 3));
        assert_eq!(device.allocator().statistics().live, LENGTH);
        drop(next);
        assert_eq!(device.allocator().statistics().live, 0);
    }
}

#[test]
fn a_copy_that_runs_while_it_is_recorded_takes_the_memory_of_its_last_share() {
    let modes = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
    for (device, _) in devices() {
        let (last, next, third) = (counting(&device, 7), untouched(&device), untouched(&device));
        let (memory, commands) = (place(&last), device.create_command_buffer(modes, CommandCategory::all(), 0));
        let rest = |buffer| BufferRef { buffer: Some(buffer), slot: 0, offset: START, length: LENGTH - START };
        let bytes = last.to_vec().unwrap();
        // Another share remains.
        commands.copy(rest(Arc::clone(&last)), range(&next, START, LENGTH - START)).unwrap();
        assert_ne!(place(&next), memory);
        commands.copy(rest(last), range(&third, START, LENGTH - START)).unwrap();
        assert_eq!(place(&third), memory);
        for copy in [&next, &third] {
            assert_eq!(copy.to_vec().unwrap()[START as usize..], bytes[START as usize..]);
        }
        run(&device, Arc::new(commands)).unwrap();
    }
}

#[test]
fn a_buffer_that_is_needed_stays_as_it_is() {
    for (device, _) in devices() {
        let (last, next) = (counting(&device, 7), untouched(&device));
        let commands = recording(&device);
        record_step(&commands, &last, &next, 3);
        run(&device, commands).unwrap();
        assert_eq!(next.to_vec().unwrap(), expected(7, 3));
        assert_eq!(last.to_vec().unwrap(), counting(&device, 7).to_vec().unwrap());
        // A later command of the same needs it.
        let (third, copy) = (untouched(&device), untouched(&device));
        let commands = recording(&device);
        record_step(&commands, &last, &third, 5);
        barrier(&commands);
        commands.copy(range(&last, 0, LENGTH), range(&copy, 0, LENGTH)).unwrap();
        drop(last);
        run(&device, commands).unwrap();
        assert_eq!(third.to_vec().unwrap(), expected(7, 5));
        assert_eq!(copy.to_vec().unwrap(), counting(&device, 7).to_vec().unwrap());
        // A program has its bytes.
        let (last, next) = (counting(&device, 9), untouched(&device));
        let bytes = Arc::clone(last.vm_buffer().unwrap());
        let commands = recording(&device);
        record_step(&commands, &last, &next, 5);
        drop(last);
        run(&device, commands).unwrap();
        assert_eq!(next.to_vec().unwrap(), expected(9, 5));
        assert_ne!(bytes.as_ptr().addr(), place(&next));
    }
}

#[test]
fn a_target_that_holds_something_keeps_it() {
    for (device, _) in devices() {
        // Between recording and execution.
        let (last, next) = (counting(&device, 7), untouched(&device));
        let commands = recording(&device);
        commands.copy(range(&last, START, LENGTH - START), range(&next, START, LENGTH - START)).unwrap();
        drop(last);
        commands.finalize().unwrap();
        next.write(0, &[1; START as usize]).unwrap();
        execute(&device, &commands).unwrap();
        let bytes = next.to_vec().unwrap();
        assert!(bytes[..START as usize].iter().all(|byte| *byte == 1));
        assert_eq!(bytes[START as usize..], counting(&device, 7).to_vec().unwrap()[START as usize..]);
        // By a part of it that has a name of its own.
        let (last, next) = (counting(&device, 7), untouched(&device));
        let part = next.subspan(0, START).unwrap();
        let commands = recording(&device);
        commands.fill(range(&part, 0, START), 3, 1).unwrap();
        barrier(&commands);
        commands.copy(range(&last, START, LENGTH - START), range(&next, START, LENGTH - START)).unwrap();
        barrier(&commands);
        commands.copy(range(&part, 0, 64), range(&next, START + 64 * 3, 64)).unwrap();
        drop(last);
        run(&device, commands).unwrap();
        assert_eq!(next.to_vec().unwrap(), expected(7, 3));
    }
}

#[test]
fn an_execution_that_fails_leaves_the_target_usable() {
    for (device, executable) in devices() {
        let (last, next) = (counting(&device, 7), untouched(&device));
        let commands = recording(&device);
        commands.fill(range(&next, 0, START), 3, 1).unwrap();
        barrier(&commands);
        commands.dispatch(executable, 0, Workgroups::Count([1; 3]), &[], [], DispatchFlags::empty()).unwrap();
        barrier(&commands);
        commands.copy(range(&last, START, LENGTH - START), range(&next, START, LENGTH - START)).unwrap();
        drop(last);
        assert!(run(&device, commands).unwrap_err().to_string().contains("the kernel failed"));
        next.fill(0, LENGTH, 9, 1).unwrap();
        assert_eq!(next.to_vec().unwrap(), vec![9; LENGTH as usize]);
    }
}

/// A pin of the target hinders the exchange, and so does a byte buffer of it.
#[test]
fn a_target_in_use_keeps_its_memory() {
    for (device, _) in devices() {
        for is_pinned in [true, false] {
            let (last, next) = (counting(&device, 7), untouched(&device));
            let commands = recording(&device);
            record_step(&commands, &last, &next, 3);
            drop(last);
            let pin = is_pinned.then(|| next.pin(Access::Write).unwrap());
            let bytes = (!is_pinned).then(|| Arc::clone(next.vm_buffer().unwrap()));
            let address = next.pin(Access::Read).unwrap().address().0;
            run(&device, commands).unwrap();
            assert_eq!(next.pin(Access::Read).unwrap().address().0, address);
            assert_eq!(next.to_vec().unwrap(), expected(7, 3));
            assert!(bytes.is_none_or(|bytes| bytes.to_vec().unwrap() == expected(7, 3)));
            drop(pin);
        }
    }
}

/// What another thread writes beside the copied range is kept, whenever it does so.
#[test]
fn a_target_that_another_thread_writes_loses_nothing() {
    for (device, _) in devices() {
        for round in 0..200u64 {
            let (last, next) = (counting(&device, 7), untouched(&device));
            let commands = recording(&device);
            commands.fill(range(&next, 64, START - 64), 3, 1).unwrap();
            barrier(&commands);
            commands.copy(range(&last, START, LENGTH - START), range(&next, START, LENGTH - START)).unwrap();
            drop(last);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| (0..64).for_each(|at| next.write(at, &[round as u8]).unwrap()));
                run(&device, commands).unwrap();
                writer.join().unwrap();
            });
            let bytes = next.to_vec().unwrap();
            assert!(bytes[..64].iter().all(|byte| *byte == round as u8), "{round}");
            assert!(bytes[64..START as usize].iter().all(|byte| *byte == 3));
            assert_eq!(bytes[START as usize..], counting(&device, 7).to_vec().unwrap()[START as usize..]);
        }
    }
}

/// A range of a buffer, more often than not a large one.
fn any_range(numbers: &mut Random) -> (u64, u64) {
    let starts = if numbers.below(2) == 0 { 4 } else { LENGTH / 64 };
    let start = 64 * numbers.below(starts);
    let most = LENGTH - start;
    (start, if numbers.below(2) == 0 { most } else { 64 * (1 + numbers.below(most / 64)) })
}

/// A buffer, and what it should hold: `None` is not known, as nothing was written there.
struct Checked {
    buffer: Option<Arc<Buffer>>,
    bytes: Vec<Option<u8>>,
}

/// Random programs of some command buffers, each followed by giving up buffers or touching them. All that was written must be
/// read.
#[test]
fn random_programs_read_what_they_have_written() {
    for (device, _) in devices() {
        for seed in 0..200 {
            let mut numbers = Random(seed);
            let mut buffers: Vec<Checked> = Vec::new();
            for _ in 0..6 {
                for _ in 0..1 + numbers.below(2) {
                    buffers.push(Checked { buffer: Some(untouched(&device)), bytes: vec![None; LENGTH as usize] });
                }
                let commands = recording(&device);
                for _ in 0..1 + numbers.below(5) {
                    record_any(&mut numbers, &commands, &mut buffers);
                    barrier(&commands);
                }
                for _ in 0..numbers.below(3) {
                    let index = numbers.below(buffers.len() as u64) as usize;
                    buffers[index].buffer = None;
                }
                run(&device, commands).unwrap();
                buffers.retain(|checked| checked.buffer.is_some());
                check(&buffers, seed);
            }
        }
        assert_eq!(device.allocator().statistics().live, 0);
    }
}

fn record_any(numbers: &mut Random, commands: &CommandBuffer, buffers: &mut [Checked]) {
    let (from, to) = (numbers.below(buffers.len() as u64) as usize, numbers.below(buffers.len() as u64) as usize);
    let (start, length) = any_range(numbers);
    let of = |buffers: &[Checked], index: usize| buffers[index].buffer.clone().unwrap();
    let written = start as usize..(start + length) as usize;
    if from == to {
        let value = numbers.below(256);
        commands.fill(range(&of(buffers, to), start, length), value, 1).unwrap();
        buffers[to].bytes[written].fill(Some(value as u8));
    } else {
        commands.copy(range(&of(buffers, from), start, length), range(&of(buffers, to), start, length)).unwrap();
        let bytes = buffers[from].bytes[written.clone()].to_vec();
        buffers[to].bytes[written].copy_from_slice(&bytes);
    }
}

fn check(buffers: &[Checked], seed: u64) {
    for checked in buffers {
        // Buffers of which nothing is known stay untouched.
        if checked.bytes.iter().all(Option::is_none) {
            continue;
        }
        let bytes = checked.buffer.as_ref().unwrap().to_vec().unwrap();
        let wrong =
            bytes.iter().zip(&checked.bytes).position(|(byte, known)| known.is_some_and(|known| known != *byte));
        assert_eq!(wrong, None, "seed {seed}");
    }
}
