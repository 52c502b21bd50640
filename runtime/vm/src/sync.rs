//! The lock of this crate: the standard one, or a spinning one without `std`. Poisoning is ignored, as nothing behind
//! these locks is left half-changed by a panic.

use crate::Result;

#[cfg(target_has_atomic = "64")]
pub use core::sync::atomic::AtomicU64;
/// Behind a lock: the processor has no atomic operations on 64 bits.
#[cfg(not(target_has_atomic = "64"))]
pub use portable_atomic::AtomicU64;

#[cfg(not(feature = "std"))]
use spin::{Mutex as Inner, MutexGuard as InnerGuard};
#[cfg(feature = "std")]
use std::sync::{Mutex as Inner, MutexGuard as InnerGuard};

/// Mutual exclusion around a value.
#[derive(Debug, Default)]
pub struct Lock<T>(Inner<T>);

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock(Inner::new(value))
    }

    #[inline]
    pub fn lock(&self) -> InnerGuard<'_, T> {
        #[cfg(feature = "std")]
        return self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(not(feature = "std"))]
        return self.0.lock();
    }

    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(feature = "std")]
        return self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(not(feature = "std"))]
        return self.0.get_mut();
    }
}

/// A value for one user at a time; a caller that finds it taken does something else instead of waiting. It is given back by a
/// store, where the lock above needs a second read-modify-write.
#[derive(Debug, Default)]
pub struct TryLock<T>(spin::Mutex<Slot<T>>);

#[derive(Debug, Default)]
struct Slot<T> {
    value: T,
    /// Another thread holds it, or panicked while it held it.
    taken: bool,
}

impl<T> TryLock<T> {
    pub const fn new(value: T) -> TryLock<T> {
        TryLock(spin::Mutex::new(Slot { value, taken: false }))
    }

    /// The value, unless another thread holds it, or panicked while it held it.
    #[inline(always)]
    pub fn take(&self) -> Option<Taken<'_, T>> {
        let mut slot = self.0.try_lock()?;
        if slot.taken {
            return None;
        }
        slot.taken = true;
        Some(Taken(slot))
    }

    /// Runs the closure with the value; returns the closure if the value is taken, or was lost in a panic.
    #[inline(always)]
    pub fn with<R, F: FnOnce(&mut T) -> R>(&self, body: F) -> core::result::Result<R, F> {
        let Some(mut taken) = self.take() else { return Err(body) };
        let result = body(taken.value());
        taken.give_back();
        Ok(result)
    }

    /// Runs the closure with the value, even if it has to wait: for what is rare, as waiting is spinning.
    pub fn wait_with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.lock().value)
    }
}

/// The value of a [`TryLock`]. After a drop without giving it back, as in a panic, no caller gets it any more.
#[derive(Debug)]
pub struct Taken<'a, T>(spin::MutexGuard<'a, Slot<T>>);

impl<T> Taken<'_, T> {
    #[inline(always)]
    pub fn value(&mut self) -> &mut T {
        &mut self.0.value
    }

    #[inline(always)]
    pub fn give_back(mut self) {
        self.0.taken = false;
    }
}

/// A value that is created once, on first use.
#[derive(Debug)]
pub struct Once<T>(OnceInner<T>);

#[cfg(not(feature = "std"))]
use spin::Once as OnceInner;
#[cfg(feature = "std")]
use std::sync::OnceLock as OnceInner;

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once(OnceInner::new())
    }
}

impl<T> Once<T> {
    /// Returns the value, if it exists.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// The value, to the only holder.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut()
    }

    /// Returns the value, created by the closure if it does not exist. Of racing threads, one's value stays.
    #[cold]
    pub fn get_or_try_init(&self, create: impl FnOnce() -> Result<T>) -> Result<&T> {
        let value = create()?;
        #[cfg(feature = "std")]
        return Ok(self.0.get_or_init(|| value));
        #[cfg(not(feature = "std"))]
        return Ok(self.0.call_once(|| value));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let lock = TryLock::new(1);
        let nested = lock.with(|value| {
            *value += 1;
            lock.with(|value| *value).is_err()
        });
        assert!(nested.is_ok_and(|refused| refused));
        assert!(lock.with(|value| *value).is_ok_and(|value| value == 2));
    }

    #[test]
    #[cfg(feature = "std")]
    fn what_a_panic_left_is_nobodys() {
        let lock = TryLock::new(1);
        let body = std::panic::AssertUnwindSafe(|| lock.with(|_| panic!("of a test")).is_ok());
        assert!(std::panic::catch_unwind(body).is_err());
        assert!(lock.with(|_| ()).is_err());
        assert_eq!(lock.wait_with(|value| *value), 1);
    }
}
