//! Work that does not depend on other work, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls a function with every item, on as many threads as there are cores; on the calling thread alone where the system has no threads.
pub(crate) fn for_each<T: Sync>(items: &[T], function: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            function(item);
        }
    };
    match std::thread::available_parallelism() {
        Ok(cores) if cores.get() > 1 => std::thread::scope(|scope| {
            for _ in 0..cores.get() {
                scope.spawn(work);
            }
        }),
        _ => work(),
    }
}
