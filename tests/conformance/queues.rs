//! Operations of queues: allocation, transfers, barriers.

use std::sync::Arc;

use incarnate_runtime::StatusCode;
use incarnate_runtime::hal::{BufferParameters, Fence, Fences};

use crate::{code, on_each, signalling, wait, waiting};

#[test]
fn allocations_and_releases_follow_fences() {
    on_each(|subject| {
        let device = &subject.device;
        let live = device.allocator().statistics().live;
        let (start, allocated, filled, freed) =
            (Arc::new(Fence::new()), Arc::new(Fence::new()), Arc::new(Fence::new()), Arc::new(Fence::new()));
        let buffer = device.queue_alloca(waiting(&start, &allocated), BufferParameters::DEVICE, 100_000).unwrap();
        device.queue_fill(waiting(&allocated, &filled), Arc::clone(&buffer), 0, 100_000, 7, 1).unwrap();
        let result = subject.buffer(&[0; 16]);
        let copied = Arc::new(Fence::new());
        device
            .queue_copy(waiting(&filled, &copied), (Arc::clone(&buffer), 99_984), (Arc::clone(&result), 0), 16)
            .unwrap();
        device.queue_dealloca(waiting(&copied, &freed), buffer).unwrap();
        assert!(!freed.query().unwrap());
        start.signal().unwrap();
        wait(&freed).unwrap();
        assert_eq!(result.to_vec().unwrap(), [7; 16]);
        drop(result);
        assert_eq!(device.allocator().statistics().live, live);
    });
}

#[test]
fn fills_updates_and_copies_of_each_class() {
    on_each(|subject| {
        let device = &subject.device;
        for (offset, length) in [(0, 1), (1, 7), (4, 4096), (3, 100_001), (8, 2_000_000)] {
            let bytes: Vec<u8> = (0..=255).cycle().take(length).collect();
            let buffer = subject.buffer(&vec![0xEE; offset + length + 3]);
            let done = Arc::new(Fence::new());
            device.queue_update(signalling(&done), &bytes, Arc::clone(&buffer), offset as u64).unwrap();
            wait(&done).unwrap();
            let copy = subject.buffer(&vec![0; length]);
            let done = Arc::new(Fence::new());
            let target = (Arc::clone(&copy), 0);
            device.queue_copy(signalling(&done), (Arc::clone(&buffer), offset as u64), target, length as u64).unwrap();
            wait(&done).unwrap();
            assert!(copy.to_vec().unwrap() == bytes);
            assert_eq!(buffer.read_range((offset + length) as u64, 3).unwrap(), [0xEE; 3]);
            let done = Arc::new(Fence::new());
            device.queue_fill(signalling(&done), Arc::clone(&copy), 0, length as u64, 0x42, 1).unwrap();
            wait(&done).unwrap();
            assert!(copy.to_vec().unwrap().iter().all(|byte| *byte == 0x42));
        }
    });
}

#[test]
fn updates_capture_their_source_before_they_run() {
    on_each(|subject| {
        let (start, done) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        let buffer = subject.buffer(&[0; 4]);
        let mut source = vec![1, 2, 3, 4];
        subject.device.queue_update(waiting(&start, &done), &source, Arc::clone(&buffer), 0).unwrap();
        source.fill(9);
        start.signal().unwrap();
        wait(&done).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3, 4]);
    });
}

#[test]
fn failed_operations_fail_their_fence() {
    on_each(|subject| {
        let done = Arc::new(Fence::new());
        let buffer = subject.buffer(&[0; 4]);
        let result = subject.device.queue_fill(signalling(&done), Arc::clone(&buffer), 2, 100, 0, 1);
        assert_eq!((code(result), code(wait(&done))), (Some(StatusCode::OutOfRange), Some(StatusCode::OutOfRange)));
        let done = Arc::new(Fence::new());
        let fences = Fences { signal: Arc::clone(&done).into(), ..Fences::default() };
        let result = subject.device.queue_alloca(fences, BufferParameters::DEVICE, u64::MAX);
        assert_eq!([code(result), code(wait(&done))], [Some(StatusCode::ResourceExhausted); 2]);
    });
}

#[test]
fn bursts_of_operations_are_done_in_order_of_their_fences() {
    on_each(|subject| {
        let buffer = subject.buffer(&[0; 256]);
        let mut last = Arc::new(Fence::new());
        last.signal().unwrap();
        for round in 0..200_u64 {
            let next = Arc::new(Fence::new());
            subject.device.queue_fill(waiting(&last, &next), Arc::clone(&buffer), round, 1, round + 1, 1).unwrap();
            last = next;
        }
        wait(&last).unwrap();
        let bytes = buffer.to_vec().unwrap();
        assert!((0..200).all(|index| bytes[index] == index as u8 + 1));
    });
}
