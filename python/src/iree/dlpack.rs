//! DLPack capsules of buffer views, and buffer views of capsules.
#![allow(unsafe_code, reason = "DLPack is an interface of C")]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use incarnate_runtime::hal::{BufferView, Device, ElementType, MINIMUM_ALIGNMENT, NumericalType};
use incarnate_runtime::vm::{self, Charge};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::buffer::{HalBufferView, parameters};
use super::status::OrRaise;

const NAME: &CStr = c"dltensor";
/// The name of a capsule whose tensor has another owner.
const USED: &CStr = c"used_dltensor";

/// Types of devices whose memory is the host's: that of the host itself, and memory of it that CUDA and ROCm have pinned.
const HOST_DEVICES: &[i32] = &[1, 3, 11];

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    rank: i32,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct ManagedTensor {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// What an exported tensor keeps.
struct Kept {
    managed: ManagedTensor,
    #[expect(dead_code, reason = "keeps the bytes")]
    bytes: Arc<vm::Buffer>,
    #[expect(dead_code, reason = "the tensor points to it")]
    shape: Box<[i64]>,
    #[expect(dead_code, reason = "the tensor points to it")]
    strides: Box<[i64]>,
}

/// The codes of numerical types: those of `DLDataTypeCode`.
const TYPE_CODES: &[(u8, NumericalType)] = &[
    (0, NumericalType::SignedInteger),
    (0, NumericalType::Integer),
    (1, NumericalType::UnsignedInteger),
    (2, NumericalType::Float),
    (4, NumericalType::BrainFloat),
    (5, NumericalType::Complex),
    (6, NumericalType::Boolean),
];

/// Deletes an exported tensor.
unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    if managed.is_null() {
        return;
    }
    // SAFETY: the tensor is one that `export` created, whose context is its box, and consumers delete a tensor once.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Kept>()) });
}

/// Deletes the tensor of a capsule that no consumer has taken.
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter passes the capsule, and the name is valid text.
    let pointer = unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 0 {
            return;
        }
        ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr())
    };
    // SAFETY: `export` put the pointer of a tensor into the capsule, which still has its first name, so that no consumer owns it.
    unsafe { delete(pointer.cast()) };
}

/// Creates a capsule of a buffer view.
pub(super) fn export<'py>(
    py: Python<'py>,
    view: &BufferView,
    device_type: i32,
    device_id: i32,
) -> PyResult<Bound<'py, PyCapsule>> {
    let element_type = view.element_type();
    let code = TYPE_CODES.iter().find(|row| Some(row.1) == element_type.numerical_type()).map(|row| row.0);
    let code = code.ok_or_else(|| PyValueError::new_err(format!("DLPack has no elements of type {element_type}")))?;
    let bytes = Arc::clone(view.buffer().vm_buffer().or_raise(py, "Cannot export device buffer")?);
    let wide = |_| PyValueError::new_err("DLPack has no extents of 64 bits without a sign");
    let extents: Result<Vec<i64>, _> = view.shape().iter().map(|extent| i64::try_from(*extent)).collect();
    let mut shape = extents.map_err(wide)?.into_boxed_slice();
    let mut strides = dense_strides(&shape);
    let tensor = Tensor {
        data: bytes.as_ptr().cast(),
        device_type,
        device_id,
        rank: i32::try_from(shape.len()).unwrap_or(i32::MAX),
        type_code: code,
        type_bits: element_type.bit_count() as u8,
        type_lanes: 1,
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let managed = ManagedTensor { tensor, context: std::ptr::null_mut(), deleter: Some(delete) };
    let kept = Box::into_raw(Box::new(Kept { managed, bytes, shape, strides }));
    // SAFETY: the box was created in the line above, and no other code has its address yet.
    let managed = unsafe {
        (*kept).managed.context = kept.cast();
        &raw mut (*kept).managed
    };
    // SAFETY: the pointer is not null, the name is static, and the destructor takes capsules of this kind.
    let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(drop_capsule)) };
    if capsule.is_null() {
        // SAFETY: the tensor was created above, and no capsule owns it.
        unsafe { delete(managed) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: `PyCapsule_New` returned an owned reference.
    let capsule = unsafe { Bound::from_owned_ptr(py, capsule) };
    Ok(capsule.cast_into::<PyCapsule>()?)
}

/// The strides of a dense row-major shape, in elements.
fn dense_strides(shape: &[i64]) -> Box<[i64]> {
    let mut stride = 1i64;
    let mut strides: Vec<i64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let this = stride;
            stride = stride.saturating_mul(*extent);
            this
        })
        .collect();
    strides.reverse();
    strides.into_boxed_slice()
}

/// A tensor of another library, which is deleted with this. It is an object of Python for the reason that memory of Python is: see
/// [`memory`](super::memory).
#[pyclass(module = "incarnate.iree.runtime", frozen)]
struct Imported(NonNull<ManagedTensor>);

// SAFETY: DLPack lets any thread use a tensor and delete it; the tensor itself is only read.
unsafe impl Send for Imported {}
// SAFETY: as above.
unsafe impl Sync for Imported {}

impl Imported {
    /// Takes a tensor out of its capsule.
    fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Imported> {
        let not_a_tensor = || PyTypeError::new_err("the object is no DLPack capsule, or one that was used already");
        // SAFETY: the object is valid, and the names are static text. A capsule of the name contains a tensor, and with its new name
        // it leaves the tensor to its consumer: this is the protocol.
        let pointer = unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) == 0 {
                return Err(not_a_tensor());
            }
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr());
            if ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr()) != 0 {
                return Err(PyErr::fetch(capsule.py()));
            }
            pointer
        };
        NonNull::new(pointer.cast()).map(Imported).ok_or_else(not_a_tensor)
    }

    fn tensor(&self) -> &Tensor {
        // SAFETY: the producer keeps the tensor until it is deleted, which `drop` does.
        unsafe { &self.0.as_ref().tensor }
    }

    /// A list of numbers for each dimension; none where the pointer is null.
    fn numbers(&self, pointer: *const i64) -> Option<&[i64]> {
        let rank = usize::try_from(self.tensor().rank).ok()?;
        if rank == 0 {
            return Some(&[]);
        }
        // SAFETY: the pointer is one of the tensor and not null, so it has a number for each dimension as long as the tensor lives.
        (!pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(pointer, rank) })
    }

    fn element_type(&self) -> PyResult<ElementType> {
        let tensor = self.tensor();
        let numerical = TYPE_CODES.iter().find(|row| row.0 == tensor.type_code).map(|row| row.1);
        match numerical {
            Some(numerical) if tensor.type_lanes == 1 => Ok(ElementType::new(numerical, tensor.type_bits)),
            _ => Err(PyValueError::new_err(format!(
                "DLPack elements of code {}, {} bits and {} lanes are not supported",
                tensor.type_code, tensor.type_bits, tensor.type_lanes
            ))),
        }
    }

    /// The extents of a dense row-major tensor.
    fn shape(&self) -> PyResult<Vec<u64>> {
        let extents =
            self.numbers(self.tensor().shape).ok_or_else(|| PyValueError::new_err("the tensor has no shape"))?;
        if let Some(strides) = self.numbers(self.tensor().strides) {
            let dense = dense_strides(extents);
            let mut rows = extents.iter().zip(strides).zip(&dense);
            // The stride of an extent of 0 or 1 means nothing.
            if rows.any(|((extent, stride), dense)| *extent > 1 && stride != dense) && !extents.contains(&0) {
                return Err(PyValueError::new_err("the tensor is strided; only dense row-major ones are supported"));
            }
        }
        let negative = |_| PyValueError::new_err("the tensor has a negative extent");
        extents.iter().map(|extent| u64::try_from(*extent).map_err(negative)).collect()
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let pointer = self.0.as_ptr();
        // SAFETY: the tensor lives until its deleter is called, which is here, once.
        let Some(deleter) = (unsafe { (*pointer).deleter }) else { return };
        // Deleters of Python's libraries need the interpreter, which is attached unless it shuts down: then the memory stays.
        let _ = Python::try_attach(|_| {
            // SAFETY: as above.
            unsafe { deleter(pointer) }
        });
    }
}

/// Creates a buffer view of a capsule's tensor, which the view keeps: in place if it is aligned, or else of a copy.
pub(super) fn import<'py>(device: &Device, capsule: &Bound<'py, PyAny>) -> PyResult<Bound<'py, HalBufferView>> {
    let py = capsule.py();
    let imported = Imported::take(capsule)?;
    let tensor = imported.tensor();
    if !HOST_DEVICES.contains(&tensor.device_type) {
        return Err(PyValueError::new_err(format!(
            "memory of DLPack device type {} is not the host's",
            tensor.device_type
        )));
    }
    let (element_type, shape) = (imported.element_type()?, imported.shape()?);
    let count = shape.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent));
    let length =
        count.and_then(|count| element_type.packed_byte_count(count)).and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or_else(|| PyValueError::new_err("the tensor exceeds the address space"))?;
    let data = tensor.data.cast::<u8>().wrapping_add(usize::try_from(tensor.byte_offset).unwrap_or(0));
    let data = NonNull::new(data).unwrap_or(NonNull::<u128>::dangling().cast());
    let owner = Arc::new(Py::new(py, imported)?);
    // SAFETY: the producer keeps `length` bytes at the address, dense as `shape` checked, for reading and writing until the tensor is
    // deleted, which its owner does. No slice of them is created here.
    let bytes = unsafe { vm::Buffer::from_raw(data, length, true, owner, Charge::none().share()) };
    let parameters = parameters(incarnate_runtime::hal::MemoryType::DEVICE_LOCAL.bits(), 0);
    let allocator = device.allocator();
    let buffer = if data.addr().get().is_multiple_of(MINIMUM_ALIGNMENT) {
        allocator.import_vm_buffer(&bytes, 0, length as u64, parameters)
    } else {
        py.detach(|| {
            let copy = allocator.allocate(parameters, length as u64)?;
            vm::Buffer::copy(&bytes, 0, copy.vm_buffer()?, 0, length as u64)?;
            Ok(copy)
        })
    };
    HalBufferView::create(py, &buffer.or_raise(py, "Could not import external device buffer")?, &shape, element_type)
}
