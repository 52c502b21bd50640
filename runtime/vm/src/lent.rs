//! References to objects where somebody keeps them, without being counted.
//!
//! Counting is an atomic read-modify-write for each reference that is made or dropped, which is a good part of a small
//! call. What looks at an object only, while an `Arc` of it is borrowed, does without.
#![allow(unsafe_code, reason = "shares of objects that are not counted")]

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use super::buffer::Buffer;
use super::reference::{Ref, TypedRefObject, wrong_type};
use super::shared::uncounted_as;
use crate::Result;

/// A [`Ref`] to an object that an `Arc` elsewhere keeps as long as `'a`. It can be looked at and cloned, which counts the
/// clone.
pub struct LentRef<'a> {
    /// Of the same object as the `Arc`, and not counted: never dropped, moved out or changed.
    reference: ManuallyDrop<Ref>,
    keeper: PhantomData<&'a Ref>,
}

/// A second share of an object, which is not counted and must go into a `LentRef` of the borrow's lifetime.
#[inline(always)]
fn uncounted<T>(object: &Arc<T>) -> Arc<T> {
    // SAFETY: the pointer is that of an `Arc` of the same type, and is valid as long as that one is. The functions of
    // `LentRef`, which alone call this, put what is made of it where it is never dropped, so that the count stays that of the
    // shares that are, and for no longer than the `Arc` is borrowed: nobody can drop it, move it or take it for the only
    // one (`Arc::get_mut`) meanwhile.
    unsafe { Arc::from_raw(Arc::as_ptr(object)) }
}

impl<'a> LentRef<'a> {
    /// A reference to an object.
    #[inline(always)]
    #[must_use]
    pub fn object<T: TypedRefObject>(object: &'a Arc<T>) -> LentRef<'a> {
        let object: Arc<T> = uncounted(object);
        LentRef { reference: ManuallyDrop::new(Ref::Object(object)), keeper: PhantomData }
    }

    /// A reference to a byte buffer.
    #[inline(always)]
    #[must_use]
    pub fn buffer(buffer: &'a Arc<Buffer>) -> LentRef<'a> {
        LentRef { reference: ManuallyDrop::new(Ref::Buffer(uncounted(buffer))), keeper: PhantomData }
    }
}

impl Deref for LentRef<'_> {
    type Target = Ref;
    #[inline(always)]
    fn deref(&self) -> &Ref {
        &self.reference
    }
}

impl fmt::Debug for LentRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A share of an object: one of its own, or that of somebody who keeps it as long as `'a`. Cloning the [`Arc`] that it is
/// counts the clone.
pub struct Held<'a, T> {
    /// Not counted, and never dropped, moved out or changed, unless it is the own one.
    object: ManuallyDrop<Arc<T>>,
    is_own: bool,
    keeper: PhantomData<&'a Ref>,
}

impl<'a, T: TypedRefObject> Held<'a, T> {
    /// The object of a reference.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is null or of another type.
    #[inline(always)]
    pub fn lent(reference: &'a Ref) -> Result<Held<'a, T>> {
        let object = match reference {
            // SAFETY: it goes to where it is never dropped, and for no longer than the reference is borrowed.
            Ref::Object(object) => unsafe { uncounted_as(object) },
            _ => None,
        };
        match object.map(ManuallyDrop::new) {
            Some(object) => Ok(Held { object, is_own: false, keeper: PhantomData }),
            None => Err(wrong_type(T::TYPE, reference)),
        }
    }
}

impl<T> Held<'_, T> {
    /// A share of its own, as long as anybody wants.
    #[must_use]
    pub fn to_own(&self) -> Held<'static, T> {
        Held::from(Arc::clone(self))
    }
}

impl<T> From<Arc<T>> for Held<'_, T> {
    #[inline]
    fn from(object: Arc<T>) -> Self {
        Held { object: ManuallyDrop::new(object), is_own: true, keeper: PhantomData }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = Arc<T>;
    #[inline(always)]
    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: the share was given to `from` and is counted; nobody uses the field after this.
            unsafe { ManuallyDrop::drop(&mut self.object) }
        }
    }
}

impl<T> Clone for Held<'_, T> {
    fn clone(&self) -> Self {
        self.to_own()
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Thing(u32);
    crate::ref_object!(Thing, "test.thing");

    #[test]
    fn lending_counts_nothing_and_clones_count() {
        let thing = Arc::new(Thing(7));
        let lent = LentRef::object(&thing);
        assert_eq!((Arc::strong_count(&thing), lent.get::<Thing>().unwrap().0), (1, 7));
        let kept: Ref = lent.clone();
        assert!(kept.same(&lent));
        assert_eq!(Arc::strong_count(&thing), 2);
        drop(thing);
        assert_eq!(kept.get::<Thing>().unwrap().0, 7);
        let mut thing = kept.to::<Thing>().unwrap();
        drop(kept);
        assert!(Arc::get_mut(&mut thing).is_some());
    }

    #[test]
    fn held_objects_are_counted_if_they_are_own() {
        let reference = Ref::from(Arc::new(Thing(7)));
        let count = || Arc::strong_count(&reference.to::<Thing>().unwrap()) - 1;
        let lent = Held::<Thing>::lent(&reference).unwrap();
        assert_eq!((lent.0, count()), (7, 1));
        let own = lent.to_own();
        assert_eq!((own.0, count()), (7, 2));
        drop(lent);
        assert_eq!(count(), 2);
        drop((own.clone(), own));
        assert_eq!(count(), 1);
        let buffer = Ref::from(Buffer::zeroed(16, 0, None).unwrap());
        assert!(Held::<Thing>::lent(&buffer).is_err() && Held::<Thing>::lent(&Ref::Null).is_err());
    }

    #[test]
    fn buffers_are_lent_as_buffers() {
        let mut buffer = Buffer::zeroed(16, 0, None).unwrap();
        let length = |lent: LentRef<'_>| lent.buffer().unwrap().length();
        assert_eq!(length(LentRef::buffer(&buffer)), 16);
        assert!(LentRef::buffer(&buffer).list().is_err());
        assert!(Arc::get_mut(&mut buffer).is_some());
    }
}
