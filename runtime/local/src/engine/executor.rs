//! The provider of the threads that local-task works with.

use alloc::sync::Arc;
use core::fmt;

#[cfg(feature = "rayon")]
use crate::worker_number::set_current_worker;

/// Work that any number of threads can take part in.
pub trait Work: Send + Sync {
    /// Works along until there is nothing left to do for this thread, and some time after that in case there is more.
    /// `woken` says that this is the answer to a request of [`Executor::wake`], and not of the thread's own accord.
    fn participate(&self, woken: bool);

    /// True where a thread that participates would find something to do.
    fn has_work(&self) -> bool;
}

/// Provides threads to a device.
pub trait Executor: Send + Sync + fmt::Debug {
    /// How many threads may work at once, the calling thread being one of them; at least 1.
    fn concurrency(&self) -> usize;

    /// Has up to `count` (at least 1) other threads than this one call [`Work::participate`], and says how many it will be. Where none of
    /// them is free it may be 0, if the busy ones poll for work again before they rest.
    fn wake(&self, work: &Arc<dyn Work>, count: usize) -> usize;

    /// The device is gone, and with it the work; threads that the executor owns end.
    fn shut_down(&self) {}
}

/// Threads of a [`rayon_core::ThreadPool`].
#[cfg(feature = "rayon")]
#[derive(Debug)]
pub struct RayonExecutor {
    pool: Arc<rayon_core::ThreadPool>,
}

#[cfg(feature = "rayon")]
impl RayonExecutor {
    /// Provides the threads of a pool, which stays the program's for other work.
    #[must_use]
    pub fn new(pool: Arc<rayon_core::ThreadPool>) -> RayonExecutor {
        RayonExecutor { pool }
    }
}

#[cfg(feature = "rayon")]
impl Executor for RayonExecutor {
    fn concurrency(&self) -> usize {
        self.pool.current_num_threads().max(1)
    }

    fn wake(&self, work: &Arc<dyn Work>, count: usize) -> usize {
        for _ in 0..count {
            let work = Arc::clone(work);
            self.pool.spawn(move || {
                // A thread has the same share of every command.
                let index = rayon_core::current_thread_index().and_then(|index| u32::try_from(index + 1).ok());
                set_current_worker(index.unwrap_or(0));
                work.participate(true);
            });
        }
        count
    }
}
