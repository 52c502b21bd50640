//! The standard library's atomics and locks with a delay before and after each operation.
#![allow(dead_code, reason = "the same operations for each type")]

use core::sync::atomic as std_atomic;
use std::sync::LockResult;

pub use core::sync::atomic::Ordering;
pub use std::sync::{Condvar, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use super::perturb::point;

/// Calls something between two delays.
#[inline]
fn between<R>(operation: impl FnOnce() -> R) -> R {
    point();
    let result = operation();
    point();
    result
}

macro_rules! atomic {
    ($name:ident of $value:ty $(, $arithmetic:ident)*) => {
        #[derive(Debug, Default)]
        pub struct $name(std_atomic::$name);

        impl $name {
            pub const fn new(value: $value) -> $name {
                $name(std_atomic::$name::new(value))
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                between(|| self.0.load(order))
            }

            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                between(|| self.0.store(value, order));
            }

            #[inline]
            pub fn compare_exchange(
                &self,
                present: $value,
                next: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                between(|| self.0.compare_exchange(present, next, success, failure))
            }

            #[inline]
            pub fn compare_exchange_weak(
                &self,
                present: $value,
                next: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                between(|| self.0.compare_exchange_weak(present, next, success, failure))
            }

            atomic!(@ $value, swap, fetch_and, fetch_or, fetch_xor $(, $arithmetic)*);
        }
    };
    (@ $value:ty $(, $operation:ident)*) => {
        $(
            #[inline]
            pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                between(|| self.0.$operation(value, order))
            }
        )*
    };
}

atomic!(AtomicBool of bool);
atomic!(AtomicU8 of u8, fetch_add, fetch_sub, fetch_max, fetch_min);
atomic!(AtomicU32 of u32, fetch_add, fetch_sub, fetch_max, fetch_min);
atomic!(AtomicU64 of u64, fetch_add, fetch_sub, fetch_max, fetch_min);
atomic!(AtomicUsize of usize, fetch_add, fetch_sub, fetch_max, fetch_min);

pub fn fence(order: Ordering) {
    between(|| std_atomic::fence(order));
}

pub fn spin_loop() {
    core::hint::spin_loop();
}

pub fn yield_now() {
    std::thread::yield_now();
}

/// A mutex with delays around locking it.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        between(|| self.0.lock())
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

/// A lock for one writer or many readers with delays around locking it.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        between(|| self.0.read())
    }

    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        between(|| self.0.write())
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}
