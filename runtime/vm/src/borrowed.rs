//! Borrowed references: they do not change reference counts.
//!
//! Counting is an atomic read-modify-write for each clone and drop, which dominates small calls. Code that only reads an
//! object while an `Arc` of it is borrowed needs no count.
#![allow(unsafe_code, reason = "references that are not counted")]

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use super::buffer::Buffer;
use super::reference::{Ref, TypedRefObject, wrong_type};
use super::shared::uncounted_as;
use crate::Result;

/// A [`Ref`] to an object of an `Arc` that is borrowed for `'a`. A clone is counted.
pub struct BorrowedRef<'a> {
    /// Of the same object as the `Arc`, and not counted: never dropped, moved out or changed.
    reference: ManuallyDrop<Ref>,
    keeper: PhantomData<&'a Ref>,
}

/// Returns a second `Arc` that is not counted. It must be put into a `BorrowedRef` of the borrow's lifetime.
#[inline(always)]
fn uncounted<T>(object: &Arc<T>) -> Arc<T> {
    // SAFETY: the pointer is that of an `Arc` of the same type, and is valid as long as that one is. The functions of
    // `BorrowedRef`, the only callers, put it into a `ManuallyDrop`, so that the count remains right, and for no longer than
    // the `Arc` is borrowed: until then the `Arc` cannot be dropped, moved or borrowed mutably (`Arc::get_mut`).
    unsafe { Arc::from_raw(Arc::as_ptr(object)) }
}

impl<'a> BorrowedRef<'a> {
    /// Borrows an object.
    #[inline(always)]
    #[must_use]
    pub fn object<T: TypedRefObject>(object: &'a Arc<T>) -> BorrowedRef<'a> {
        let object: Arc<T> = uncounted(object);
        BorrowedRef { reference: ManuallyDrop::new(Ref::Object(object)), keeper: PhantomData }
    }

    /// Borrows a byte buffer.
    #[inline(always)]
    #[must_use]
    pub fn buffer(buffer: &'a Arc<Buffer>) -> BorrowedRef<'a> {
        BorrowedRef { reference: ManuallyDrop::new(Ref::Buffer(uncounted(buffer))), keeper: PhantomData }
    }
}

impl Deref for BorrowedRef<'_> {
    type Target = Ref;
    #[inline(always)]
    fn deref(&self) -> &Ref {
        &self.reference
    }
}

impl fmt::Debug for BorrowedRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// An `Arc` that is owned, or borrowed for `'a` without being counted; like [`Cow`](alloc::borrow::Cow).
pub struct MaybeOwned<'a, T> {
    /// Where it is not owned: not counted, and never dropped, moved out or changed.
    object: ManuallyDrop<Arc<T>>,
    is_owned: bool,
    keeper: PhantomData<&'a Ref>,
}

impl<'a, T: TypedRefObject> MaybeOwned<'a, T> {
    /// Borrows the object of a reference.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is null or of another type.
    #[inline(always)]
    pub fn borrowed(reference: &'a Ref) -> Result<MaybeOwned<'a, T>> {
        let object = match reference {
            // SAFETY: it is put into a `ManuallyDrop`, for no longer than the reference is borrowed.
            Ref::Object(object) => unsafe { uncounted_as(object) },
            _ => None,
        };
        match object.map(ManuallyDrop::new) {
            Some(object) => Ok(MaybeOwned { object, is_owned: false, keeper: PhantomData }),
            None => Err(wrong_type(T::TYPE, reference)),
        }
    }
}

impl<T> MaybeOwned<'_, T> {
    /// Returns the `Arc` if it is owned, or else a clone.
    #[inline]
    #[must_use]
    pub fn into_arc(self) -> Arc<T> {
        if !self.is_owned {
            return Arc::clone(&self);
        }
        let mut owned = ManuallyDrop::new(self);
        // SAFETY: the `Arc` was passed to `from` and is counted; `owned` is neither used nor dropped after this.
        unsafe { ManuallyDrop::take(&mut owned.object) }
    }

    /// Returns an owned clone.
    #[must_use]
    pub fn owned(&self) -> MaybeOwned<'static, T> {
        MaybeOwned::from(Arc::clone(self))
    }
}

impl<T> From<Arc<T>> for MaybeOwned<'_, T> {
    #[inline]
    fn from(object: Arc<T>) -> Self {
        MaybeOwned { object: ManuallyDrop::new(object), is_owned: true, keeper: PhantomData }
    }
}

impl<T> Deref for MaybeOwned<'_, T> {
    type Target = Arc<T>;
    #[inline(always)]
    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}

impl<T> Drop for MaybeOwned<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: the `Arc` was passed to `from` and is counted; the field is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.object) }
        }
    }
}

impl<T> Clone for MaybeOwned<'_, T> {
    fn clone(&self) -> Self {
        self.owned()
    }
}

impl<T: fmt::Debug> fmt::Debug for MaybeOwned<'_, T> {
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
    fn borrows_are_not_counted_and_clones_are() {
        let thing = Arc::new(Thing(7));
        let borrowed = BorrowedRef::object(&thing);
        assert_eq!((Arc::strong_count(&thing), borrowed.get::<Thing>().unwrap().0), (1, 7));
        let kept: Ref = borrowed.clone();
        assert!(kept.same(&borrowed));
        assert_eq!(Arc::strong_count(&thing), 2);
        drop(thing);
        assert_eq!(kept.get::<Thing>().unwrap().0, 7);
        let mut thing = kept.to::<Thing>().unwrap();
        drop(kept);
        assert!(Arc::get_mut(&mut thing).is_some());
    }

    #[test]
    fn maybe_owned_objects_are_counted_if_they_are_owned() {
        let reference = Ref::from(Arc::new(Thing(7)));
        let count = || Arc::strong_count(&reference.to::<Thing>().unwrap()) - 1;
        let borrowed = MaybeOwned::<Thing>::borrowed(&reference).unwrap();
        assert_eq!((borrowed.0, count()), (7, 1));
        let owned = borrowed.owned();
        assert_eq!((owned.0, count()), (7, 2));
        drop(borrowed);
        assert_eq!(count(), 2);
        drop((owned.clone(), owned));
        assert_eq!(count(), 1);
        let buffer = Ref::from(Buffer::zeroed(16, 0, None).unwrap());
        assert!(MaybeOwned::<Thing>::borrowed(&buffer).is_err() && MaybeOwned::<Thing>::borrowed(&Ref::Null).is_err());
    }

    #[test]
    fn buffers_are_borrowed_as_buffers() {
        let mut buffer = Buffer::zeroed(16, 0, None).unwrap();
        let length = |borrowed: BorrowedRef<'_>| borrowed.buffer().unwrap().length();
        assert_eq!(length(BorrowedRef::buffer(&buffer)), 16);
        assert!(BorrowedRef::buffer(&buffer).list().is_err());
        assert!(Arc::get_mut(&mut buffer).is_some());
    }
}
