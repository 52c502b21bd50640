//! Allocators and buffers.

use std::sync::Arc;

use incarnate_runtime::StatusCode;
use incarnate_runtime::hal::{
    BufferParameters, BufferUsage, DeviceOptions, DriverRegistry, ExecutionStage, MemoryType, WHOLE_BUFFER,
};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::vm::Ledger;

use crate::{code, on_each, range, whole};

#[test]
fn buffers_are_what_was_asked_for() {
    on_each(|subject| {
        let allocator = subject.device.allocator();
        for length in [1, 3, 64, 4096, 1_000_003] {
            let buffer = allocator.allocate(BufferParameters::DEVICE, length).unwrap();
            assert_eq!((buffer.byte_length(), buffer.byte_offset(), buffer.allocation_length()), (length, 0, length));
            buffer.check(length, MemoryType::DEVICE_VISIBLE, BufferParameters::DEVICE.usage).unwrap();
        }
        let empty = allocator.allocate(BufferParameters::DEVICE, 0).unwrap();
        assert!(empty.to_vec().unwrap().is_empty());
        let visible = BufferParameters { memory_type: MemoryType::HOST_LOCAL, usage: BufferUsage::TRANSFER };
        let visible = allocator.allocate(visible, 100).unwrap();
        assert!(visible.memory_type().contains(MemoryType::HOST_VISIBLE) && visible.fixed_address().is_some());
    });
}

#[test]
fn bytes_are_read_and_written() {
    on_each(|subject| {
        let bytes: Vec<u8> = (0..=255).cycle().take(300_001).collect();
        let buffer = subject.buffer(&bytes);
        assert_eq!(buffer.to_vec().unwrap(), bytes);
        assert_eq!(buffer.read_range(100_003, 777).unwrap(), bytes[100_003..100_780]);
        buffer.write(200_001, &[9; 5]).unwrap();
        assert_eq!(buffer.read_range(200_000, 7).unwrap(), [64, 9, 9, 9, 9, 9, 70]);
        let span = buffer.subspan(1000, 50).unwrap();
        span.write(49, &[7]).unwrap();
        assert_eq!(
            (span.read_range(48, WHOLE_BUFFER).unwrap(), buffer.read_range(1049, 1).unwrap()),
            (vec![24, 7], vec![7])
        );
        assert_eq!(code(span.write(49, &[1, 2])), Some(StatusCode::OutOfRange));
        assert_eq!(code(buffer.read_range(300_001, 1)), Some(StatusCode::OutOfRange));
    });
}

#[test]
fn fills_repeat_patterns_of_each_length() {
    on_each(|subject| {
        for (length, pattern) in [(1, 0xAB), (2, 0xABCD), (4, 0xABCD_EF01), (8, 0x1122_3344_5566_7788_u64)] {
            let buffer = subject.buffer(&[0; 4096]);
            buffer.fill(16, 2048, pattern, length).unwrap();
            let bytes = buffer.to_vec().unwrap();
            let expected = pattern.to_le_bytes();
            let is_filled = (16..2064).all(|index| bytes[index] == expected[index % length]);
            assert!(is_filled && bytes[..16] == [0; 16] && bytes[2064..].iter().all(|byte| *byte == 0), "{length}");
            assert_eq!(code(buffer.fill(0, 8, 0, 3)), Some(StatusCode::InvalidArgument));
        }
    });
}

#[test]
fn copies_between_and_within_buffers() {
    on_each(|subject| {
        let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
        let (source, target) = (subject.buffer(&bytes), subject.buffer(&vec![0; 3_000_000]));
        target.copy_from(5, &source, 1, 2_999_990).unwrap();
        assert!(target.to_vec().unwrap()[5..2_999_995] == bytes[1..2_999_991]);
        // To both sides, where ranges overlap.
        for (from, to) in [(0, 1000), (1000, 0)] {
            let buffer = subject.buffer(&bytes);
            buffer.copy_from(to, &buffer, from, 2_000_000).unwrap();
            let (from, to) = (from as usize, to as usize);
            assert!(buffer.to_vec().unwrap()[to..to + 2_000_000] == bytes[from..from + 2_000_000]);
        }
    });
}

#[test]
fn memory_of_the_host_is_imported() {
    on_each(|subject| {
        let bytes: Arc<Vec<u8>> = Arc::new((0..=255).cycle().take(70_000).collect());
        let buffer = subject.device.allocator().import_or_copy(Arc::clone(&bytes), BufferParameters::DEVICE).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), *bytes);
        buffer.write(3, &[77]).unwrap();
        assert_eq!((buffer.read_range(3, 1).unwrap(), bytes[3]), (vec![77], 3));
    });
}

#[test]
fn memory_returns_when_buffers_are_dropped() {
    on_each(|subject| {
        let allocator = subject.device.allocator();
        let before = allocator.statistics();
        for round in 0..50 {
            let buffers: Vec<_> =
                (1..20).map(|index| allocator.allocate(BufferParameters::DEVICE, index * 5000).unwrap()).collect();
            assert!(allocator.statistics().live >= before.live + 950_000);
            if round == 0 {
                continue;
            }
            drop(buffers);
        }
        let after = allocator.statistics();
        assert_eq!(after.live, before.live);
        let system = after.system_allocations;
        drop(allocator.allocate(BufferParameters::DEVICE, 5000).unwrap());
        assert_eq!(allocator.statistics().system_allocations, system);
        allocator.trim();
        assert_eq!(allocator.statistics().live, before.live);
    });
}

#[test]
fn exhausted_memory_is_an_error_and_the_device_stays_usable() {
    on_each(|subject| {
        let allocator = subject.device.allocator();
        for length in [u64::MAX, u64::MAX / 2, 1 << 60] {
            let error = allocator.allocate(BufferParameters::DEVICE, length).unwrap_err();
            assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
        }
        let ledger = Ledger::new(100_000, 1000);
        let held = allocator.allocate_charged(BufferParameters::DEVICE, 50_000, &ledger).unwrap();
        let error = allocator.allocate_charged(BufferParameters::DEVICE, 60_000, &ledger).unwrap_err();
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        drop(held);
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
        let limited = DeviceOptions { memory_limit: 1 << 20, ..DeviceOptions::default() };
        let limited = DriverRegistry::default().create_device(&subject.uri, limited).unwrap();
        let half = limited.allocator().allocate(BufferParameters::DEVICE, 600_000).unwrap();
        let error = limited.allocator().allocate(BufferParameters::DEVICE, 600_000).unwrap_err();
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        drop(half);
        limited.allocator().allocate(BufferParameters::DEVICE, 600_000).unwrap();
        assert_eq!(subject.buffer(&[1, 2, 3]).to_vec().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn constants_of_mapped_files_are_used_in_place_where_the_device_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..100_000u32).map(|index| (index % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    on_each(|subject| {
        let contents = Arc::new(MappedFile::contents(&path).unwrap());
        let usage = BufferUsage::TRANSFER | BufferUsage::DISPATCH | BufferUsage::SHARING_IMMUTABLE;
        let parameters = BufferParameters { usage, ..BufferParameters::DEVICE };
        let allocator = subject.device.allocator();
        let live = allocator.statistics().live;
        let ledger = Ledger::new(1 << 20, 100);
        let import =
            |offset| allocator.import_contents_charged(&contents, offset, 90_000, parameters, &ledger).unwrap();
        assert!(import(3).is_none() && import(32).is_none(), "misaligned");
        let Some(buffer) = import(256) else {
            assert!(subject.uri.contains("staged"), "{} imports nothing", subject.uri);
            return;
        };
        assert_eq!(allocator.statistics().live, live);
        assert!(ledger.bytes() >= 90_000);
        // The device reads it, and what it writes does not reach the file.
        let copy = subject.buffer(&[0; 90_000]);
        subject.run(|commands| {
            commands.copy(whole(&buffer), whole(&copy)).unwrap();
            commands.execution_barrier(ExecutionStage::TRANSFER, ExecutionStage::TRANSFER).unwrap();
            commands.fill(range(&buffer, 0, 100), 7, 1).unwrap();
        });
        assert!(copy.to_vec().unwrap() == bytes[256..90_256]);
        assert_eq!(buffer.read_range(98, 3).unwrap(), [7, 7, bytes[356]]);
        drop(buffer);
        assert_eq!(ledger.bytes(), 0);
        assert!(std::fs::read(&path).unwrap() == bytes);
    });
    std::fs::remove_file(&path).unwrap();
}
