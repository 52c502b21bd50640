//! Atomics, locks and threads: the standard library's, or loom's where the executor is model-checked (`--cfg loom`).

#[cfg(loom)]
pub(super) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Mutex, MutexGuard},
};
#[cfg(not(loom))]
pub(super) use {
    alloc::sync::Arc,
    core::hint::spin_loop,
    core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    std::sync::{Mutex, MutexGuard},
};

/// Locks a mutex whose every change is complete before anything can panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
