//! Buffers over memory of a caller, on both devices.
#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::vec::Vec;

use super::device_with;
use crate::hal::backend::Access;
use crate::hal::local::engine::TaskOptions;
use crate::hal::local::{DispatchArguments, FunctionInfo, LocalExecutable, Worker};
use crate::hal::*;
use crate::{Result, StatusCode};

/// Elements that kernels can find in place.
#[repr(align(64))]
#[derive(Clone)]
struct Aligned([u8; 4096]);

fn allocator() -> Arc<Allocator> {
    Arc::new(Allocator::new())
}

/// Borrows a slice, and returns what is left of it when the slice is gone.
fn kept<R>(allocator: &Allocator, keep: impl FnOnce(&Arc<Buffer>) -> R) -> R {
    let mut bytes = Box::new(Aligned([7; 4096]));
    let kept = BorrowScope::enter(|scope| keep(&scope.borrow(allocator, &bytes.0, None).unwrap()));
    bytes.0.fill(9);
    kept
}

#[test]
fn what_no_other_holder_keeps_is_not_copied() {
    let allocator = allocator();
    let bytes = Aligned([7; 4096]);
    BorrowScope::enter(|scope| {
        let buffer = scope.borrow(&allocator, &bytes.0, None).unwrap();
        assert_eq!(buffer.pin(Access::Read).unwrap().address().0.cast_const(), bytes.0.as_ptr());
        assert_eq!(buffer.to_vec().unwrap(), bytes.0);
        let span = buffer.subspan(64, 100).unwrap();
        let pin = span.pin(Access::Read).unwrap();
        assert_eq!((pin.address().0.cast_const(), pin.is_borrowed()), (bytes.0[64..].as_ptr(), true));
        let target = allocator.allocate(BufferParameters::DEVICE, 4096).unwrap();
        target.copy_from(0, &buffer, 0, 4096).unwrap();
        assert_eq!(target.to_vec().unwrap(), bytes.0);
    });
    assert_eq!(allocator.statistics().allocated, 4096);
}

#[test]
fn what_is_kept_is_copied_at_the_end() {
    let allocator = allocator();
    let (mut buffer, span) = kept(&allocator, |buffer| (Arc::clone(buffer), buffer.subspan(1000, 96).unwrap()));
    assert_eq!((buffer.to_vec().unwrap(), span.to_vec().unwrap()), (vec![7; 4096], vec![7; 96]));
    assert_eq!(allocator.statistics().live, 4096);
    let pin = span.pin(Access::Read).unwrap();
    assert!(pin.is_fixed());
    assert_eq!(pin.address().0, buffer.pin(Access::Kernel).unwrap().address().0.wrapping_add(1000));
    drop(pin);
    // It is as any other.
    span.write(0, &[1; 96]).unwrap();
    assert_eq!(buffer.vm_buffer().unwrap().load::<u8>(1000).unwrap(), 1);
    assert!(buffer.exclusive_bytes().is_none());
    drop(span);
    assert_eq!(buffer.exclusive_bytes().unwrap()[999..1001], [7, 1]);
    drop(buffer);
    assert_eq!(allocator.statistics().live, 0);
}

#[test]
fn whatever_writes_has_a_copy() {
    let allocator = allocator();
    let bytes = Aligned([7; 4096]);
    let writers: [fn(&Buffer, &Buffer); 5] = [
        |buffer, _| buffer.write(1, &[1; 2]).unwrap(),
        |buffer, _| buffer.fill(1, 2, 1, 1).unwrap(),
        |buffer, other| buffer.copy_from(1, other, 0, 2).unwrap(),
        |buffer, _| buffer.vm_buffer().unwrap().write(1, &[1, 1]).unwrap(),
        |buffer, _| {
            let pin = buffer.pin(Access::Kernel).unwrap();
            assert!(pin.is_fixed());
            // SAFETY: it is the copy's, which no other thread accesses.
            unsafe { pin.address().0.add(1).cast::<[u8; 2]>().write([1, 1]) };
        },
    ];
    let ones = allocator.allocate(BufferParameters::DEVICE, 2).unwrap();
    ones.fill(0, 2, 1, 1).unwrap();
    for write in writers {
        BorrowScope::enter(|scope| {
            let buffer = scope.borrow(&allocator, &bytes.0, None).unwrap();
            write(&buffer, &ones);
            assert_eq!((buffer.to_vec().unwrap()[..4].to_vec(), bytes.0), (vec![7, 1, 1, 7], [7; 4096]));
            buffer.copy_from(4, &buffer, 0, 4).unwrap();
            assert_eq!(buffer.to_vec().unwrap()[4..8], [7, 1, 1, 7]);
        });
    }
    assert_eq!((bytes.0, allocator.statistics().live), ([7; 4096], 2));
}

#[test]
fn a_promise_lends_to_machine_code() {
    let (allocator, bytes) = (allocator(), Aligned([7; 4096]));
    // SAFETY: no kernel runs here.
    let promise = unsafe { InputsOnlyRead::promise() };
    BorrowScope::enter(|scope| {
        let buffer = scope.borrow(&allocator, &bytes.0, Some(promise)).unwrap();
        let pin = buffer.pin(Access::Kernel).unwrap();
        assert_eq!((pin.address().0.cast_const(), pin.is_borrowed()), (bytes.0.as_ptr(), true));
    });
    assert_eq!(allocator.statistics().allocated, 0);
}

#[test]
fn bytes_that_cannot_be_kept_are_gone() {
    let allocator = Allocator::with_limit(1000);
    let buffer = kept(&allocator, |buffer| {
        assert_eq!(buffer.write(0, &[1]).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(buffer.to_vec().unwrap(), [7; 4096]);
        Arc::clone(buffer)
    });
    for error in [
        buffer.to_vec().unwrap_err(),
        buffer.write(0, &[1]).unwrap_err(),
        buffer.vm_buffer().unwrap_err(),
        buffer.pin(Access::Read).unwrap_err(),
        buffer.pin(Access::Kernel).unwrap_err(),
    ] {
        assert_eq!(error.code(), StatusCode::FailedPrecondition, "{error}");
    }
}

#[test]
fn a_panic_ends_borrows() {
    let mut bytes = Box::new(Aligned([7; 4096]));
    let allocator = allocator();
    let kept = std::sync::Mutex::new(None);
    let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        BorrowScope::enter(|scope| {
            *kept.lock().unwrap() = Some(scope.borrow(&allocator, &bytes.0, None).unwrap());
            std::panic::resume_unwind(Box::new(()));
        })
    }));
    assert!(result.is_err());
    bytes.0.fill(9);
    drop(bytes);
    let kept = kept.lock().unwrap().take().unwrap();
    assert_eq!(kept.to_vec().unwrap(), [7; 4096]);
}

/// Threads read borrowed memory, directly and as a kernel does, and one writes to other bytes, during the borrow and long after.
#[test]
fn threads_that_read_on_see_the_bytes() {
    for round in 0..200 {
        let (allocator, stop) = (allocator(), AtomicBool::new(false));
        thread::scope(|scope| {
            let mut bytes = Box::new(Aligned([7; 4096]));
            let mut readers = Vec::new();
            BorrowScope::enter(|borrows| {
                let buffer = borrows.borrow(&allocator, &bytes.0, None).unwrap();
                for reader in 0..3 {
                    let (buffer, stop) = (Arc::clone(&buffer), &stop);
                    readers.push(scope.spawn(move || {
                        let mut target = [0; 4032];
                        while !stop.load(Ordering::Relaxed) {
                            if reader == 0 && round % 2 == 0 {
                                buffer.write(0, &[7; 64]).unwrap();
                            }
                            let pin = buffer.pin(Access::Read).unwrap();
                            // SAFETY: the memory is pinned meanwhile.
                            let first = unsafe { pin.address().0.add(100).read() };
                            assert_eq!(first, 7);
                            buffer.read(64, &mut target).unwrap();
                            assert!(target.iter().all(|byte| *byte == 7));
                        }
                    }));
                }
                if round % 3 == 0 {
                    thread::yield_now();
                }
            });
            bytes.0.fill(9);
            drop(bytes);
            thread::yield_now();
            stop.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        assert_eq!(allocator.statistics().live, 0);
    }
}

/// The end of a borrow waits for a pin.
#[test]
fn pins_are_waited_for() {
    let (allocator, ended) = (allocator(), AtomicBool::new(false));
    let (send, receive) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let ended = &ended;
        let mut bytes = Box::new(Aligned([7; 4096]));
        let reader = BorrowScope::enter(|borrows| {
            let buffer = borrows.borrow(&allocator, &bytes.0, None).unwrap();
            let reader = scope.spawn(move || {
                let pin = buffer.pin(Access::Read).unwrap();
                send.send(()).unwrap();
                thread::sleep(core::time::Duration::from_millis(30));
                assert!(!ended.load(Ordering::SeqCst));
                // SAFETY: the memory is pinned until the next line.
                assert_eq!(unsafe { pin.address().0.read() }, 7);
                drop(pin);
                buffer.to_vec().unwrap()
            });
            receive.recv().unwrap();
            reader
        });
        ended.store(true, Ordering::SeqCst);
        bytes.0.fill(9);
        assert_eq!(reader.join().unwrap(), [7; 4096]);
    });
}

#[test]
fn what_is_not_aligned_cannot_be_borrowed() {
    let (allocator, bytes) = (allocator(), Aligned([7; 4096]));
    assert!(BorrowScope::accepts(&bytes.0) && BorrowScope::accepts(&bytes.0[64..65]));
    assert!(!BorrowScope::accepts(&bytes.0[1..]) && !BorrowScope::accepts(&bytes.0[..0]));
    let error = BorrowScope::enter(|scope| scope.borrow(&allocator, &bytes.0[8..], None).unwrap_err());
    assert_eq!(error.code(), StatusCode::OutOfRange);
}

/// A kernel that reads its binding again and again.
#[derive(Debug)]
struct Looking {
    functions: [FunctionInfo; 1],
    workgroups: AtomicUsize,
    faults: AtomicUsize,
}

impl LocalExecutable for Looking {
    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    unsafe fn dispatch(
        &self,
        _: usize,
        arguments: &DispatchArguments<'_>,
        workgroups: core::ops::Range<u64>,
        _: &mut Worker<'_>,
    ) -> Result<()> {
        for _ in workgroups {
            for _ in 0..10 {
                for at in 0..arguments.binding_lengths[0] {
                    // SAFETY: the binding is this long.
                    let byte = unsafe { arguments.binding_pointers[0].0.add(at).read_volatile() };
                    self.faults.fetch_add(usize::from(byte != 7), Ordering::Relaxed);
                }
                thread::sleep(core::time::Duration::from_micros(500));
            }
            self.workgroups.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A command buffer of one dispatch.
fn dispatch<const N: usize>(
    device: &Device,
    mode: CommandBufferMode,
    executable: &Arc<Executable>,
    workgroups: [u32; 3],
    bindings: [BufferRef; N],
) -> Arc<CommandBuffer> {
    let commands = Arc::new(device.create_command_buffer(mode, CommandCategory::all(), 0));
    let (count, bindings) = (Workgroups::Count(workgroups), bindings.into_iter());
    commands.dispatch(Arc::clone(executable), 0, count, &[], bindings, DispatchFlags::empty()).unwrap();
    commands.finalize().unwrap();
    commands
}

/// What a call leaves behind that fails while one dispatch runs and another one waits for its fence.
#[test]
fn dispatches_that_go_on_read_the_copy() {
    for (uri, only_read) in [("local-sync", 1), ("local-task?workers=2", 1), ("local-task?workers=2", 0)] {
        let info = FunctionInfo {
            name: "look".into(),
            binding_count: 1,
            read_only_bindings: only_read,
            ..FunctionInfo::default()
        };
        let kernels = Looking { functions: [info], workgroups: AtomicUsize::new(0), faults: AtomicUsize::new(0) };
        let kernels = Arc::new(kernels);
        let (device, executable) = device_with(uri, TaskOptions::default(), &kernels);
        let (gate, started, queued) = (Arc::new(Fence::new()), Arc::new(Fence::new()), Arc::new(Fence::new()));
        let mut bytes = Box::new(Aligned([7; 4096]));
        BorrowScope::enter(|scope| {
            let buffer = scope.borrow(device.allocator(), &bytes.0, None).unwrap();
            let binding = BufferRef { buffer: Some(buffer), slot: 0, offset: 64, length: WHOLE_BUFFER };
            let commands = dispatch(&device, CommandBufferMode::empty(), &executable, [16, 1, 1], [binding]);
            device
                .queue_execute(
                    Fences { wait: None, signal: SignalFence::Given(started.clone()), ..Fences::default() },
                    &commands,
                    &[],
                )
                .unwrap();
            let fences = Fences { wait: Some(&gate), signal: SignalFence::Given(queued.clone()), ..Fences::default() };
            device.queue_execute(fences, &commands, &[]).unwrap();
            while kernels.workgroups.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        });
        bytes.0.fill(9);
        drop(bytes);
        gate.signal().unwrap();
        Fence::wait_all([&started, &queued].into_iter().map(|fence| &**fence), Deadline::NEVER).unwrap();
        let counts = [&kernels.workgroups, &kernels.faults].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [32, 0], "{uri}");
        assert_eq!(device.allocator().statistics().allocated, 4096);
    }
}

/// A kernel that writes to its second binding and reads the first.
#[derive(Debug)]
struct WritingBeside([FunctionInfo; 1]);

impl LocalExecutable for WritingBeside {
    fn functions(&self) -> &[FunctionInfo] {
        &self.0
    }

    unsafe fn dispatch(
        &self,
        _: usize,
        arguments: &DispatchArguments<'_>,
        _: core::ops::Range<u64>,
        _: &mut Worker<'_>,
    ) -> Result<()> {
        assert_eq!(arguments.read_only_bindings & 0b10, 0);
        // SAFETY: both are as long, and no other thread uses them meanwhile.
        let read = unsafe {
            arguments.binding_pointers[1].0.add(3).write(1);
            arguments.binding_pointers[0].0.add(3).read()
        };
        assert_eq!(read, 1);
        Ok(())
    }
}

#[test]
fn what_is_written_beside_is_read() {
    let info =
        FunctionInfo { name: "beside".into(), binding_count: 2, read_only_bindings: 1, ..FunctionInfo::default() };
    let (device, executable) = device_with("local-sync", TaskOptions::default(), &Arc::new(WritingBeside([info])));
    let bytes = Aligned([7; 4096]);
    BorrowScope::enter(|scope| {
        let buffer = scope.borrow(device.allocator(), &bytes.0, None).unwrap();
        let binding = || BufferRef { buffer: Some(Arc::clone(&buffer)), slot: 0, offset: 0, length: WHOLE_BUFFER };
        let commands = dispatch(&device, CommandBufferMode::ONE_SHOT, &executable, [1, 1, 1], [binding(), binding()]);
        device.queue_execute(Fences::default(), &commands, &[]).unwrap();
        assert_eq!(buffer.to_vec().unwrap()[2..5], [7, 1, 7]);
    });
    assert_eq!(bytes.0, [7; 4096]);
}
