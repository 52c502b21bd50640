//! Model checks of pins, by loom. CONTRIBUTING.md has the command.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// Memory that the value of a model refers to: loom fails the check where accesses race.
#[derive(Clone)]
struct Memory(Arc<[UnsafeCell<u32>; 2]>);

// SAFETY: loom checks every access.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(contents: [u32; 2]) -> Memory {
        Memory(Arc::new(contents.map(UnsafeCell::new)))
    }

    fn read(&self, index: usize) -> u32 {
        // SAFETY: loom checks that no thread writes the cell.
        self.0[index].with(|cell| unsafe { *cell })
    }

    fn write(&self, index: usize, number: u32) {
        // SAFETY: loom checks that no other thread accesses the cell.
        self.0[index].with_mut(|cell| unsafe { *cell = number });
    }

    fn copy(&self) -> Memory {
        Memory::new([self.read(0), self.read(1)])
    }
}

struct Movable {
    memory: Pinnable<Memory>,
    borrowed: Memory,
}

impl Movable {
    fn read(&self, index: usize) -> u32 {
        let pin = self.memory.pin();
        match pin.value() {
            Some(memory) => memory.read(index),
            None => self.borrowed.read(index),
        }
    }

    fn fix(&self) -> &Memory {
        self.memory.fix(|| Ok(Some(self.borrowed.copy()))).unwrap().unwrap()
    }
}

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    builder.check(model);
}

fn borrowed() -> Arc<Movable> {
    Arc::new(Movable { memory: Pinnable::empty(), borrowed: Memory::new([1, 1]) })
}

/// Ends the borrow; then the owner writes to the memory.
fn end_borrow(movable: &Movable) {
    movable.fix();
    movable.memory.wait_for_pins();
    movable.borrowed.write(0, 2);
}

fn exchange(movable: &Movable) -> bool {
    movable.memory.try_exchange(|previous| Ok(previous.copy()))
}

fn join<T>(threads: impl IntoIterator<Item = thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn borrowed_memory_is_not_read_after_the_end() {
    check(None, || {
        let movable = borrowed();
        let reader = thread::spawn({
            let movable = movable.clone();
            move || (0..2).for_each(|_| assert_eq!(movable.read(0), 1))
        });
        end_borrow(&movable);
        join([reader]);
    });
}

#[test]
fn readers_and_a_writer_of_borrowed_memory_are_all_waited_for() {
    check(Some(1), || {
        let movable = borrowed();
        let reader = thread::spawn({
            let movable = movable.clone();
            move || assert_eq!(movable.read(0), 1)
        });
        let writer = thread::spawn({
            let movable = movable.clone();
            move || movable.fix().write(1, 7)
        });
        end_borrow(&movable);
        join([reader, writer]);
        assert_eq!((movable.read(0), movable.read(1)), (1, 7));
    });
}

#[test]
fn an_exchange_loses_no_write_under_a_pin() {
    check(Some(2), || {
        let movable = Arc::new(Movable { memory: Pinnable::owned(Memory::new([0, 0])), borrowed: Memory::new([9, 9]) });
        let write = |movable: &Movable, index| {
            let pin = movable.memory.pin();
            pin.value().unwrap().write(index, 1);
        };
        let writer = thread::spawn({
            let movable = movable.clone();
            move || write(&movable, 0)
        });
        exchange(&movable);
        write(&movable, 1);
        join([writer]);
        assert_eq!((movable.read(0), movable.read(1)), (1, 1));
    });
}

#[test]
fn a_fixed_value_is_not_exchanged() {
    check(None, || {
        let movable = Arc::new(Movable { memory: Pinnable::owned(Memory::new([3, 4])), borrowed: Memory::new([9, 9]) });
        let exchanger = thread::spawn({
            let movable = movable.clone();
            move || exchange(&movable)
        });
        let memory = movable.fix();
        memory.write(0, 5);
        join([exchanger]);
        assert!(!exchange(&movable));
        assert!(core::ptr::eq(memory, movable.fix()));
        assert_eq!((movable.read(0), movable.read(1)), (5, 4));
    });
}

/// A failed copy leaves the value borrowed.
#[test]
fn a_failure_ends_the_claim() {
    check(None, || {
        let movable = borrowed();
        let failing = thread::spawn({
            let movable = movable.clone();
            move || movable.memory.fix(|| Err(crate::Error::internal("no memory"))).is_err()
        });
        assert_eq!(movable.read(0), 1);
        movable.fix().write(1, 7);
        join([failing]);
        assert_eq!((movable.read(0), movable.read(1)), (1, 7));
    });
}

/// Two threads need a value that is not there yet, and a third exchanges it: one value is stored, and no write is lost.
#[test]
fn a_value_that_comes_later_is_stored_once() {
    check(Some(2), || {
        let movable = Arc::new(Movable { memory: Pinnable::empty(), borrowed: Memory::new([9, 9]) });
        let write = |movable: &Movable, index| {
            movable.memory.fill(|| Ok(Memory::new([0, 0]))).unwrap();
            movable.memory.pin().value().unwrap().write(index, 1);
        };
        let writer = thread::spawn({
            let movable = movable.clone();
            move || write(&movable, 0)
        });
        let exchanger = thread::spawn({
            let movable = movable.clone();
            move || exchange(&movable)
        });
        write(&movable, 1);
        join([writer]);
        join([exchanger]);
        assert_eq!((movable.read(0), movable.read(1)), (1, 1));
    });
}
