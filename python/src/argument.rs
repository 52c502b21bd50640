//! Objects of Python as arguments of functions.

use std::sync::Arc;

use incarnate_runtime::hal::{Allocator, BorrowScope, BufferView, EncodingType};
use incarnate_runtime::session::{ValueInfo, ValueType};
use incarnate_runtime::vm::{Ledger, Ref, Value};
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::array::{Array, Expected, Kept};
use crate::error::{OrRaise, invalid_argument};
use crate::reference::Reference;
use crate::tensor::Tensor;
use crate::{dtype, signature};

/// An input of a function.
pub(crate) struct Parameter {
    pub(crate) info: ValueInfo,
    /// The data type of the declared elements, if NumPy has one; found at the first call.
    dtype: PyOnceLock<Option<Py<PyArrayDescr>>>,
}

/// Where arguments go: the memory of a device, in place for as long as the scope lasts.
pub(crate) struct Target<'a, 'env> {
    pub(crate) allocator: &'a Allocator,
    pub(crate) scope: &'a BorrowScope<'env>,
}

impl Parameter {
    pub(crate) fn new(info: ValueInfo) -> Parameter {
        Parameter { info, dtype: PyOnceLock::new() }
    }

    /// Returns the data type that arrays must have.
    fn dtype<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyArrayDescr>> {
        let find =
            || self.info.element_type().and_then(|element| dtype::dtype(py, element).ok().cloned().map(Bound::unbind));
        self.dtype.get_or_init(py, find).as_ref().map(|dtype| dtype.bind(py))
    }

    /// Converts an object.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the object has another type or shape than the parameter; exceptions of the object.
    pub(crate) fn convert<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        target: &Target<'_, '_>,
        kept: &mut Kept<'py>,
    ) -> PyResult<Value> {
        match self.info.value_type() {
            ValueType::Tensor { .. } | ValueType::BufferView => {
                Ok(Value::Ref(Ref::from(self.view(object, target, kept)?)))
            }
            ValueType::Bool => Ok(Value::I32(i32::from(self.number::<bool>(object)?))),
            ValueType::I32 => Ok(Value::I32(self.number(object)?)),
            ValueType::I64 => Ok(Value::I64(self.number(object)?)),
            ValueType::F32 => Ok(Value::F32(self.number(object)?)),
            ValueType::F64 => Ok(Value::F64(self.number(object)?)),
            _ if object.is_none() => Ok(Value::Ref(Ref::Null)),
            _ => match object.cast::<Reference>() {
                Ok(reference) => Ok(Value::Ref(reference.get().reference())),
                Err(_) => Err(self.mismatch(object, "a reference that a function returned, or None")),
            },
        }
    }

    fn number<'py, T: for<'a> FromPyObject<'a, 'py>>(&self, object: &Bound<'py, PyAny>) -> PyResult<T> {
        object.extract::<T>().map_err(|_| self.mismatch(object, &self.info.value_type().to_string()))
    }

    #[cold]
    fn mismatch(&self, object: &Bound<'_, PyAny>, expected: &str) -> PyErr {
        let found = object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        invalid_argument(object.py(), format!("argument `{}`: expected {expected}, got {found}", self.info.name()))
    }

    /// Returns a view of the object's elements.
    fn view<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        target: &Target<'_, '_>,
        kept: &mut Kept<'py>,
    ) -> PyResult<Arc<BufferView>> {
        let py = object.py();
        if let Ok(tensor) = object.cast::<Tensor>() {
            let view = tensor.get().view();
            self.check_shape(py, view.shape())?;
            return Ok(Arc::clone(view));
        }
        let expected = Expected { name: self.info.name(), element: self.info.element_type(), dtype: self.dtype(py) };
        let array = Array::of(object, &expected, kept)?;
        self.check_shape(py, &array.shape)?;
        // SAFETY: `Array::of` has kept what owns the memory, which outlives the scope. The interpreter's lock is held during the copy;
        // without one, programs must not write to arguments meanwhile, as for NumPy's own functions.
        #[allow(unsafe_code, reason = "memory that `kept` keeps")]
        let buffer = unsafe { array.elements.pass(target.allocator, target.scope) }.or_raise(py)?;
        let element = self.info.element_type().unwrap_or(array.element);
        BufferView::shared(buffer, &array.shape, element, EncodingType::DENSE_ROW_MAJOR, Ledger::HOST).or_raise(py)
    }

    fn check_shape(&self, py: Python<'_>, shape: &[u64]) -> PyResult<()> {
        let Some(declared) = self.info.shape() else { return Ok(()) };
        let fits = declared.len() == shape.len()
            && declared.iter().zip(shape).all(|(declared, extent)| declared.is_none_or(|declared| declared == *extent));
        if fits {
            return Ok(());
        }
        let (name, expected) = (self.info.name(), signature::shape_text(declared));
        Err(invalid_argument(py, format!("argument `{name}`: expected an array of shape {expected}, got {shape:?}")))
    }
}
