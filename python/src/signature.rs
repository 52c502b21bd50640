//! What functions take and return, as Python sees it.

use incarnate_runtime::session::{self, ValueInfo, ValueType};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dtype;

/// An input or an output of a function.
#[pyclass(frozen, module = "incarnate", name = "ValueInfo")]
pub(crate) struct PyValueInfo(ValueInfo);

#[pymethods]
impl PyValueInfo {
    /// The name in the model; `input0`, `output0` and so on if it has none.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The type as text, such as `tensor<?x4xf32>` or `i64`.
    #[getter]
    fn r#type(&self) -> String {
        self.0.value_type().to_string()
    }

    /// The data type of the elements of a tensor, or of a number; None if it is unknown, and for other references.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let name = match self.0.value_type() {
            ValueType::Tensor { element, .. } => return Ok(Some(dtype::dtype(py, *element)?.clone().into_any())),
            ValueType::Bool => "bool",
            ValueType::I32 => "int32",
            ValueType::I64 => "int64",
            ValueType::F32 => "float32",
            ValueType::F64 => "float64",
            _ => return Ok(None),
        };
        py.import("numpy")?.call_method1("dtype", (name,)).map(Some)
    }

    /// The extents of a tensor, outermost first, None for those that calls decide; `()` for a number; None if it is unknown.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.0.value_type() {
            ValueType::Tensor { shape, .. } => PyTuple::new(py, shape).map(Some),
            ValueType::BufferView | ValueType::Reference(_) => Ok(None),
            _ => Ok(Some(PyTuple::empty(py))),
        }
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __eq__(&self, other: &PyValueInfo) -> bool {
        self.0 == other.0
    }
}

/// The names and types of what a function takes and returns.
#[pyclass(frozen, module = "incarnate", name = "Signature")]
pub(crate) struct PySignature(session::Signature);

impl PySignature {
    pub(crate) fn new(signature: session::Signature) -> PySignature {
        PySignature(signature)
    }
}

#[pymethods]
impl PySignature {
    /// The inputs: a tuple of `ValueInfo`.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        values(py, &self.0.inputs)
    }

    /// The outputs: a tuple of `ValueInfo`.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        values(py, &self.0.outputs)
    }

    fn __repr__(&self) -> String {
        text(&self.0)
    }

    fn __eq__(&self, other: &PySignature) -> bool {
        self.0 == other.0
    }
}

fn values<'py>(py: Python<'py>, values: &[ValueInfo]) -> PyResult<Bound<'py, PyTuple>> {
    let values = values.iter().map(|value| Bound::new(py, PyValueInfo(value.clone())));
    PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
}

/// The text of a signature, such as `(x: tensor<4xf32>) -> (y: tensor<4xf32>)`.
pub(crate) fn text(signature: &session::Signature) -> String {
    let list = |values: &[ValueInfo]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!("({}) -> ({})", list(&signature.inputs), list(&signature.outputs))
}

/// The text of declared extents, such as `(?, 4)`.
pub(crate) fn shape_text(declared: &[Option<u64>]) -> String {
    let extents = declared.iter().map(|extent| extent.map_or("?".to_owned(), |extent| extent.to_string()));
    format!("[{}]", extents.collect::<Vec<_>>().join(", "))
}
