//! Values that belong to the process that created them.
//!
//! A child of `fork` has the memory of its parent, but not its threads. A device whose workers are gone waits for ever, and a lock that
//! another thread held stays locked. So a child does not touch what its parent created: it creates its own at the first use.

use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

/// The number of forks between the process that imported the module and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts a fork. Python calls it in the child, before any other thread exists.
#[pyfunction]
fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Has Python call [`after_fork`] in each child.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let os = py.import("os")?;
    // Windows has no fork.
    let Ok(register) = os.getattr("register_at_fork") else { return Ok(()) };
    let arguments = pyo3::types::PyDict::new(py);
    arguments.set_item("after_in_child", wrap_pyfunction!(after_fork, module)?)?;
    register.call((), Some(&arguments))?;
    Ok(())
}

/// A value of this process, and of its parents before it. Those of the parents are never dropped in a child.
pub(crate) struct PerProcess<T> {
    generation: u32,
    value: ManuallyDrop<T>,
    next: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    /// Wraps a value that this process has created.
    pub(crate) fn new(value: T) -> PerProcess<T> {
        PerProcess {
            generation: GENERATION.load(Ordering::Relaxed),
            value: ManuallyDrop::new(value),
            next: OnceLock::new(),
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }

    /// Returns the value of this process, which `create` creates at the first use in a child. Two threads may create one at the same
    /// time; one of the values is dropped.
    #[inline]
    pub(crate) fn get_or_try_create<E>(&self, create: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if self.is_of_this_process() {
            return Ok(&self.value);
        }
        match self.next.get() {
            Some(next) => next.get_or_try_create(create),
            None => {
                let value = create()?;
                let next = self.next.get_or_init(|| Box::new(PerProcess::new(value)));
                Ok(&next.value)
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            // SAFETY: the value is not used any more.
            #[allow(unsafe_code, reason = "a value that is dropped in its own process only")]
            unsafe {
                ManuallyDrop::drop(&mut self.value);
            }
        }
    }
}
