//! Operations of queues: their fences and files.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{Aligned, buffer, device, values};
use crate::hal::*;
use crate::vm::Ledger;
use crate::{Error, StatusCode};

#[test]
fn operations_wait_for_their_fence_without_blocking_the_caller() {
    let device = device();
    let fences: Vec<Arc<Fence>> = (0..4).map(|_| Arc::new(Fence::new())).collect();
    let step = |index: usize| Fences {
        wait: Some(&fences[index]),
        signal: SignalFence::Given(Arc::clone(&fences[index + 1])),
        ..Fences::default()
    };
    let a = device.queue_alloca(step(0), BufferParameters::DEVICE, 16).unwrap();
    device.queue_fill(step(1), Arc::clone(&a), 0, WHOLE_BUFFER, 7, 4).unwrap();
    let source = vec![9u8, 0, 0, 0];
    device.queue_update(step(2), &source, Arc::clone(&a), 4).unwrap();
    drop(source);
    assert!(!fences[3].query().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| fences[0].signal().unwrap());
        fences[3].wait(Deadline::NEVER).unwrap();
    });
    assert_eq!(values(&a), [7, 9, 7, 7]);
    device.queue_dealloca(Fences::default(), a).unwrap();
    assert_eq!(device.allocator().statistics().live, 0);
}

/// A program that runs ahead of its queue has allocated everything before the first operation runs.
#[test]
fn buffers_take_memory_when_the_queue_reaches_them() {
    const LENGTH: u64 = 1 << 20;
    const COUNT: usize = 8;
    let device = device();
    let fences: Vec<Arc<Fence>> = (0..=3 * COUNT).map(|_| Arc::new(Fence::new())).collect();
    let step = |index: usize| Fences {
        wait: Some(&fences[index]),
        signal: SignalFence::Given(Arc::clone(&fences[index + 1])),
        ..Fences::default()
    };
    for index in 0..COUNT {
        let buffer = device.queue_alloca(step(3 * index), BufferParameters::DEVICE, LENGTH).unwrap();
        device.queue_fill(step(3 * index + 1), Arc::clone(&buffer), 0, WHOLE_BUFFER, 7, 4).unwrap();
        device.queue_dealloca(step(3 * index + 2), buffer).unwrap();
    }
    assert_eq!(device.allocator().statistics().live, 0);
    fences[0].signal().unwrap();
    fences[3 * COUNT].wait(Deadline::NEVER).unwrap();
    let statistics = device.allocator().statistics();
    assert_eq!((statistics.live, statistics.peak, statistics.allocated), (0, LENGTH, COUNT as u64 * LENGTH));
}

/// What a ledger counts is counted when it is allocated, so that the program learns of its limit there.
#[test]
fn limited_programs_take_memory_at_once() {
    const LENGTH: u64 = 1 << 20;
    let (device, ledger) = (device(), Ledger::new(2 * LENGTH, u64::MAX));
    let wait = Arc::new(Fence::new());
    let fences = || Fences {
        wait: Some(&wait),
        limits: CallLimits { ledger: Some(&ledger), ..CallLimits::default() },
        ..Fences::default()
    };
    let buffer = device.queue_alloca(fences(), BufferParameters::DEVICE, LENGTH).unwrap();
    assert_eq!(device.allocator().statistics().live, LENGTH);
    let error = device.queue_alloca(fences(), BufferParameters::DEVICE, LENGTH).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    drop(buffer);
    assert_eq!(device.allocator().statistics().live, 0);
}

#[test]
fn long_chains_of_waiting_operations_need_no_deep_stack() {
    const LENGTH: usize = 20_000;
    let device = device();
    for fail in [false, true] {
        let fences: Vec<Arc<Fence>> = (0..=LENGTH).map(|_| Arc::new(Fence::new())).collect();
        for pair in fences.windows(2) {
            let [wait, signal] = pair else { panic!() };
            device
                .queue_barrier(Fences {
                    wait: Some(wait),
                    signal: SignalFence::Given(Arc::clone(signal)),
                    ..Fences::default()
                })
                .unwrap();
        }
        let last = Arc::clone(&fences[LENGTH]);
        if fail {
            // No signaller of the first is left.
            drop(fences);
            assert_eq!(last.query().unwrap_err().code(), StatusCode::Aborted);
        } else {
            fences[0].signal().unwrap();
            assert!(last.query().unwrap());
        }
    }
}

#[test]
fn operations_that_wait_for_each_other_fail_when_their_session_ends() {
    const LENGTH: usize = 20_000;
    let (device, ledger) = (device(), Ledger::new(u64::MAX, u64::MAX));
    let pending = Arc::<PendingOperations>::default();
    let limits = CallLimits { ledger: Some(&ledger), meter: None, pending: Some(&pending) };
    let circle: Vec<_> = (0..LENGTH).map(|_| Fence::of_program(&ledger).unwrap()).collect();
    let after = Arc::new(Fence::new());
    let barrier = |wait: &Arc<Fence>, signal: &Arc<Fence>, limits: CallLimits<'_>| {
        device
            .queue_barrier(Fences {
                wait: Some(wait),
                signal: SignalFence::Given(Arc::clone(signal)),
                limits,
                ..Fences::default()
            })
            .unwrap();
    };
    for index in 0..LENGTH {
        barrier(&circle[index], &circle[(index + 1) % LENGTH], limits);
    }
    barrier(&circle[LENGTH / 2], &after, limits);
    drop(circle);
    assert_eq!(ledger.objects(), 2 * LENGTH as u64 + 1);
    assert!(!after.query().unwrap());
    // An operation of another session goes on.
    let (start, other) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
    barrier(&start, &other, CallLimits::default());
    drop(pending);
    assert_eq!((ledger.objects(), ledger.bytes()), (0, 0));
    assert_eq!(after.query().unwrap_err().code(), StatusCode::Aborted);
    start.signal().unwrap();
    assert!(other.query().unwrap());
}

#[test]
fn a_failed_fence_fails_what_waits_for_it() {
    let device = device();
    let (wait, signal) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
    device
        .queue_barrier(Fences {
            wait: Some(&wait),
            signal: SignalFence::Given(Arc::clone(&signal)),
            ..Fences::default()
        })
        .unwrap();
    wait.fail(&Error::data_loss("the disk burnt"));
    assert_eq!(signal.query().unwrap_err().message(), "the disk burnt");
    let late = Arc::new(Fence::new());
    let result = device.queue_barrier(Fences {
        wait: Some(&wait),
        signal: SignalFence::Given(Arc::clone(&late)),
        ..Fences::default()
    });
    assert_eq!(result.unwrap_err().code(), StatusCode::DataLoss);
    assert_eq!(late.query().unwrap_err().code(), StatusCode::DataLoss);
}

#[test]
fn a_fence_without_a_signaller_is_not_waited_for() {
    let (kept, given_up) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
    let signaller = Arc::clone(&kept);
    let thread = std::thread::spawn(move || signaller.signal());
    kept.wait_unless_abandoned().unwrap();
    thread.join().unwrap().unwrap();
    assert_eq!(given_up.wait_unless_abandoned().unwrap_err().code(), StatusCode::Aborted);
}

#[test]
fn files_are_read_and_written_within_their_rights() {
    let device = device();
    // SAFETY: no kernel runs here.
    let promise = unsafe { InputsOnlyRead::promise() };
    let contents = Arc::new(Aligned(*b"hello world!"));
    let contents = device.allocator().import_read_only(contents, BufferParameters::DEVICE, promise).unwrap();
    assert!(File::from_buffer(Arc::clone(&contents), MemoryAccess::READ | MemoryAccess::WRITE).is_err());
    let file = Arc::new(File::from_buffer(contents, MemoryAccess::READ).unwrap());
    let target = buffer(&device, &[0; 2]);
    device.queue_read(Fences::default(), (Arc::clone(&file), 6), (Arc::clone(&target), 1), 5).unwrap();
    assert_eq!(target.to_vec().unwrap(), b"\0world\0\0");
    let denied = device.queue_write(Fences::default(), (Arc::clone(&target), 0), (Arc::clone(&file), 0), 1);
    assert_eq!(denied.unwrap_err().code(), StatusCode::PermissionDenied);
    let beyond = device.queue_read(Fences::default(), (file, 8), (Arc::clone(&target), 0), 5);
    assert_eq!(beyond.unwrap_err().code(), StatusCode::OutOfRange);
    let writable = buffer(&device, &[0; 2]);
    let file = Arc::new(File::from_buffer(Arc::clone(&writable), MemoryAccess::ALL).unwrap());
    device.queue_write(Fences::default(), (target, 1), (file, 2), 5).unwrap();
    assert_eq!(writable.to_vec().unwrap(), b"\0\0world\0");
}

/// A fence that is asked for later is made where the operation waits, or is run by others, and is not where it is done.
#[test]
fn operations_that_are_done_at_once_make_no_fence() {
    let device = device();
    let target = buffer(&device, &[0; 4]);
    let fill = |wait: Option<&Fence>, pattern: u64| {
        let mut fence = None;
        let fences = Fences { wait, signal: SignalFence::Later(&mut fence), ..Fences::default() };
        let result = device.queue_fill(fences, Arc::clone(&target), 0, 16, pattern, 4);
        (result, fence)
    };
    let (result, fence) = fill(None, 1);
    assert!(result.is_ok() && fence.is_none());
    assert_eq!(values(&target), [1; 4]);
    let wait = Fence::new();
    let (result, fence) = fill(Some(&wait), 2);
    let fence = fence.unwrap();
    assert!(result.is_ok() && !fence.query().unwrap());
    assert_eq!(values(&target), [1; 4]);
    wait.signal().unwrap();
    assert!(fence.query().unwrap());
    assert_eq!(values(&target), [2; 4]);
    // What fails at once is told by the call, what fails later by the fence.
    let failed = Fence::new();
    let (_, fence) = fill(Some(&failed), 3);
    failed.fail(&Error::unavailable("gone"));
    assert_eq!(fence.unwrap().query().unwrap_err().message(), "gone");
    let (result, fence) = fill(Some(&failed), 3);
    assert!(fence.is_none());
    assert_eq!(result.unwrap_err().message(), "gone");
}
