//! Tensors in the memory of a device.

use std::sync::Arc;

use incarnate_runtime::hal::BufferView;
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::invalid_argument;
use crate::{dlpack, dtype, memory};

/// A tensor in the memory of a device.
///
/// Functions take it in place, without a copy: also those in machine code, which are given a copy of large arrays because it does not
/// say what it writes. A program may write to its arguments, so a tensor that was passed to one may have changed.
///
/// `numpy.asarray` and `from_dlpack` of other libraries see the same memory.
#[pyclass(frozen, module = "incarnate")]
pub(crate) struct Tensor(Arc<BufferView>);

impl Tensor {
    pub(crate) fn new(view: Arc<BufferView>) -> Tensor {
        Tensor(view)
    }

    pub(crate) fn view(&self) -> &Arc<BufferView> {
        &self.0
    }
}

#[pymethods]
impl Tensor {
    /// The extents, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    /// The data type of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        dtype::dtype(py, self.0.element_type()).cloned()
    }

    /// The number of bytes of the elements.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.byte_length()
    }

    /// Returns the elements as an array of NumPy over the same memory, read-only.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        memory::array_of_tensor(py, &self.0)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = memory::array_of_tensor(py, &self.0)?;
        match dtype {
            Some(dtype) if !array.getattr("dtype")?.eq(&dtype)? => match copy {
                Some(false) => {
                    Err(invalid_argument(py, format!("elements of type {} need a copy", self.0.element_type())))
                }
                _ => array.call_method1("astype", (dtype,)),
            },
            _ if copy == Some(true) => array.call_method0("copy"),
            _ => Ok(array),
        }
    }

    /// Exports the tensor, without a copy; see the Python specification of DLPack.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() || dl_device.is_some_and(|device| device != self.__dlpack_device__()) || copy == Some(true)
        {
            let message = "a tensor is exported in place, in memory of the host, without a stream";
            return Err(pyo3::exceptions::PyBufferError::new_err(message));
        }
        dlpack::export(py, &self.0, max_version)
    }

    /// The kind and the number of the device in DLPack: memory of the host.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.0.shape().first() {
            Some(extent) => Ok(usize::try_from(*extent).unwrap_or(usize::MAX)),
            None => Err(pyo3::exceptions::PyTypeError::new_err("a tensor of rank 0 has no length")),
        }
    }

    fn __repr__(&self) -> String {
        format!("<incarnate.Tensor of shape {:?}, {}>", self.0.shape(), dtype::name(self.0.element_type()))
    }
}
