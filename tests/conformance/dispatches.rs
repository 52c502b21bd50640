//! Executables and dispatches.

use std::sync::Arc;

use incarnate_runtime::StatusCode;
use incarnate_runtime::hal::local::Loaders;
use incarnate_runtime::hal::{CommandBuffer, DispatchFlags, Executable, ExecutionStage, Workgroups};
use incarnate_runtime::vm::Ledger;

use crate::{ONCE, REUSABLE, bound, code, on_each, range, read_words, slot, whole, with_kernels};

const STAGES: ExecutionStage = ExecutionStage::DISPATCH.union(ExecutionStage::TRANSFER);
const NONE: DispatchFlags = DispatchFlags::empty();
/// Constants that a kernel does not use.
const UNUSED: &[u32] = &[0, 0];
/// The ordinals of the kernels.
const SCALE_AND_OFFSET: u64 = 0;
const WRITE_IDS: u64 = 1;
const WRITE_COUNTS: u64 = 2;

fn count(x: u32) -> Workgroups {
    Workgroups::Count([x, 1, 1])
}

fn barrier(commands: &CommandBuffer) {
    commands.execution_barrier(STAGES, STAGES).unwrap();
}

#[test]
fn functions_are_described_and_found_by_name() {
    with_kernels(|_, kernels| {
        let functions = kernels.functions();
        let names: Vec<&str> = functions.iter().map(|info| info.name.as_str()).collect();
        assert_eq!(functions.len(), 3);
        let counts = |index: usize| (functions[index].constant_count, functions[index].binding_count);
        assert_eq!((counts(0), counts(1)), ((2, 2), (2, 1)));
        for (index, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            assert_eq!(kernels.lookup(name).unwrap(), index);
        }
        assert_eq!(code(kernels.lookup("no such function")), Some(StatusCode::NotFound));
    });
}

#[test]
fn executables_of_other_formats_are_refused() {
    on_each(|subject| {
        let create = |format: &str, data: &[u8]| {
            code(subject.device.create_executable(&Loaders::all(), format, data, None, &[], Ledger::HOST))
        };
        assert_eq!(create("no-such-format", &[0; 64]), Some(StatusCode::NotFound));
        for format in subject.formats {
            assert!(create(format, &[0; 64]).is_some() && create(format, &[]).is_some());
        }
    });
}

#[test]
fn workgroups_constants_and_bindings_reach_the_kernel() {
    with_kernels(|subject, kernels| {
        let (input, output) = (subject.words(&(0..4096).collect::<Vec<_>>()), subject.words(&[7; 4096]));
        subject.run(|commands| {
            let bindings = [whole(&input), whole(&output)];
            commands.dispatch(Arc::clone(kernels), SCALE_AND_OFFSET, count(1000), &[3, 5], bindings, NONE).unwrap();
        });
        let result = read_words(&output);
        assert!((0..1000).all(|index| result[index as usize] == index * 3 + 5) && result[1000..] == [7; 3096]);
    });
}

#[test]
fn dispatches_without_workgroups_do_nothing() {
    with_kernels(|subject, kernels| {
        let output = subject.words(&[7; 4096]);
        subject.run(|commands| {
            commands.dispatch(Arc::clone(kernels), WRITE_IDS, count(0), UNUSED, [whole(&output)], NONE).unwrap();
            let none = Workgroups::Count([4, 0, 1]);
            commands.dispatch(Arc::clone(kernels), WRITE_IDS, none, UNUSED, [whole(&output)], NONE).unwrap();
        });
        assert_eq!(read_words(&output), [7; 4096]);
    });
}

#[test]
fn wrong_operands_are_refused_when_they_are_recorded() {
    with_kernels(|subject, kernels| {
        let output = subject.words(&[0; 4096]);
        let commands = subject.command_buffer(ONCE, 1);
        let dispatch = |function, constants: &[u32], bindings: Vec<_>| {
            code(commands.dispatch(Arc::clone(kernels), function, count(1), constants, bindings, NONE))
        };
        assert_eq!(dispatch(3, UNUSED, vec![whole(&output)]), Some(StatusCode::OutOfRange));
        assert_eq!(dispatch(WRITE_IDS, &[1], vec![whole(&output)]), Some(StatusCode::InvalidArgument));
        assert_eq!(dispatch(WRITE_IDS, UNUSED, vec![]), Some(StatusCode::InvalidArgument));
        assert_eq!(dispatch(WRITE_IDS, UNUSED, vec![slot(1, 0, 4)]), Some(StatusCode::OutOfRange));
        assert_eq!(dispatch(WRITE_IDS, UNUSED, vec![range(&output, 0, 16_385)]), Some(StatusCode::OutOfRange));
    });
}

#[test]
fn dispatches_depend_on_each_other_through_barriers() {
    with_kernels(|subject, kernels| {
        let (a, b) = (subject.words(&[0; 4096]), subject.words(&[0; 4096]));
        subject.run(|commands| {
            commands.fill(whole(&a), 1, 4).unwrap();
            barrier(commands);
            for _ in 0..10 {
                for (from, to) in [(&a, &b), (&b, &a)] {
                    let bindings = [whole(from), whole(to)];
                    commands
                        .dispatch(Arc::clone(kernels), SCALE_AND_OFFSET, count(64), &[1, 3], bindings, NONE)
                        .unwrap();
                    barrier(commands);
                }
            }
        });
        assert_eq!(read_words(&a)[..66], [&[61; 64][..], &[1, 1]].concat());
    });
}

#[test]
fn counts_are_read_when_the_dispatch_runs() {
    with_kernels(|subject, kernels| {
        let indirect = |commands: &CommandBuffer, counts, output| {
            let counts = Workgroups::Indirect(counts);
            commands.dispatch(Arc::clone(kernels), WRITE_IDS, counts, UNUSED, [whole(output)], NONE).unwrap();
        };
        let ids = |output: &Arc<_>, count: u32| {
            let expected: Vec<u32> = (0..count).chain(std::iter::repeat_n(99, 16 - count as usize)).collect();
            assert_eq!(read_words(output)[..16], expected);
        };
        // Written by the host, within a larger buffer.
        let (counts, output) = (subject.words(&[0, 0, 9, 5, 1, 1]), subject.words(&[99; 4096]));
        subject.run(|commands| indirect(commands, range(&counts, 12, 12), &output));
        ids(&output, 5);
        // By an update, by fills, and by a kernel of the same commands.
        let (counts, output) = (subject.words(&[0; 4096]), subject.words(&[99; 4096]));
        subject.run(|commands| {
            commands.update(&crate::bytes_of(&[7, 1, 1]), range(&counts, 0, 12)).unwrap();
            barrier(commands);
            indirect(commands, range(&counts, 0, 12), &output);
        });
        ids(&output, 7);
        let output = subject.words(&[99; 4096]);
        subject.run(|commands| {
            commands.fill(range(&counts, 0, 12), 1, 4).unwrap();
            barrier(commands);
            indirect(commands, range(&counts, 0, 12), &output);
        });
        ids(&output, 1);
        let output = subject.words(&[99; 4096]);
        subject.run(|commands| {
            commands.dispatch(Arc::clone(kernels), WRITE_COUNTS, count(1), UNUSED, [whole(&counts)], NONE).unwrap();
            barrier(commands);
            indirect(commands, range(&counts, 0, 12), &output);
        });
        ids(&output, 3);
    });
}

#[test]
fn commands_are_executed_again_with_other_bindings() {
    with_kernels(|subject, kernels| {
        let kept = subject.words(&(0..4096).collect::<Vec<_>>());
        let commands = subject.command_buffer(REUSABLE, 1);
        let bindings = [whole(&kept), slot(0, 0, 16_384)];
        commands.dispatch(Arc::clone(kernels), SCALE_AND_OFFSET, count(4096), &[2, 1], bindings, NONE).unwrap();
        commands.finalize().unwrap();
        let commands = Arc::new(commands);
        let outputs: Vec<_> = (0..7).map(|_| subject.words(&[0; 4096])).collect();
        for round in 0..3_u32 {
            for output in &outputs {
                kept.write(0, &round.to_le_bytes()).unwrap();
                subject.execute(&commands, &[bound(output)]).unwrap();
                let result = read_words(output);
                assert!(result[0] == 2 * round + 1 && (1..4096).all(|index| result[index as usize] == 2 * index + 1));
            }
        }
    });
}

#[test]
fn executions_overlap_and_keep_what_they_use() {
    with_kernels(|subject, kernels| {
        let mut operations = Vec::new();
        for round in 0..40_u32 {
            let (input, output) = (subject.words(&[round; 4096]), subject.words(&[0; 4096]));
            let commands = subject.command_buffer(ONCE, 0);
            let bindings = [whole(&input), whole(&output)];
            commands.dispatch(Arc::clone(kernels), SCALE_AND_OFFSET, count(512), &[2, round], bindings, NONE).unwrap();
            commands.finalize().unwrap();
            let done = Arc::new(incarnate_runtime::hal::Fence::new());
            subject.device.queue_execute(crate::signalling(&done), &Arc::new(commands), &[]).unwrap();
            operations.push((round, output, done));
        }
        for (round, output, done) in operations {
            crate::wait(&done).unwrap();
            assert_eq!(read_words(&output)[..512], [3 * round; 512]);
        }
    });
}

#[test]
fn executables_of_another_kind_of_device_are_refused() {
    let subjects = crate::subjects();
    let loaded: Vec<(&crate::Subject, Arc<Executable>)> =
        subjects.iter().map(|subject| (subject, subject.kernels(subject.formats[0]).unwrap())).collect();
    for (subject, _) in &loaded {
        let local = |subject: &crate::Subject| subject.uri.starts_with("local");
        for (_, kernels) in loaded.iter().filter(|(other, _)| local(other) != local(subject)) {
            let output = subject.words(&[0; 4096]);
            let commands = subject.command_buffer(REUSABLE, 0);
            commands.dispatch(Arc::clone(kernels), WRITE_IDS, count(1), UNUSED, [whole(&output)], NONE).unwrap();
            commands.finalize().unwrap();
            let result = subject.execute(&Arc::new(commands), &[]);
            assert_eq!(code(result), Some(StatusCode::FailedPrecondition));
        }
    }
}

#[test]
fn memory_of_another_device_is_used_by_commands() {
    let subjects = crate::subjects();
    for subject in &subjects {
        for other in &subjects {
            // A kernel of the host cannot use memory that it cannot access.
            let (input, output) = (other.words(&[4; 4096]), other.words(&[0; 4096]));
            if subject.uri.starts_with("local") && input.fixed_address().is_none() && input.device_memory().is_some() {
                let copy = subject.words(&[0; 4096]);
                subject.run(|commands| commands.copy(whole(&input), whole(&copy)).unwrap());
                assert_eq!(read_words(&copy), [4; 4096]);
                continue;
            }
            let kernels = subject.kernels(subject.formats[0]).unwrap();
            subject.run(|commands| {
                let bindings = [whole(&input), whole(&output)];
                commands.dispatch(kernels, SCALE_AND_OFFSET, count(100), &[5, 1], bindings, NONE).unwrap();
                barrier(commands);
                commands.copy(range(&output, 0, 40), range(&output, 8000, 40)).unwrap();
            });
            let result = read_words(&output);
            assert!(result[..100] == [21; 100] && result[100..2000].iter().all(|word| *word == 0), "{}", subject.uri);
            assert_eq!(result[2000..2011], [21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 0]);
        }
    }
}
