//! Shared objects: fast creation and downcasts.
#![allow(unsafe_code, reason = "memory that is written before it has a value; shares whose type was checked")]

use alloc::sync::Arc;
use core::any::{Any, TypeId};
use core::fmt;

use super::ref_type::RefType;

/// Creates an object in place.
///
/// `Arc::new` creates its value first and then copies it to the heap, in wider pieces than it was just written in: the
/// processor waits until all of it has reached the cache. That is a good part of what a small object costs.
#[inline(always)]
pub fn arc_of<T>(create: impl FnOnce() -> T) -> Arc<T> {
    let place = Arc::<T>::new_uninit();
    // SAFETY: the pointer is that of the only share, created in the line above, and of memory for a `T`, which needs not be
    // dropped before it is written. Then it is a `T`; if `create` panics, it is dropped as memory without a value.
    unsafe {
        Arc::as_ptr(&place).cast_mut().cast::<T>().write(create());
        place.assume_init()
    }
}

/// An object that tells whether it is of a type.
///
/// `Any::type_id` would do. But its result in two registers is stored to be read as one, for which the processor waits
/// until it has reached the cache, and programs pass references all the time.
pub trait Identified: Any {
    /// Whether it is of the type with this identity.
    #[doc(hidden)]
    fn is_of(&self, wanted: &TypeId) -> bool;
}

impl<T: Any> Identified for T {
    #[inline]
    fn is_of(&self, wanted: &TypeId) -> bool {
        *wanted == TypeId::of::<T>()
    }
}

/// An object that VM programs hold by reference.
///
/// Implementors are shared between threads and referenced many times, so they change only through interior mutability.
/// Implement it with [`ref_object!`](crate::ref_object).
pub trait RefObject: Identified + Send + Sync + fmt::Debug {
    /// The object's type.
    fn ref_type(&self) -> RefType;

    /// The bytes that a native function processes at most which works on the whole object: the length of a buffer. Costs of
    /// calls are computed from it. 0 for objects whose size does not matter.
    fn extent(&self) -> u64 {
        0
    }
}

/// True where the object is a `T`.
#[inline(always)]
fn is<T: RefObject>(object: &dyn RefObject) -> bool {
    object.is_of(&TypeId::of::<T>())
}

/// The object as what it is, if that is a `T`.
#[inline(always)]
pub(crate) fn borrow<T: RefObject>(object: &dyn RefObject) -> Option<&T> {
    // SAFETY: the object is a `T`, as `is` has just told: of `is_of` there is one definition, for all types.
    is::<T>(object).then(|| unsafe { &*core::ptr::from_ref(object).cast::<T>() })
}

/// The share of an object as one of its type, or the share itself where it is of another type.
///
/// `Arc::downcast` would do, were there not the name of the other type to tell, which is lost with it: it would have to be
/// asked for its type twice.
#[inline(always)]
pub(crate) fn downcast<T: RefObject>(object: Arc<dyn RefObject>) -> Result<Arc<T>, Arc<dyn RefObject>> {
    if !is::<T>(&*object) {
        return Err(object);
    }
    // SAFETY: the object is a `T`, as `is` has just told, and the pointer is that of its share, which is given up for the
    // one that is created from it.
    Ok(unsafe { Arc::from_raw(Arc::into_raw(object).cast::<T>()) })
}

/// A second share of an object, if it is a `T`, which is not counted: `None` where it is of another type.
///
/// # Safety
/// What is given must not be dropped, and not be used for longer than `object` is borrowed.
#[inline(always)]
pub(super) unsafe fn uncounted_as<T: RefObject>(object: &Arc<dyn RefObject>) -> Option<Arc<T>> {
    // SAFETY: the object is a `T`, as `is` has just told, and the pointer is that of its `Arc`, which is valid as long as that
    // one is.
    is::<T>(&**object).then(|| unsafe { Arc::from_raw(Arc::as_ptr(object).cast::<T>()) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct One(u32);
    crate::ref_object!(One, "test.one");
    #[derive(Debug)]
    struct Other;
    crate::ref_object!(Other, "test.other");

    #[test]
    fn an_object_is_taken_as_what_it_is_and_left_as_it_was_else() {
        let one = Arc::new(One(7));
        let object: Arc<dyn RefObject> = one.clone();
        let object = downcast::<Other>(object).unwrap_err();
        assert_eq!((object.ref_type().name(), Arc::strong_count(&one)), ("test.one", 2));
        let taken = downcast::<One>(object).unwrap();
        assert!(Arc::ptr_eq(&taken, &one) && taken.0 == 7);
        assert!(borrow::<Other>(&*one).is_none() && borrow::<One>(&*one).is_some_and(|one| one.0 == 7));
        drop(one);
        assert_eq!(Arc::strong_count(&taken), 1);
    }

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
