//! Functions of a model.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::callee::Callee;
use crate::module::Module;
use crate::result::Form;
use crate::signature::{self, PySignature};

/// A function of a model: `function(x)`, or with the names of the model `function(image=x)`.
///
/// Arguments are arrays of NumPy, tensors of libraries that have DLPack, or numbers and lists of them, which take the type that the
/// function declares. One result is an array, several are a named tuple.
#[pyclass(frozen, module = "incarnate", weakref)]
pub(crate) struct Function {
    /// The model, which is pickled with the function.
    model: Py<PyAny>,
    module: Arc<Module>,
    callee: Arc<Callee>,
}

impl Function {
    pub(crate) fn new(model: Py<PyAny>, module: Arc<Module>, callee: Arc<Callee>) -> Function {
        Function { model, module, callee }
    }
}

#[pymethods]
impl Function {
    /// The name of the function.
    #[getter]
    fn name(&self) -> &str {
        self.callee.name()
    }

    #[getter]
    fn __name__(&self) -> &str {
        self.callee.name()
    }

    /// The names and types of inputs and outputs.
    #[getter]
    fn signature(&self) -> PySignature {
        PySignature::new(self.callee.signature().clone())
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.callee.call(&self.module, arguments, named, Form::Array)
    }

    /// Calls the function. Tensors among the results stay in the memory of the device: each is a `Tensor`.
    #[pyo3(signature = (*arguments, **named))]
    fn tensors<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.callee.call(&self.module, arguments, named, Form::Tensor)
    }

    /// Calls the function without blocking the event loop: returns a coroutine.
    #[pyo3(signature = (*arguments, **named))]
    fn call_async<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call_async(slf.as_any(), arguments, named)
    }

    /// Pickles the function: its model and its name.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let get = py.import("builtins")?.getattr("getattr")?;
        (get, (self.model.clone_ref(py), self.callee.name())).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        format!("<incarnate.Function {}{}>", self.callee.name(), signature::text(self.callee.signature()))
    }
}

/// Returns the coroutine of a call.
pub(crate) fn call_async<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = callable.py();
    let named = named.cloned().unwrap_or_else(|| PyDict::new(py));
    py.import("incarnate._asynchronous")?.call_method1("call", (callable, arguments, named))
}
