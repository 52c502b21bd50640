//! The atomics and locks of code that several threads run.
//!
//! They are the standard library's. Under `--cfg loom` they are loom's, which checks every interleaving of a model; under
//! `--cfg perturb` each operation may be delayed by a random time, so that a stress test reaches interleavings that are
//! rare otherwise. Code that takes them from here is checked as it runs.
#![allow(unused_imports, reason = "builds without std use a part of it")]

mod cell;
#[cfg(perturb)]
mod perturb;
#[cfg(perturb)]
mod perturbed;

pub use cell::SharedCell;

#[cfg(not(any(loom, perturb)))]
pub use core::hint::spin_loop;
#[cfg(not(any(loom, perturb)))]
pub use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(not(any(loom, perturb)))]
pub use incarnate_vm::AtomicU64;
#[cfg(all(feature = "std", not(any(loom, perturb))))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(all(feature = "std", not(any(loom, perturb))))]
pub use std::thread::yield_now;

#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(loom)]
pub use loom::thread::yield_now;

#[cfg(perturb)]
pub use perturbed::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, RwLock,
    RwLockReadGuard, RwLockWriteGuard, fence, spin_loop, yield_now,
};
