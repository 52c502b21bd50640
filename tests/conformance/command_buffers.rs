//! Command buffers: recording, fills, updates, copies.

use std::sync::Arc;

use incarnate_runtime::StatusCode;
use incarnate_runtime::hal::{CommandBufferMode, CommandCategory, ExecutionStage};

use crate::{ONCE, REUSABLE, bound, code, on_each, range, slot, whole};

const STAGES: ExecutionStage = ExecutionStage::DISPATCH.union(ExecutionStage::TRANSFER);

#[test]
fn command_buffers_without_commands_are_done() {
    on_each(|subject| {
        subject.run(|_| ());
        let commands = Arc::new(subject.command_buffer(REUSABLE, 0));
        assert_eq!(code(subject.execute(&commands, &[])), Some(StatusCode::FailedPrecondition));
        commands.finalize().unwrap();
        (0..3).for_each(|_| subject.execute(&commands, &[]).unwrap());
        assert_eq!(code(commands.finalize()), Some(StatusCode::FailedPrecondition));
    });
}

#[test]
fn commands_are_of_the_declared_categories() {
    on_each(|subject| {
        let buffer = subject.buffer(&[0; 16]);
        let commands = subject.device.create_command_buffer(ONCE, CommandCategory::DISPATCH, 0);
        assert_eq!(code(commands.fill(whole(&buffer), 1, 4)), Some(StatusCode::FailedPrecondition));
    });
}

#[test]
fn fills_of_every_alignment() {
    on_each(|subject| {
        for (pattern_length, pattern) in [(1, 0x5A_u64), (2, 0x1234), (4, 0xDEAD_BEEF), (8, 0x0102_0304_0506_0708)] {
            for (offset, length) in
                [(0, 1), (0, 3), (1, 1), (2, 8), (3, 13), (0, 16), (8, 8), (4, 200), (0, 0), (16, 131_072)]
            {
                let step = pattern_length as u64;
                let (offset, length) = (offset * step, length * step);
                let buffer = subject.buffer(&vec![0xEE; (offset + length) as usize + 9]);
                subject.run(|commands| commands.fill(range(&buffer, offset, length), pattern, pattern_length).unwrap());
                let bytes = buffer.to_vec().unwrap();
                let (start, end) = (offset as usize, (offset + length) as usize);
                let expected = pattern.to_le_bytes();
                let is_filled = (start..end).all(|index| bytes[index] == expected[(index - start) % pattern_length]);
                let is_kept = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xEE);
                assert!(
                    is_filled && is_kept(&bytes[..start]) && is_kept(&bytes[end..]),
                    "{pattern_length} {offset} {length}"
                );
            }
        }
    });
}

#[test]
fn updates_of_every_length() {
    on_each(|subject| {
        for (offset, length) in [(0, 4), (1, 3), (5, 1), (8, 64), (4, 65_536), (0, 65_540), (3, 300_001)] {
            let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
            let buffer = subject.buffer(&vec![0xEE; offset + length + 5]);
            let source = bytes.clone();
            subject.run(|commands| commands.update(&source, range(&buffer, offset as u64, length as u64)).unwrap());
            let result = buffer.to_vec().unwrap();
            assert!(result[offset..offset + length] == bytes && result[..offset].iter().all(|byte| *byte == 0xEE));
            assert_eq!(result[offset + length..], [0xEE; 5]);
        }
    });
}

#[test]
fn updates_contain_the_bytes_of_when_they_were_recorded() {
    on_each(|subject| {
        let buffer = subject.buffer(&[0; 8]);
        let commands = subject.command_buffer(REUSABLE, 0);
        let mut source = vec![1, 2, 3, 4, 5, 6, 7, 8];
        commands.update(&source, whole(&buffer)).unwrap();
        source.fill(0);
        commands.finalize().unwrap();
        let commands = Arc::new(commands);
        for _ in 0..2 {
            buffer.write(0, &[9; 8]).unwrap();
            subject.execute(&commands, &[]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
        }
    });
}

#[test]
fn copies_of_every_alignment() {
    on_each(|subject| {
        let bytes: Vec<u8> = (0..=255).cycle().take(400_000).collect();
        let source = subject.buffer(&bytes);
        for (from, to, length) in
            [(0, 0, 400_000), (1, 2, 1), (3, 8, 333), (100, 4, 65_537), (64, 1024, 0), (399_999, 0, 1)]
        {
            let target = subject.buffer(&vec![0xEE; 400_000]);
            subject.run(|commands| {
                let (from, to, length) = (from as u64, to as u64, length as u64);
                commands.copy(range(&source, from, length), range(&target, to, length)).unwrap();
            });
            let result = target.to_vec().unwrap();
            assert!(result[to..to + length] == bytes[from..from + length]);
            assert!(result[..to].iter().chain(&result[to + length..]).all(|byte| *byte == 0xEE));
        }
    });
}

#[test]
fn barriers_order_commands() {
    on_each(|subject| {
        let (a, b) = (subject.buffer(&[0; 4096]), subject.buffer(&[0; 4096]));
        subject.run(|commands| {
            for round in 1..=20 {
                commands.fill(whole(&a), round, 1).unwrap();
                commands.execution_barrier(STAGES, STAGES).unwrap();
                commands.copy(range(&a, 0, 2048), range(&b, 2048, 2048)).unwrap();
                commands.execution_barrier(STAGES, STAGES).unwrap();
                commands.copy(range(&b, 2048, 2048), range(&b, 0, 2048)).unwrap();
                commands.execution_barrier(STAGES, STAGES).unwrap();
            }
        });
        assert_eq!(b.to_vec().unwrap(), [20; 4096]);
    });
}

#[test]
fn slots_are_bound_by_each_execution() {
    on_each(|subject| {
        let commands = subject.command_buffer(REUSABLE, 2);
        commands.fill(slot(0, 4, 8), 0x11, 1).unwrap();
        commands.execution_barrier(STAGES, STAGES).unwrap();
        commands.copy(slot(0, 0, 16), slot(1, 16, 16)).unwrap();
        commands.finalize().unwrap();
        let commands = Arc::new(commands);
        for round in 0..6 {
            let (a, b) = (subject.buffer(&[round; 16]), subject.buffer(&[99; 48]));
            subject.execute(&commands, &[bound(&a), bound(&b)]).unwrap();
            let mut expected = [round; 16];
            expected[4..12].fill(0x11);
            let result = b.to_vec().unwrap();
            assert!(result[16..32] == expected && result[..16] == [99; 16] && result[32..] == [99; 16], "{result:?}");
        }
        let short = subject.buffer(&[0; 12]);
        let full = subject.buffer(&[0; 48]);
        assert_eq!(code(subject.execute(&commands, &[bound(&short), bound(&full)])), Some(StatusCode::OutOfRange));
        assert_eq!(code(subject.execute(&commands, &[bound(&full)])), Some(StatusCode::InvalidArgument));
        subject.execute(&commands, &[bound(&full), bound(&full.subspan(0, 48).unwrap())]).unwrap();
    });
}

#[test]
fn transient_buffers_are_used_until_commands_are_done() {
    on_each(|subject| {
        let result = subject.buffer(&[0; 1024]);
        for round in 0..30 {
            let modes = if round % 2 == 0 { ONCE } else { CommandBufferMode::empty() };
            let commands = subject.command_buffer(modes, 0);
            let transient = subject.device.queue_alloca(Default::default(), crate::all_uses(), 1024).unwrap();
            commands.fill(whole(&transient), round, 1).unwrap();
            commands.execution_barrier(STAGES, STAGES).unwrap();
            commands.copy(whole(&transient), whole(&result)).unwrap();
            commands.finalize().unwrap();
            let done = Arc::new(incarnate_runtime::hal::Fence::new());
            subject.device.queue_execute(crate::signalling(&done), &Arc::new(commands), &[]).unwrap();
            subject.device.queue_dealloca(crate::waiting(&done, &Arc::default()), transient).unwrap();
            crate::wait(&done).unwrap();
            assert_eq!(result.to_vec().unwrap(), [round as u8; 1024]);
        }
    });
}
