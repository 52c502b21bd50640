//! Memory that arrays of NumPy and buffers of the runtime share.
//!
//! | memory | who owns it | who may write it |
//! | --- | --- | --- |
//! | an argument, for the length of a call | Python | Python |
//! | a result without another holder | the array of the result | the holders of the array |
//! | a tensor | the tensor, and all views of it | the program, and Python through DLPack |
#![allow(unsafe_code, reason = "NumPy's C interface, and memory that both sides know; see above")]

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use incarnate_runtime::bytecode::Contents;
use incarnate_runtime::hal::backend::Access;
use incarnate_runtime::hal::{
    Allocator, BorrowScope, Buffer, BufferParameters, BufferView, ElementType, ExclusiveBytes,
};
use incarnate_runtime::{Error, Result};
use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, flags, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::dtype;
use crate::error::OrRaise;

/// Arguments and results of fewer bytes are copied: that takes less time than sharing them. See
/// [`MIN_BORROWED_BYTES`](incarnate_runtime::support::MIN_BORROWED_BYTES).
const MIN_SHARED_BYTES: usize = incarnate_runtime::support::MIN_BORROWED_BYTES;

/// The elements of an object of Python in row-major order: a view that does not keep them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    bytes: NonNull<[u8]>,
}

impl Elements {
    /// The bytes of an array.
    ///
    /// Returns None if the array is not in row-major order.
    pub(crate) fn of_array(array: &Bound<'_, PyUntypedArray>) -> Option<Elements> {
        if !array.is_c_contiguous() {
            return None;
        }
        let length = array.len() * array.dtype().itemsize();
        // SAFETY: the pointer is that of a living array.
        let data = unsafe { (*array.as_array_ptr()).fields.data };
        Some(Elements::of_memory(data.cast(), length))
    }

    /// The bytes at an address; none at a null pointer.
    pub(crate) fn of_memory(data: *mut u8, length: usize) -> Elements {
        let (data, length) = NonNull::new(data).map_or((NonNull::dangling(), 0), |data| (data, length));
        Elements { bytes: NonNull::slice_from_raw_parts(data, length) }
    }

    /// The bytes.
    pub(crate) fn bytes(self) -> NonNull<[u8]> {
        self.bytes
    }

    /// Copies the bytes into memory of an allocator.
    ///
    /// # Safety
    /// The memory is valid for reads during the call, and no other thread writes to it.
    pub(crate) unsafe fn copy(self, allocator: &Allocator) -> Result<Arc<Buffer>> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { self.bytes.as_ref() };
        let buffer = allocator.allocate(BufferParameters::DEVICE, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// Passes the bytes to a call: in place if they take [`MIN_SHARED_BYTES`] or more and begin at a multiple of 64 bytes, else as a
    /// copy.
    ///
    /// # Safety
    /// The memory is valid for reads until the scope ends. No other thread writes to it during this call.
    pub(crate) unsafe fn pass(self, allocator: &Allocator, scope: &BorrowScope<'_>) -> Result<Arc<Buffer>> {
        if self.bytes.len() >= MIN_SHARED_BYTES && BorrowScope::accepts(self.bytes.as_ptr()) {
            // SAFETY: the caller's promise. That others write to the memory after this call is what `borrow_memory` allows.
            return unsafe { scope.borrow_memory(allocator, self.bytes, None) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.copy(allocator) }
    }
}

/// The bytes of an array that is read-only, as parameters of a model.
pub(crate) struct FrozenArray {
    elements: Elements,
    /// Keeps the memory.
    _array: Py<PyUntypedArray>,
}

// SAFETY: the bytes are only read, and the reference to the array may be dropped on any thread.
unsafe impl Send for FrozenArray {}
// SAFETY: as above.
unsafe impl Sync for FrozenArray {}

impl FrozenArray {
    /// Takes an array whose elements are not written: None if it is writable, or not in row-major order.
    pub(crate) fn new(array: &Bound<'_, PyUntypedArray>) -> Option<FrozenArray> {
        // SAFETY: the pointer is that of a living array.
        let is_writable = unsafe { (*array.as_array_ptr()).fields.flags } & flags::NPY_ARRAY_WRITEABLE != 0;
        let elements = Elements::of_array(array).filter(|_| !is_writable)?;
        Some(FrozenArray { elements, _array: array.clone().unbind() })
    }
}

impl AsRef<[u8]> for FrozenArray {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the array is kept, and its owner has declared it read-only.
        unsafe { self.elements.bytes.as_ref() }
    }
}

/// Owns the memory of the array of a result.
#[pyclass(frozen, module = "incarnate._native")]
struct ResultMemory {
    _bytes: ExclusiveBytes,
}

/// Keeps the buffer whose memory others see.
#[pyclass(frozen, module = "incarnate._native")]
struct SharedMemory {
    _buffer: Arc<Buffer>,
}

/// Creates the array of a result: over its memory if it takes [`MIN_SHARED_BYTES`] or more and nothing else holds it, else over a
/// copy.
pub(crate) fn array_of_result<'py>(py: Python<'py>, view: Arc<BufferView>) -> PyResult<Bound<'py, PyAny>> {
    let length = byte_length(&view).or_raise(py)?;
    let (element, shape) = (view.element_type(), extents(view.shape()));
    let buffer = match Arc::try_unwrap(view) {
        Ok(view) if length >= MIN_SHARED_BYTES => match ExclusiveBytes::new(view.into_buffer()) {
            Ok(mut bytes) => {
                let data = bytes.as_mut_ptr();
                let owner = Bound::new(py, ResultMemory { _bytes: bytes })?;
                // SAFETY: `byte_length` has checked that the buffer has the elements. `ExclusiveBytes` owns them, no other holder can
                // reach them, and they stay where they are; the array keeps it.
                return unsafe { array_over(py, dtype::dtype(py, element)?, &shape, data, true, owner.into_any()) };
            }
            Err(buffer) => buffer,
        },
        Ok(view) => view.into_buffer(),
        Err(view) => Arc::clone(view.buffer()),
    };
    copied_array(dtype::dtype(py, element)?, &shape, |bytes| buffer.read(0, bytes).or_raise(py))
}

/// Creates a read-only array over the memory of a tensor.
pub(crate) fn array_of_tensor<'py>(py: Python<'py>, view: &BufferView) -> PyResult<Bound<'py, PyAny>> {
    byte_length(view).or_raise(py)?;
    let data = fixed_memory(view.buffer()).or_raise(py)?;
    let owner = Bound::new(py, SharedMemory { _buffer: Arc::clone(view.buffer()) })?;
    let dtype = dtype::dtype(py, view.element_type())?;
    // SAFETY: `byte_length` has checked that the buffer has the elements. Its memory does not move any more, and the array keeps it.
    unsafe { array_over(py, dtype, &extents(view.shape()), data, false, owner.into_any()) }
}

/// Returns the address of a buffer, which does not move from now on.
///
/// # Errors
/// RESOURCE_EXHAUSTED if borrowed memory must be copied and there is no memory.
pub(crate) fn fixed_memory(buffer: &Buffer) -> Result<*mut u8> {
    // Memory of which a program has a byte buffer stays where it is.
    buffer.vm_buffer()?;
    let pin = buffer.pin(Access::Read)?;
    if !pin.is_fixed() || pin.is_borrowed() {
        return Err(Error::internal("the memory of the tensor moves"));
    }
    Ok(pin.address().0)
}

/// Returns the byte length of the elements of a view.
///
/// # Errors
/// OUT_OF_RANGE if its buffer is shorter, as that of a view of opaque encoding can be.
fn byte_length(view: &BufferView) -> Result<usize> {
    let (length, available) = (view.byte_length(), view.buffer().byte_length());
    if length > available {
        return Err(Error::out_of_range(format!("a view of {length} bytes has a buffer of {available}")));
    }
    Ok(length as usize)
}

/// Returns extents as NumPy counts them. They fit: the elements are in memory, or there are none and NumPy checks them.
fn extents(shape: &[u64]) -> SmallVec<[npy_intp; 6]> {
    shape.iter().map(|extent| npy_intp::try_from(*extent).unwrap_or(npy_intp::MAX)).collect()
}

fn rank(shape: &[npy_intp]) -> c_int {
    c_int::try_from(shape.len()).unwrap_or(c_int::MAX)
}

/// Creates an array over memory.
///
/// # Safety
/// The memory has the elements, and stays as long as the owner lives. It may be written if `is_writable`.
unsafe fn array_over<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[npy_intp],
    data: *mut u8,
    is_writable: bool,
    owner: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let flags = if is_writable { flags::NPY_ARRAY_CARRAY } else { flags::NPY_ARRAY_CARRAY_RO };
    // SAFETY: the arguments are those that the function documents: it takes over the reference to the type, reads `rank(shape)`
    // extents without writing them, and computes strides in row-major order, for which the caller promises the memory.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            rank(shape),
            shape.as_ptr().cast_mut(),
            std::ptr::null_mut(),
            data.cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        // It takes over the reference to the owner, also where it fails.
        match PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Creates an array and fills it.
fn copied_array<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[npy_intp],
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    // SAFETY: as in `array_over`; the function allocates the elements.
    let array = unsafe {
        let array = PY_ARRAY_API.PyArray_Zeros(
            py,
            rank(shape),
            shape.as_ptr().cast_mut(),
            dtype.clone().into_dtype_ptr(),
            c_int::from(false),
        );
        Bound::from_owned_ptr_or_err(py, array)?
    };
    let length = shape.iter().product::<npy_intp>() as usize * dtype.itemsize();
    if length > 0 {
        // SAFETY: the array has just been created, with so many bytes, which are zero, and nothing else refers to it.
        fill(unsafe {
            let data = (*array.as_ptr().cast::<npyffi::PyArrayObject>()).fields.data;
            std::slice::from_raw_parts_mut(data.cast(), length)
        })?;
    }
    Ok(array)
}

/// Returns the element type of an array.
///
/// # Errors
/// UNIMPLEMENTED if the runtime has no such type.
pub(crate) fn element_type(array: &Bound<'_, PyUntypedArray>) -> PyResult<ElementType> {
    dtype::element_type(&array.dtype()).ok_or_else(|| {
        crate::error::unimplemented(array.py(), format!("arrays of {} are not arguments of models", array.dtype()))
    })
}

/// Copies the bytes of an array in row-major order, once.
///
/// # Errors
/// INVALID_ARGUMENT if it is in another order.
pub(crate) fn copied_contents(array: &Bound<'_, PyUntypedArray>) -> PyResult<Contents> {
    let elements = Elements::of_array(array)
        .ok_or_else(|| crate::error::invalid_argument(array.py(), "the array is not in row-major order".to_owned()))?;
    // SAFETY: the array lives, and the interpreter's lock is held.
    Ok(Contents::copy_from(unsafe { elements.bytes.as_ref() }))
}
