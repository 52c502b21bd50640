//! Memory that participants share: a cell, which is loom's under `--cfg loom`, and padding to cache lines.

#[cfg(loom)]
pub(super) use loom::cell::UnsafeCell as SharedCell;

/// An `UnsafeCell` with the interface of loom's, which checks every access.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(super) struct SharedCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> SharedCell<T> {
    pub(super) fn new(contents: T) -> SharedCell<T> {
        SharedCell(core::cell::UnsafeCell::new(contents))
    }

    /// Calls `read` with the address of the contents.
    #[inline]
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with the address of the contents.
    #[inline]
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// A value padded to two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);

impl<T> core::ops::Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
