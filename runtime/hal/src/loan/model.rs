//! A model check of who reads lent memory when, by loom. CONTRIBUTING.md has the command.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use super::*;

struct Memory {
    users: Users,
    moved: AtomicBool,
    /// What the caller lends: loom fails the check where the caller's write after the loan's end races with a read.
    lent: UnsafeCell<u32>,
    copy: UnsafeCell<u32>,
}

// SAFETY: loom checks every access.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn read(&self) -> u32 {
        let moved = || self.moved.load(Ordering::Acquire);
        if !moved() && self.users.enter(moved) {
            // SAFETY: loom checks that nobody writes the cell.
            let value = self.lent.with(|cell| unsafe { *cell });
            self.users.leave();
            return value;
        }
        // SAFETY: as above.
        self.copy.with(|cell| unsafe { *cell })
    }
}

/// `readers` read twice each, while the loan is ended and the caller writes to its memory.
fn check(readers: usize, preemptions: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let memory = Arc::new(Memory {
            users: Users::default(),
            moved: AtomicBool::new(false),
            lent: UnsafeCell::new(1),
            copy: UnsafeCell::new(0),
        });
        let read = |memory: Arc<Memory>| move || (0..2).for_each(|_| assert_eq!(memory.read(), 1));
        let threads: Vec<_> = (0..readers).map(|_| thread::spawn(read(memory.clone()))).collect();
        // SAFETY: loom checks that nobody accesses the cells meanwhile.
        memory.copy.with_mut(|copy| unsafe { *copy = memory.lent.with(|lent| *lent) });
        memory.moved.store(true, Ordering::Release);
        memory.users.wait();
        // SAFETY: as above.
        memory.lent.with_mut(|cell| unsafe { *cell = 2 });
        threads.into_iter().for_each(|thread| assert!(thread.join().is_ok()));
    });
}

#[test]
fn nobody_reads_lent_memory_after_the_end() {
    check(1, None);
}

#[test]
fn several_readers_are_all_waited_for() {
    check(2, Some(2));
}
