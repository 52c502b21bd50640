//! Shared objects that are made where they stay.
//!
//! `Arc::new` makes its value first and copies it to the heap then, in wider pieces than it was just written in: the
//! processor waits until all of it has reached the cache. That is a good part of what a small object costs.
#![allow(unsafe_code, reason = "memory that is written before it has a value")]

use alloc::sync::Arc;

/// An object that the closure makes.
#[inline(always)]
pub(crate) fn arc_of<T>(make: impl FnOnce() -> T) -> Arc<T> {
    let place = Arc::<T>::new_uninit();
    // SAFETY: the pointer is that of the only share, made in the line above, and of memory for a `T`, which needs not be
    // dropped before it is written. Then it is a `T`; if `make` panics, it is dropped as memory without a value.
    unsafe {
        Arc::as_ptr(&place).cast_mut().cast::<T>().write(make());
        place.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_what_was_made_and_is_dropped_once() {
        let dropped = Arc::new(());
        let object = arc_of(|| (7u64, [1u8; 100], Arc::clone(&dropped)));
        assert_eq!((object.0, object.1[99], Arc::strong_count(&dropped)), (7, 1, 2));
        assert_eq!((Arc::strong_count(&object), Arc::weak_count(&object)), (1, 0));
        let other = Arc::clone(&object);
        drop(object);
        assert_eq!(Arc::strong_count(&dropped), 2);
        drop(other);
        assert_eq!(Arc::strong_count(&dropped), 1);
    }

    #[test]
    #[cfg(feature = "std")]
    #[allow(clippy::panic, reason = "a test of it")]
    fn a_panic_drops_nothing_that_was_not_made() {
        let make = || arc_of(|| -> alloc::string::String { panic!("of a test") });
        assert!(std::panic::catch_unwind(make).is_err());
    }
}
