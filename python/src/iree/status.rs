//! Errors as the exceptions that scripts written for `iree.runtime` catch.

use incarnate_runtime::{Error, StatusCode};
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Converts an error to an exception, whose text begins with the operation that failed. The exception has the attributes `code`,
/// `message` and `locations`, as `incarnate.Error` has.
#[cold]
pub(super) fn exception(py: Python<'_>, operation: &str, error: &Error) -> PyErr {
    let text = if operation.is_empty() { error.to_string() } else { format!("{operation}: {error}") };
    let exception = match error.code() {
        StatusCode::InvalidArgument | StatusCode::NotFound => PyValueError::new_err(text),
        StatusCode::OutOfRange => PyIndexError::new_err(text),
        StatusCode::Unimplemented => PyNotImplementedError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    };
    let describe = || -> PyResult<()> {
        let value = exception.value(py);
        value.setattr("code", error.code().name())?;
        value.setattr("message", error.message())?;
        value.setattr("locations", PyTuple::new(py, error.locations().iter().map(ToString::to_string))?)
    };
    describe().map_or_else(|error| error, |()| exception.clone_ref(py))
}

/// Results of the runtime as those of Python.
pub(super) trait OrRaise<T> {
    /// Converts an error to an exception.
    fn or_raise(self, py: Python<'_>, operation: &str) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    #[inline]
    fn or_raise(self, py: Python<'_>, operation: &str) -> PyResult<T> {
        self.map_err(|error| exception(py, operation, &error))
    }
}

/// Converts an exception to the error with which a call from the runtime into Python fails.
pub(super) fn error_of(py: Python<'_>, operation: &str, raised: &PyErr) -> Error {
    let kind = raised.get_type(py).name().map_or_else(|_| String::from("exception"), |name| name.to_string());
    let text = raised.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
    Error::new(StatusCode::Unknown, format!("{operation}: {kind}: {text}"))
}

/// Runs a closure with the interpreter attached.
///
/// # Errors
/// UNAVAILABLE where the interpreter is shutting down.
pub(super) fn with_python<R>(body: impl FnOnce(Python<'_>) -> Result<R, Error>) -> Result<R, Error> {
    let attached = Python::try_attach(body);
    attached.unwrap_or_else(|| Err(Error::unavailable("the Python interpreter is shutting down")))
}
