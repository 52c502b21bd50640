//! What the backend of a device keeps with an object.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use std::sync::OnceLock;

/// A value of a type that only the backend knows, created at its first use.
#[derive(Default)]
pub(super) struct BackendData(OnceLock<Box<dyn Any + Send + Sync>>);

impl BackendData {
    /// Returns the value, which `init` creates at first; `None` if another backend keeps a value of another type.
    #[inline]
    pub(super) fn get_or_init<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init(|| Box::new(init())).downcast_ref()
    }
}

impl fmt::Debug for BackendData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackendData")
    }
}
