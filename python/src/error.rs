//! Errors of the runtime as Python exceptions: one class for each group of status codes, all below `incarnate.Error`.

use incarnate_runtime::{Error, StatusCode};
use pyo3::exceptions::{
    PyException, PyIndexError, PyLookupError, PyMemoryError, PyNotImplementedError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

/// An exception class: its name, the built-in class that it also is, and the status codes.
type Class = (&'static str, fn(Python<'_>) -> Bound<'_, PyType>, &'static [StatusCode]);

/// The exception classes below [`Classes::base`].
const CLASSES: &[Class] = &[
    ("InvalidArgumentError", |py| py.get_type::<PyValueError>(), &[StatusCode::InvalidArgument]),
    ("OutOfRangeError", |py| py.get_type::<PyIndexError>(), &[StatusCode::OutOfRange]),
    ("NotFoundError", |py| py.get_type::<PyLookupError>(), &[StatusCode::NotFound]),
    ("ResourceExhaustedError", |py| py.get_type::<PyMemoryError>(), &[StatusCode::ResourceExhausted]),
    ("DeadlineExceededError", |py| py.get_type::<PyTimeoutError>(), &[StatusCode::DeadlineExceeded]),
    ("UnimplementedError", |py| py.get_type::<PyNotImplementedError>(), &[StatusCode::Unimplemented]),
    ("IncompatibleError", |py| py.get_type::<PyException>(), &[StatusCode::Incompatible]),
    ("PermissionDeniedError", |py| py.get_type::<PyException>(), &[StatusCode::PermissionDenied]),
];

struct Classes {
    base: Py<PyType>,
    /// In the order of [`CLASSES`].
    derived: Vec<Py<PyType>>,
}

static OF_THIS_PROCESS: PyOnceLock<Classes> = PyOnceLock::new();

impl Classes {
    fn create(py: Python<'_>) -> PyResult<Classes> {
        let create = |name: &str, bases: Bound<'_, PyTuple>, doc: &str| -> PyResult<Py<PyType>> {
            let namespace = PyDict::new(py);
            namespace.set_item("__module__", "incarnate")?;
            namespace.set_item("__doc__", doc)?;
            Ok(py.get_type::<PyType>().call1((name, bases, namespace))?.cast_into::<PyType>()?.unbind())
        };
        let doc = "An operation failed. `code` is the status code, such as INVALID_ARGUMENT; `message` says what is wrong; \
                   `locations` are the functions of the module that were running, innermost first.";
        let base = create("Error", PyTuple::new(py, [py.get_type::<PyException>()])?, doc)?;
        let derived = CLASSES.iter().map(|(name, builtin, codes)| {
            let names: Vec<_> = codes.iter().map(|code| code.name()).collect();
            let builtin = builtin(py);
            let mut bases = vec![base.bind(py).clone()];
            if !builtin.is(py.get_type::<PyException>()) {
                bases.push(builtin);
            }
            create(
                name,
                PyTuple::new(py, bases)?,
                &format!("An operation failed with the status {}.", names.join(", ")),
            )
        });
        let derived = derived.collect::<PyResult<_>>()?;
        Ok(Classes { base, derived })
    }

    fn get(py: Python<'_>) -> PyResult<&'static Classes> {
        OF_THIS_PROCESS.get_or_try_init(py, || Classes::create(py))
    }

    fn class(&self, code: StatusCode) -> &Py<PyType> {
        let position = CLASSES.iter().position(|(_, _, codes)| codes.contains(&code));
        position.and_then(|position| self.derived.get(position)).unwrap_or(&self.base)
    }
}

/// Adds the exception classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let classes = Classes::get(module.py())?;
    module.add("Error", classes.base.clone_ref(module.py()))?;
    for ((name, ..), class) in CLASSES.iter().zip(&classes.derived) {
        module.add(*name, class.clone_ref(module.py()))?;
    }
    Ok(())
}

/// Converts an error of the runtime to the exception that is raised.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let create = || -> PyResult<Bound<'_, PyAny>> {
        let value = Classes::get(py)?.class(error.code()).bind(py).call1((error.to_string(),))?;
        value.setattr("code", error.code().name())?;
        value.setattr("message", error.message())?;
        let locations: Vec<String> = error.locations().iter().map(ToString::to_string).collect();
        value.setattr("locations", PyTuple::new(py, locations)?)?;
        Ok(value)
    };
    create().map_or_else(|error| error, PyErr::from_value)
}

/// Results of the runtime as those of Python.
pub(crate) trait OrRaise<T> {
    /// Converts an error to an exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

/// Creates an exception for an argument that does not fit.
#[cold]
pub(crate) fn invalid_argument(py: Python<'_>, message: String) -> PyErr {
    exception(py, &Error::invalid_argument(message))
}

/// Creates an exception for a lack of memory.
#[cold]
pub(crate) fn resource_exhausted(py: Python<'_>, message: String) -> PyErr {
    exception(py, &Error::resource_exhausted(message))
}

/// Creates an exception for what this package cannot do.
#[cold]
pub(crate) fn unimplemented(py: Python<'_>, message: String) -> PyErr {
    exception(py, &Error::unimplemented(message))
}
