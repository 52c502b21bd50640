//! A cell that threads share, which is loom's under `--cfg loom`.

#[cfg(loom)]
pub use loom::cell::UnsafeCell as SharedCell;

/// An `UnsafeCell` with the interface of loom's, which checks every access.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct SharedCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> SharedCell<T> {
    pub const fn new(contents: T) -> SharedCell<T> {
        SharedCell(core::cell::UnsafeCell::new(contents))
    }

    /// Calls `read` with the address of the contents.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with the address of the contents.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
