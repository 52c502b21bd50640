//! Results of functions as objects of Python.

use std::sync::Arc;

use incarnate_runtime::bytecode::identifiers;
use incarnate_runtime::hal::BufferView;
use incarnate_runtime::session::{FromValue, ValueInfo, ValueType};
use incarnate_runtime::vm::{Ref, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::{OrRaise, unimplemented};
use crate::memory;
use crate::reference::Reference;
use crate::tensor::Tensor;

/// What tensors become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Arrays of NumPy.
    Array,
    /// [`Tensor`]s in the memory of the device.
    Tensor,
}

/// Converts a result.
pub(crate) fn convert<'py>(py: Python<'py>, value: Value, info: &ValueInfo, form: Form) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::I32(number) if *info.value_type() == ValueType::Bool => (number != 0).into_bound_py_any(py),
        Value::I32(number) => number.into_bound_py_any(py),
        Value::I64(number) => number.into_bound_py_any(py),
        Value::F32(number) => number.into_bound_py_any(py),
        Value::F64(number) => number.into_bound_py_any(py),
        Value::Ref(Ref::Null) => Ok(py.None().into_bound(py)),
        Value::Ref(reference) if reference.get::<BufferView>().is_ok() => {
            let view: Arc<BufferView> = FromValue::from_value(Value::Ref(reference)).or_raise(py)?;
            match form {
                Form::Array => memory::array_of_result(py, view),
                Form::Tensor => Tensor::new(view).into_bound_py_any(py),
            }
        }
        Value::Ref(reference) => Reference::new(reference).into_bound_py_any(py),
        other => Err(unimplemented(py, format!("results of type {other:?}"))),
    }
}

/// Creates the class of several results: a named tuple.
pub(crate) fn named_tuple(py: Python<'_>, function: &str, outputs: &[ValueInfo]) -> PyResult<Py<PyAny>> {
    let options = PyDict::new(py);
    // Keywords of Python become _0, _1 and so on.
    options.set_item("rename", true)?;
    options.set_item("module", "incarnate")?;
    let names = PyTuple::new(py, identifiers(outputs, "output"))?;
    let is_identifier = !function.is_empty() && function.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = if is_identifier { format!("Results_{function}") } else { "Results".to_owned() };
    py.import("collections")?.call_method("namedtuple", (name, names), Some(&options)).map(Bound::unbind)
}
