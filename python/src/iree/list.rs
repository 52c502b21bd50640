//! `VmVariantList`: lists of any values, which calls take their arguments from and put their results into.

use std::fmt::Write;
use std::sync::Arc;

use incarnate_runtime::hal::{Buffer, BufferView, Fence};
use incarnate_runtime::vm::{List, Ref, Value, ValueType};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::buffer::shown_element_type;
use super::classes::as_class;
use super::reference::{RefObject, VmRef, reference_of};
use super::status::OrRaise;

/// A list of values and references.
#[pyclass(module = "incarnate.iree.runtime", extends = RefObject, frozen)]
pub(super) struct VmVariantList(pub(super) Arc<List>);

impl VmVariantList {
    pub(super) fn wrap(py: Python<'_>, list: Arc<List>) -> PyResult<Bound<'_, VmVariantList>> {
        let base = RefObject::new(Ref::List(Arc::clone(&list)));
        Bound::new(py, PyClassInitializer::from(base).add_subclass(VmVariantList(list)))
    }

    fn value(&self, py: Python<'_>, index: i64) -> PyResult<Value> {
        value_at(py, &self.0, index)
    }

    fn reference(&self, py: Python<'_>, index: i64) -> PyResult<Ref> {
        match self.value(py, index)? {
            Value::Ref(reference) => Ok(reference),
            other => Err(PyValueError::new_err(format!("element {index} is {other:?}, which is no reference"))),
        }
    }

    fn push(&self, py: Python<'_>, value: Value) -> PyResult<()> {
        self.0.push(value).or_raise(py, "appending to a list")
    }
}

/// Creates a list of any values.
pub(super) fn new_list(py: Python<'_>, capacity: usize) -> PyResult<Arc<List>> {
    let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
    List::new(ValueType::Any, capacity, None).or_raise(py, "creating a list")
}

fn value_at(py: Python<'_>, list: &List, index: i64) -> PyResult<Value> {
    let length = list.len();
    match u32::try_from(index) {
        Ok(index) if (index as usize) < length => list.get(index).or_raise(py, "reading a list"),
        _ => Err(PyIndexError::new_err(format!("index {index} of a list of {length} elements"))),
    }
}

#[pymethods]
impl VmVariantList {
    #[new]
    fn new(py: Python<'_>, capacity: usize) -> PyResult<PyClassInitializer<VmVariantList>> {
        let list = new_list(py, capacity)?;
        let base = RefObject::new(Ref::List(Arc::clone(&list)));
        Ok(PyClassInitializer::from(base).add_subclass(VmVariantList(list)))
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.0.len()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Returns an element that is a reference.
    fn get_as_ref(&self, py: Python<'_>, index: i64) -> PyResult<VmRef> {
        self.reference(py, index).map(VmRef)
    }

    /// Returns an element that is a reference as a class; None where the object is of another type.
    fn get_as_object<'py>(
        &self,
        py: Python<'py>,
        index: i64,
        clazz: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        as_class(py, &self.reference(py, index)?, clazz)
    }

    /// Returns an element that is a list.
    fn get_as_list<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, VmVariantList>> {
        let reference = self.reference(py, index)?;
        VmVariantList::wrap(py, reference.list().cloned().or_raise(py, "reading a list")?)
    }

    /// Returns an element: a number, a `VmRef`, or None.
    fn get_variant<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.value(py, index)? {
            Value::None => py.None().into_bound(py),
            Value::I32(value) => value.into_pyobject(py)?.into_any(),
            Value::I64(value) => value.into_pyobject(py)?.into_any(),
            Value::F32(value) => value.into_pyobject(py)?.into_any(),
            Value::F64(value) => value.into_pyobject(py)?.into_any(),
            Value::Ref(reference) => Bound::new(py, VmRef(reference))?.into_any(),
        })
    }

    /// Returns an element as a dictionary of its type and contents, as traces of calls contain it.
    fn get_serialized_trace_value<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyDict>> {
        serialized(py, &self.value(py, index)?, 0)
    }

    fn push_float(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.push(py, Value::F64(value))
    }

    fn push_int(&self, py: Python<'_>, value: i64) -> PyResult<()> {
        self.push(py, Value::I64(value))
    }

    fn push_list(&self, py: Python<'_>, value: &Bound<'_, VmVariantList>) -> PyResult<()> {
        self.push(py, Value::Ref(Ref::List(Arc::clone(&value.get().0))))
    }

    fn push_ref(&self, r#ref: &Bound<'_, PyAny>) -> PyResult<()> {
        self.push(r#ref.py(), Value::Ref(reference_of(r#ref)?))
    }

    fn __repr__(&self) -> String {
        let mut text = format!("<VmVariantList({}): [", self.0.len());
        append_elements(&mut text, &self.0, &mut vec![Arc::as_ptr(&self.0)]);
        text + "]>"
    }
}

/// The most lists in lists that are shown or serialized.
const SHOWN_DEPTH: usize = 64;

/// Appends the elements; `shown` are the lists that were begun.
fn append_elements(text: &mut String, list: &List, shown: &mut Vec<*const List>) {
    for index in 0..u32::try_from(list.len()).unwrap_or(u32::MAX) {
        if index > 0 {
            text.push_str(", ");
        }
        let written = match list.get(index) {
            Ok(Value::None | Value::Ref(Ref::Null)) => write!(text, "None"),
            Ok(Value::I32(value)) => write!(text, "{value}"),
            Ok(Value::I64(value)) => write!(text, "{value}"),
            Ok(Value::F32(value)) => write!(text, "{value:.6}"),
            Ok(Value::F64(value)) => write!(text, "{value:.6}"),
            Ok(Value::Ref(Ref::List(list))) => {
                text.push_str("List[");
                if shown.contains(&Arc::as_ptr(&list)) || shown.len() > SHOWN_DEPTH {
                    text.push_str("...");
                } else {
                    shown.push(Arc::as_ptr(&list));
                    append_elements(text, &list, shown);
                }
                write!(text, "]")
            }
            Ok(Value::Ref(reference)) => append_reference(text, &reference),
            Err(_) => write!(text, "Error"),
        };
        // Writing to a string does not fail.
        let _ = written;
    }
}

fn append_reference(text: &mut String, reference: &Ref) -> std::fmt::Result {
    if let Ok(view) = reference.get::<BufferView>() {
        let shape: Vec<String> = view.shape().iter().map(ToString::to_string).collect();
        write!(text, "HalBufferView({}:{})", shape.join("x"), shown_element_type(view.element_type()))
    } else if let Ok(buffer) = reference.get::<Buffer>() {
        write!(text, "HalBuffer({})", buffer.byte_length())
    } else if let Ok(fence) = reference.get::<Fence>() {
        write!(text, "fence({})", fence.timepoints().count())
    } else {
        write!(text, "Unknown({})", reference.ref_type().map_or("null", |found| found.name()))
    }
}

fn serialized<'py>(py: Python<'py>, value: &Value, depth: usize) -> PyResult<Bound<'py, PyDict>> {
    if depth > SHOWN_DEPTH {
        return Err(PyValueError::new_err(format!("lists are nested more than {SHOWN_DEPTH} deep")));
    }
    let record = PyDict::new(py);
    match value {
        Value::None | Value::Ref(Ref::Null) => record.set_item("type", "null")?,
        Value::I32(value) => record.set_item("i32", value)?,
        Value::I64(value) => record.set_item("i64", value)?,
        Value::F32(value) => record.set_item("f32", value)?,
        Value::F64(value) => record.set_item("f64", value)?,
        Value::Ref(Ref::List(list)) => {
            record.set_item("type", "vm.list")?;
            let items = PyList::empty(py);
            for index in 0..list.len() as i64 {
                items.append(serialized(py, &value_at(py, list, index)?, depth + 1)?)?;
            }
            record.set_item("items", items)?;
        }
        Value::Ref(reference) => {
            let view = reference.get::<BufferView>().or_raise(py, "serializing a value")?;
            record.set_item("type", "hal.buffer_view")?;
            record.set_item("shape", view.shape())?;
            record.set_item("element_type", view.element_type().to_string())?;
            let bytes = py.detach(|| view.buffer().to_vec()).or_raise(py, "serializing a value")?;
            record.set_item("contents", PyBytes::new(py, &bytes))?;
        }
    }
    if !record.contains("type")? {
        record.set_item("type", "value")?;
    }
    Ok(record)
}
