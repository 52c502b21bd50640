//! Element types of the runtime as data types of NumPy.

use incarnate_runtime::hal::ElementType;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::unimplemented;

/// A data type: its element type, and the name in NumPy or in `ml_dtypes`.
struct Row {
    element: ElementType,
    name: &'static str,
    module: &'static str,
    dtype: PyOnceLock<Py<PyArrayDescr>>,
}

macro_rules! rows {
    ($($module:ident { $($element:ident $name:ident,)* })*) => {
        /// The data types. Of element types with the same data type, the first is that of arrays.
        static ROWS: [Row; const { [$($(stringify!($element)),*),*].len() }] = [$($(Row {
            element: ElementType::$element,
            name: stringify!($name),
            module: stringify!($module),
            dtype: PyOnceLock::new(),
        },)*)*];
    };
}

rows! {
    numpy {
        FLOAT_32 float32,
        FLOAT_64 float64,
        FLOAT_16 float16,
        INT_32 int32,
        INT_64 int64,
        INT_8 int8,
        INT_16 int16,
        UINT_8 uint8,
        UINT_16 uint16,
        UINT_32 uint32,
        UINT_64 uint64,
        BOOL_8 bool,
        COMPLEX_FLOAT_64 complex64,
        COMPLEX_FLOAT_128 complex128,
        SINT_8 int8,
        SINT_16 int16,
        SINT_32 int32,
        SINT_64 int64,
    }
    ml_dtypes {
        BFLOAT_16 bfloat16,
        FLOAT_8_E5M2 float8_e5m2,
        FLOAT_8_E4M3_FN float8_e4m3fn,
        FLOAT_8_E5M2_FNUZ float8_e5m2fnuz,
        FLOAT_8_E4M3_FNUZ float8_e4m3fnuz,
        FLOAT_8_E8M0_FNU float8_e8m0fnu,
    }
}

impl Row {
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyArrayDescr>> {
        let create = || {
            let module = py.import(self.module).map_err(|error| match self.module {
                "numpy" => error,
                module => unimplemented(
                    py,
                    format!("arrays of {} need the package {module}: pip install {module}", self.element),
                ),
            })?;
            PyArrayDescr::new(py, module.getattr(self.name)?).map(Bound::unbind)
        };
        self.dtype.get_or_try_init(py, create).map(|dtype| dtype.bind(py))
    }
}

/// Returns the data type of an element type.
///
/// # Errors
/// UNIMPLEMENTED if NumPy has none, or `ml_dtypes` is not installed.
pub(crate) fn dtype(py: Python<'_>, element: ElementType) -> PyResult<&Bound<'_, PyArrayDescr>> {
    match ROWS.iter().find(|row| row.element == element) {
        Some(row) => row.dtype(py),
        None => Err(unimplemented(py, format!("NumPy has no data type for elements of type {element}"))),
    }
}

/// Returns the name of the data type of an element type; the name of the element type if NumPy has none.
pub(crate) fn name(element: ElementType) -> String {
    let row = ROWS.iter().find(|row| row.element == element);
    row.map_or_else(|| element.to_string(), |row| row.name.to_owned())
}

/// Returns the element type of a data type; None if the runtime has none.
pub(crate) fn element_type(dtype: &Bound<'_, PyArrayDescr>) -> Option<ElementType> {
    let py = dtype.py();
    let is_same = |row: &&Row| match (row.module, row.dtype.get(py)) {
        (_, Some(known)) => known.bind(py).is_equiv_to(dtype),
        ("numpy", None) => row.dtype(py).is_ok_and(|known| known.is_equiv_to(dtype)),
        // An array of such a type exists only where its package was imported.
        (_, None) => dtype.typeobj().name().is_ok_and(|name| name == row.name) && row.dtype(py).is_ok(),
    };
    ROWS.iter().find(is_same).map(|row| row.element)
}
