//! The lock of this crate: the standard one, or a spinning one without `std`. Poisoning is ignored, as nothing behind
//! these locks is left half-changed by a panic.

#[cfg(not(feature = "std"))]
use spin::{Mutex as Inner, MutexGuard as InnerGuard};
#[cfg(feature = "std")]
use std::sync::{Mutex as Inner, MutexGuard as InnerGuard};

/// Mutual exclusion around a value.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Inner<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock(Inner::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> InnerGuard<'_, T> {
        #[cfg(feature = "std")]
        return self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(not(feature = "std"))]
        return self.0.lock();
    }
}
