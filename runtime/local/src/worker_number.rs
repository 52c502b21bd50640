//! The numbers of threads, for kernels that ask on which worker they run.

#[cfg(feature = "local-task")]
use core::cell::Cell;

#[cfg(feature = "local-task")]
thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of this thread: that of a worker, from 1 on, and 0 for threads of the program.
#[cfg(feature = "local-task")]
pub(crate) fn current_worker() -> u32 {
    NUMBER.try_with(Cell::get).unwrap_or(0)
}

/// Returns 0: without the engine, dispatches run on the calling thread.
#[cfg(not(feature = "local-task"))]
pub(crate) fn current_worker() -> u32 {
    0
}

/// Sets the number of this thread, which is a worker.
#[cfg(feature = "local-task")]
pub(crate) fn set_current_worker(number: u32) {
    NUMBER.set(number);
}
