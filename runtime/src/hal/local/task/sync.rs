//! Padding to cache lines.

/// Something in cache lines of its own, so that writing it disturbs nobody who reads what is beside it. Two lines, for
/// processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

impl<T> core::ops::Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
