//! Semaphores and fences with operations of devices.

use std::sync::Arc;
use std::time::Duration;

use incarnate_runtime::hal::{Deadline, Fence, Fences, Semaphore};
use incarnate_runtime::{Error, StatusCode};

use crate::{ONCE, code, on_each, signalling, wait, waiting, whole};

fn timepoint(semaphore: &Arc<Semaphore>, payload: u64) -> Arc<Fence> {
    Arc::new(Fence::from_timepoints([(Arc::clone(semaphore), payload)]))
}

#[test]
fn operations_wait_for_the_host_and_signal_it() {
    on_each(|subject| {
        let buffer = subject.buffer(&[0; 64]);
        let commands = subject.command_buffer(ONCE, 0);
        commands.fill(whole(&buffer), 5, 1).unwrap();
        commands.finalize().unwrap();
        let (before, after) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        subject.device.queue_execute(waiting(&before, &after), &Arc::new(commands), &[]).unwrap();
        assert!(!after.query().unwrap());
        assert_eq!(code(after.wait(Deadline::after(Duration::from_millis(5)))), Some(StatusCode::DeadlineExceeded));
        assert_eq!(buffer.to_vec().unwrap(), [0; 64]);
        before.signal().unwrap();
        wait(&after).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [5; 64]);
    });
}

#[test]
fn timelines_order_chains_of_operations() {
    on_each(|subject| {
        let timeline = Arc::new(Semaphore::new(0));
        let buffer = subject.buffer(&[0; 1024]);
        let fences: Vec<_> = (1..=50).map(|payload| timepoint(&timeline, payload)).collect();
        // Submitted in an order in which each waits for a later one.
        for (index, pair) in fences.windows(2).enumerate().rev() {
            let commands = subject.command_buffer(ONCE, 0);
            commands.fill(whole(&buffer), index as u64, 1).unwrap();
            commands.finalize().unwrap();
            subject.device.queue_execute(waiting(&pair[0], &pair[1]), &Arc::new(commands), &[]).unwrap();
        }
        timeline.signal(1).unwrap();
        wait(&fences[49]).unwrap();
        assert_eq!((timeline.query().unwrap(), buffer.to_vec().unwrap()), (50, vec![48; 1024]));
    });
}

#[test]
fn failures_travel_along_chains() {
    on_each(|subject| {
        let fences: Vec<_> = (0..4).map(|_| Arc::new(Fence::new())).collect();
        for pair in fences.windows(2) {
            subject.device.queue_barrier(waiting(&pair[0], &pair[1])).unwrap();
        }
        fences[0].fail(&Error::data_loss("the first failure"));
        let error = wait(&fences[3]).unwrap_err();
        assert_eq!((error.code(), error.message()), (StatusCode::DataLoss, "the first failure"));
        // The device goes on.
        let after = Arc::new(Fence::new());
        subject.device.queue_barrier(signalling(&after)).unwrap();
        wait(&after).unwrap();
    });
}

#[test]
fn threads_wait_for_one_operation_in_several_ways() {
    on_each(|subject| {
        for _ in 0..20 {
            let buffer = subject.buffer(&[0; 4096]);
            let commands = subject.command_buffer(ONCE, 0);
            commands.fill(whole(&buffer), 3, 1).unwrap();
            commands.finalize().unwrap();
            let done = Arc::new(Fence::new());
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| wait(&done).unwrap());
                    // Does not participate, so another thread must finish the operation.
                    scope.spawn(|| done.wait(Deadline::after(Duration::from_secs(60))).unwrap());
                    scope.spawn(|| Fence::wait_any([&*done].into_iter(), Deadline::NEVER).unwrap());
                }
                subject.device.queue_execute(signalling(&done), &Arc::new(commands), &[]).unwrap();
            });
            assert_eq!(buffer.to_vec().unwrap(), [3; 4096]);
        }
    });
}

#[test]
fn joined_fences_are_reached_with_all_of_their_operations() {
    on_each(|subject| {
        let fences: Vec<Arc<Fence>> = (0..3).map(|_| Arc::new(Fence::new())).collect();
        for fence in &fences {
            let buffer = subject.buffer(&[0; 64]);
            let commands = subject.command_buffer(ONCE, 0);
            commands.fill(whole(&buffer), 1, 1).unwrap();
            commands.finalize().unwrap();
            subject.device.queue_execute(signalling(fence), &Arc::new(commands), &[]).unwrap();
        }
        let joined = Fence::join(fences.iter(), incarnate_runtime::vm::Ledger::HOST).unwrap().unwrap();
        let after = Arc::new(Fence::new());
        subject
            .device
            .queue_barrier(Fences { wait: Some(&joined), signal: Arc::clone(&after).into(), ..Fences::default() })
            .unwrap();
        wait(&after).unwrap();
        assert!(fences.iter().all(|fence| fence.query().unwrap()));
    });
}

#[test]
fn dropped_devices_finish_what_they_run() {
    on_each(|subject| {
        let registry = incarnate_runtime::hal::DriverRegistry::default();
        let device = registry.create_device(&subject.uri, Default::default()).unwrap();
        let buffer = device.allocator().allocate(crate::all_uses(), 1 << 20).unwrap();
        let commands = device.create_command_buffer(ONCE, incarnate_runtime::hal::CommandCategory::all(), 0);
        commands.fill(whole(&buffer), 9, 1).unwrap();
        commands.finalize().unwrap();
        let (done, never) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        device.queue_execute(signalling(&done), &Arc::new(commands), &[]).unwrap();
        let pending = Arc::new(Fence::new());
        device.queue_barrier(waiting(&never, &pending)).unwrap();
        drop(device);
        assert!(done.query().unwrap());
        assert_eq!(buffer.read_range(1000, 3).unwrap(), [9; 3]);
        assert_eq!(code(pending.query()), Some(StatusCode::Aborted));
    });
}
