//! Reads and writes of files.

use std::sync::Arc;

use incarnate_runtime::StatusCode;
use incarnate_runtime::hal::{Fence, File, MemoryAccess};

use crate::{code, on_each, signalling, wait, waiting};

/// A file of the host's memory.
fn file(bytes: &[u8], access: MemoryAccess) -> Arc<File> {
    let host = incarnate_runtime::hal::Allocator::new();
    let contents = host.allocate(crate::all_uses(), bytes.len() as u64).unwrap();
    contents.write(0, bytes).unwrap();
    Arc::new(File::from_buffer(contents, access).unwrap())
}

#[test]
fn files_are_read_in_whole_and_in_part() {
    on_each(|subject| {
        let bytes: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
        let source = file(&bytes, MemoryAccess::READ);
        for (from, to, length) in [(0, 0, 3_000_001), (5, 7, 1000), (2_999_999, 0, 2)] {
            let target = subject.buffer(&vec![0xEE; 3_000_001]);
            let done = Arc::new(Fence::new());
            subject
                .device
                .queue_read(signalling(&done), (Arc::clone(&source), from), (Arc::clone(&target), to), length)
                .unwrap();
            wait(&done).unwrap();
            let (from, to, length) = (from as usize, to as usize, length as usize);
            assert!(target.to_vec().unwrap()[to..to + length] == bytes[from..from + length]);
        }
        let target = subject.buffer(&[0; 4]);
        let beyond = subject.device.queue_read(signalling(&Arc::default()), (source, 3_000_000), (target, 0), 4);
        assert_eq!(code(beyond), Some(StatusCode::OutOfRange));
    });
}

#[test]
fn files_are_written_and_read_again() {
    on_each(|subject| {
        let target = file(&[0; 1000], MemoryAccess::READ | MemoryAccess::WRITE);
        let (source, back) = (subject.buffer(&[1, 2, 3, 4, 5, 6, 7, 8]), subject.buffer(&[0; 10]));
        let (start, written, read) = (Arc::new(Fence::new()), Arc::new(Fence::new()), Arc::new(Fence::new()));
        subject.device.queue_write(waiting(&start, &written), (source, 2), (Arc::clone(&target), 501), 5).unwrap();
        subject
            .device
            .queue_read(waiting(&written, &read), (Arc::clone(&target), 499), (Arc::clone(&back), 1), 8)
            .unwrap();
        start.signal().unwrap();
        wait(&read).unwrap();
        assert_eq!(back.to_vec().unwrap(), [0, 0, 0, 3, 4, 5, 6, 7, 0, 0]);
        let read_only = file(&[0; 8], MemoryAccess::READ);
        let refused = subject.device.queue_write(signalling(&Arc::default()), (back, 0), (read_only, 0), 8);
        assert_eq!(code(refused), Some(StatusCode::PermissionDenied));
    });
}
