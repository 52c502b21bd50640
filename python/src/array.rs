//! Arrays: where the elements of an object of Python are, and what they are.

use std::sync::Arc;

use incarnate_runtime::hal::{Allocator, BufferView, ElementType, EncodingType};
use incarnate_runtime::vm::Ledger;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

use crate::error::{OrRaise, invalid_argument};
use crate::memory::{self, Elements};
use crate::{dlpack, dtype};

/// Elements in row-major order.
pub(crate) struct Array {
    pub(crate) elements: Elements,
    pub(crate) element: ElementType,
    pub(crate) shape: Shape,
}

/// Extents, outermost first. Up to this rank they take no allocation.
pub(crate) type Shape = SmallVec<[u64; 6]>;

/// The objects whose memory is used in place. They must live as long as it is.
pub(crate) type Kept<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// What an array must be.
pub(crate) struct Expected<'a, 'py> {
    /// The name of the argument.
    pub(crate) name: &'a str,
    /// The type of the elements; None for any.
    pub(crate) element: Option<ElementType>,
    /// The data type of these elements, if NumPy has one.
    pub(crate) dtype: Option<&'a Bound<'py, PyArrayDescr>>,
}

impl Array {
    /// Returns the elements of an object: in place for arrays and tensors of other libraries in row-major order, else those of a copy
    /// in that order.
    pub(crate) fn of<'py>(
        object: &Bound<'py, PyAny>,
        expected: &Expected<'_, 'py>,
        kept: &mut Kept<'py>,
    ) -> PyResult<Array> {
        let py = object.py();
        if let Ok(array) = object.cast::<PyUntypedArray>()
            && let Some(elements) = Elements::of_array(array)
        {
            return Array::of_numpy(array, elements, expected, kept);
        }
        if !object.is_instance_of::<PyUntypedArray>() && dlpack::is_exporter(object) {
            let imported = dlpack::import(object)?;
            expected.check_element(py, imported.element)?;
            kept.push(imported.owner());
            return Ok(Array { elements: imported.elements, element: imported.element, shape: imported.shape.into() });
        }
        let array = expected.row_major(object)?;
        let elements = Elements::of_array(&array)
            .ok_or_else(|| invalid_argument(py, "numpy.asarray returned no array in row-major order".to_owned()))?;
        Array::of_numpy(&array, elements, expected, kept)
    }

    /// Checks the type of an array and keeps it.
    fn of_numpy<'py>(
        array: &Bound<'py, PyUntypedArray>,
        elements: Elements,
        expected: &Expected<'_, 'py>,
        kept: &mut Kept<'py>,
    ) -> PyResult<Array> {
        let element = expected.check_dtype(array)?;
        kept.push(array.clone().into_any());
        let shape = array.shape().iter().map(|extent| *extent as u64).collect();
        Ok(Array { elements, element, shape })
    }
}

/// Copies an array, or a tensor of another library, into memory of an allocator.
pub(crate) fn copy(object: &Bound<'_, PyAny>, allocator: &Allocator) -> PyResult<Arc<BufferView>> {
    let (py, mut kept) = (object.py(), Kept::new());
    let array = Array::of(object, &Expected { name: "array", element: None, dtype: None }, &mut kept)?;
    // SAFETY: `kept` has what owns the memory, and the interpreter's lock is held.
    #[allow(unsafe_code, reason = "memory that `kept` keeps")]
    let buffer = unsafe { array.elements.copy(allocator) }.or_raise(py)?;
    BufferView::shared(buffer, &array.shape, array.element, EncodingType::DENSE_ROW_MAJOR, Ledger::HOST).or_raise(py)
}

impl Expected<'_, '_> {
    /// Converts any object to an array in row-major order. Numbers and sequences of them take the declared type.
    fn row_major<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = object.py();
        let options = PyDict::new(py);
        options.set_item("order", "C")?;
        let has_type = object.hasattr("dtype")? || object.hasattr("__array_interface__")?;
        if let (false, Some(dtype)) = (has_type, self.dtype) {
            options.set_item("dtype", dtype)?;
        }
        let array = py.import("numpy")?.call_method("asarray", (object,), Some(&options));
        let array = array.map_err(|error| {
            let message = format!("argument `{}` is no array of numbers: {error}", self.name);
            let raised = invalid_argument(py, message);
            raised.set_cause(py, Some(error));
            raised
        })?;
        Ok(array.cast_into::<PyUntypedArray>()?)
    }

    /// Checks the type of an array; returns its element type. Integers of one width are one type to models, which have no signs; a
    /// Boolean is none of them.
    fn check_dtype(&self, array: &Bound<'_, PyUntypedArray>) -> PyResult<ElementType> {
        let (py, dtype) = (array.py(), array.dtype());
        if let (Some(declared), Some(element)) = (self.dtype, self.element)
            && (declared.is(&dtype) || declared.is_equiv_to(&dtype))
        {
            return Ok(element);
        }
        let element = memory::element_type(array)?;
        self.check_element(py, element)?;
        Ok(element)
    }

    fn check_element(&self, py: Python<'_>, found: ElementType) -> PyResult<()> {
        let Some(declared) = self.element else { return Ok(()) };
        if declared == found || declared.has_integers_of(found) {
            return Ok(());
        }
        let (name, expected, found) = (self.name, dtype::name(declared), dtype::name(found));
        Err(invalid_argument(
            py,
            format!("argument `{name}`: expected elements of type {expected}, got {found}; `.astype` converts them"),
        ))
    }
}
