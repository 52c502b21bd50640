//! DLPack capsules as buffer views.
#![allow(unsafe_code, reason = "memory of tensors of other libraries")]

use std::sync::Arc;

use incarnate_runtime::hal::{BufferView, Device, ElementType, MINIMUM_ALIGNMENT, MemoryType, NumericalType};
use incarnate_runtime::vm::{self, Charge};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::buffer::{HalBufferView, parameters};
use super::status::OrRaise;
use crate::dlpack;

/// Creates a capsule of a buffer view, which keeps its memory.
pub(super) fn export<'py>(
    py: Python<'py>,
    view: &Arc<BufferView>,
    device_type: i32,
    device_id: i32,
) -> PyResult<Bound<'py, PyAny>> {
    dlpack::export_as(py, view, None, device_type, device_id).map_err(|error| as_value_error(py, error))
}

/// What `iree.runtime` raises for tensors that are not supported.
fn as_value_error(py: Python<'_>, error: PyErr) -> PyErr {
    let raised = PyValueError::new_err(error.value(py).to_string());
    raised.set_cause(py, Some(error));
    raised
}

/// DLPack's integers have a sign.
fn with_sign(element_type: ElementType) -> ElementType {
    match element_type.numerical_type() {
        Some(NumericalType::Integer) => {
            ElementType::new(NumericalType::SignedInteger, u8::try_from(element_type.bit_count()).unwrap_or(0))
        }
        _ => element_type,
    }
}

/// Creates a buffer view of a capsule's tensor, which the view keeps: in place if it is aligned and in row-major
/// order, or else of a copy.
pub(super) fn import<'py>(device: &Device, capsule: &Bound<'py, PyAny>) -> PyResult<Bound<'py, HalBufferView>> {
    let py = capsule.py();
    if !capsule.is_instance_of::<pyo3::types::PyCapsule>() {
        return Err(PyTypeError::new_err("the object is no capsule of DLPack"));
    }
    let taken = dlpack::take(capsule).map_err(|error| as_value_error(py, error));
    let (imported, owner) = taken?;
    let bytes = imported.elements.bytes();
    let (data, length) = (bytes.cast::<u8>(), bytes.len());
    // SAFETY: `take` promises the bytes until the owner is dropped, for reading and writing. No slice of them is created here, and the
    // owner owns no byte buffer.
    let source = unsafe { vm::Buffer::from_raw(data, length, true, Arc::new(owner), Charge::none().share()) };
    let (parameters, allocator) = (parameters(MemoryType::DEVICE_LOCAL.bits(), 0), device.allocator());
    let buffer = if data.addr().get().is_multiple_of(MINIMUM_ALIGNMENT) {
        allocator.import_vm_buffer(&source, 0, length as u64, parameters)
    } else {
        py.detach(|| {
            let copy = allocator.allocate(parameters, length as u64)?;
            vm::Buffer::copy(&source, 0, copy.vm_buffer()?, 0, length as u64)?;
            Ok(copy)
        })
    };
    let buffer = buffer.or_raise(py, "Could not import external device buffer")?;
    HalBufferView::create(py, &buffer, &imported.shape, with_sign(imported.element))
}
