//! Signals during calls: `KeyboardInterrupt` ends a call between two workgroups.
//!
//! Python's signal handlers run on its main thread, between two of its instructions. A call of a model is one instruction. So the thread
//! that called handles signals itself, some times in a second, where the runtime asks whether the call goes on.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use incarnate_runtime::vm::Interrupt;
use incarnate_runtime::{Error, Result, StatusCode};
use pyo3::prelude::*;

/// How often a call handles signals: a person does not notice a twentieth of a second.
const PERIOD: Duration = Duration::from_millis(50);

thread_local! {
    /// When the call of this thread handles signals next; None if the thread does not run a call of Python.
    static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };
    /// What a signal handler raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

#[derive(Debug)]
struct Signals;

impl Interrupt for Signals {
    fn check(&self) -> Result<()> {
        // Workers of a device have no signals to handle.
        let Some(next) = NEXT.get() else { return Ok(()) };
        let now = Instant::now();
        if now < next {
            return Ok(());
        }
        NEXT.set(Some(now + PERIOD));
        Python::attach(|py| py.check_signals()).map_err(|raised| {
            RAISED.set(Some(raised));
            Error::new(StatusCode::Cancelled, "a signal handler raised an exception")
        })
    }
}

/// The interrupt of all calls.
pub(crate) fn signals() -> Arc<dyn Interrupt> {
    Arc::new(Signals)
}

/// Runs a call without the interpreter's lock. Signals are handled meanwhile.
///
/// # Errors
/// What a signal handler raised, or else the error of the call.
pub(crate) fn detached<T: Send>(py: Python<'_>, call: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let outer = NEXT.replace(Some(Instant::now() + PERIOD));
    let result = py.detach(call);
    NEXT.set(outer);
    result.map_err(|error| match RAISED.take() {
        Some(raised) if error.code() == StatusCode::Cancelled => raised,
        _ => crate::error::exception(py, &error),
    })
}
