//! The process that an object belongs to: a child of `fork` has none of the threads of its parent's devices.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::fork;

/// The process that created an object.
pub(super) struct Process(u32);

impl Process {
    /// The process that runs.
    pub(super) fn current() -> Process {
        Process(fork::generation())
    }

    fn is_current(&self) -> bool {
        self.0 == fork::generation()
    }

    /// Raises an exception in a child of the process.
    pub(super) fn check(&self, what: &str) -> PyResult<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "{what} belongs to the process that forked this one: create it again in this process"
        )))
    }

    /// Keeps an object for ever in a child of the process, where its last share would wait for threads that do not exist.
    pub(super) fn keep_in_children<T: ?Sized>(&self, object: &Arc<T>) {
        if !self.is_current() {
            std::mem::forget(Arc::clone(object));
        }
    }
}
