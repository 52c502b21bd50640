//! Tensors of other libraries: the protocol DLPack, of versions 0.8 to 1.1.
//!
//! Source: `dlpack.h` and the Python specification of DLPack. A capsule that is imported is not consumed: its owner keeps the tensor, and
//! this module reads it while the capsule lives.
#![allow(unsafe_code, reason = "structures of C that other libraries fill in")]

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use incarnate_runtime::hal::{BufferView, ElementType, NumericalType};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::{OrRaise, invalid_argument, unimplemented};
use crate::memory::{self, Elements};

/// `kDLCPU`.
pub(crate) const CPU: i32 = 1;
/// The version of the structures that are exported where the importer can read it.
const VERSION: (u32, u32) = (1, 0);

static NAME: &CStr = c"dltensor";
static VERSIONED_NAME: &CStr = c"dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct ManagedVersioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// The codes of numerical types, and the bits that they have where more than one width exists.
const CODES: &[(u8, NumericalType)] = &[
    (0, NumericalType::Integer),
    (1, NumericalType::UnsignedInteger),
    (2, NumericalType::Float),
    (4, NumericalType::BrainFloat),
    (5, NumericalType::Complex),
    (6, NumericalType::Boolean),
    (10, NumericalType::Float8E4M3Fn),
    (11, NumericalType::Float8E4M3Fnuz),
    (12, NumericalType::Float8E5M2),
    (13, NumericalType::Float8E5M2Fnuz),
    (14, NumericalType::Float8E8M0Fnu),
];

fn element_type(dtype: DataType) -> Option<ElementType> {
    let row = CODES.iter().find(|row| row.0 == dtype.code && dtype.lanes == 1 && dtype.bits >= 8)?;
    Some(ElementType::new(row.1, dtype.bits))
}

fn data_type(element: ElementType) -> Option<DataType> {
    let numerical = match element.numerical_type()? {
        NumericalType::SignedInteger => NumericalType::Integer,
        other => other,
    };
    let row = CODES.iter().find(|row| row.1 == numerical)?;
    let bits = u8::try_from(element.bit_count()).ok()?;
    Some(DataType { code: row.0, bits, lanes: 1 }).filter(|_| element.is_byte_aligned())
}

/// A tensor of another library. It lives as long as [`Imported::capsule`].
pub(crate) struct Imported<'py> {
    pub(crate) capsule: Bound<'py, PyCapsule>,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<u64>,
    pub(crate) elements: Elements,
}

/// Returns true if an object can export its tensor.
pub(crate) fn is_exporter(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr("__dlpack__").unwrap_or(false)
}

/// Imports the tensor of an object, in place; None if its elements are not in row-major order.
///
/// # Errors
/// Exceptions of the object; UNIMPLEMENTED for types and devices that the runtime does not have.
pub(crate) fn import<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Imported<'py>>> {
    let py = object.py();
    let (kind, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    if kind != CPU {
        let message =
            format!("the tensor is on device {kind} of DLPack, not in memory of the host: copy it there first");
        return Err(unimplemented(py, message));
    }
    let versioned = PyDict::new(py);
    versioned.set_item("max_version", VERSION)?;
    let capsule = match object.call_method("__dlpack__", (), Some(&versioned)) {
        // Libraries of before version 1.0 do not know the argument.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => object.call_method0("__dlpack__")?,
        exported => exported?,
    };
    read(capsule.cast_into::<PyCapsule>()?)
}

/// Reads the tensor of a capsule.
fn read(capsule: Bound<'_, PyCapsule>) -> PyResult<Option<Imported<'_>>> {
    let py = capsule.py();
    // SAFETY: the name of a capsule says what it points to, and its owner keeps that as long as the capsule lives.
    let tensor: &Tensor = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), VERSIONED_NAME.as_ptr()) != 0 {
            let managed =
                ffi::PyCapsule_GetPointer(capsule.as_ptr(), VERSIONED_NAME.as_ptr()).cast::<ManagedVersioned>();
            if (*managed).version.0 != VERSION.0 {
                return Err(unimplemented(py, format!("version {} of DLPack", (*managed).version.0)));
            }
            &(*managed).tensor
        } else if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) != 0 {
            &(*ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr()).cast::<Managed>()).tensor
        } else {
            return Err(invalid_argument(py, "the capsule contains no tensor of DLPack, or was consumed".to_owned()));
        }
    };
    let element = element_type(tensor.dtype).ok_or_else(|| {
        let DataType { code, bits, lanes } = tensor.dtype;
        unimplemented(py, format!("elements of code {code} of DLPack with {bits} bits and {lanes} lanes"))
    })?;
    let rank = usize::try_from(tensor.rank).unwrap_or(0);
    // SAFETY: the structure's documentation: `rank` extents, and as many strides or none.
    let (extents, strides) = unsafe { (array(tensor.shape, rank), array(tensor.strides, rank)) };
    let shape: Vec<u64> = extents.iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).collect();
    if !is_row_major(extents, strides) {
        return Ok(None);
    }
    let count = shape.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent));
    let length =
        count.and_then(|count| element.packed_byte_count(count)).and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or_else(|| invalid_argument(py, format!("a tensor of shape {shape:?} is too large")))?;
    let elements = Elements::of_memory(tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize), length);
    Ok(Some(Imported { element, shape, elements, capsule }))
}

/// # Safety
/// The pointer is null or points to `length` numbers that live as long as the result.
unsafe fn array<'a>(pointer: *const i64, length: usize) -> &'a [i64] {
    if pointer.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(pointer, length) }
}

fn is_row_major(extents: &[i64], strides: &[i64]) -> bool {
    let mut dense = 1;
    strides.is_empty()
        || extents.contains(&0)
        || extents.iter().zip(strides).rev().all(|(extent, stride)| {
            let fits = *extent == 1 || *stride == dense;
            dense = dense.saturating_mul(*extent);
            fits
        })
}

/// What an exported tensor refers to; freed by the deleter.
struct Export<M> {
    managed: M,
    shape: Vec<i64>,
    _view: Arc<BufferView>,
}

/// Exports a tensor, without a copy: a capsule of the version that the importer can read.
///
/// # Errors
/// UNIMPLEMENTED for types that DLPack does not have.
pub(crate) fn export<'py>(
    py: Python<'py>,
    view: &Arc<BufferView>,
    max_version: Option<(u32, u32)>,
) -> PyResult<Bound<'py, PyAny>> {
    let element = view.element_type();
    let dtype = data_type(element)
        .ok_or_else(|| unimplemented(py, format!("elements of type {element} have no type in DLPack")))?;
    let tensor = Tensor {
        data: memory::fixed_memory(view.buffer()).or_raise(py)?.cast(),
        device: Device { kind: CPU, id: 0 },
        rank: i32::try_from(view.shape().len()).unwrap_or(i32::MAX),
        dtype,
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    if max_version.is_some_and(|version| version.0 >= VERSION.0) {
        let managed =
            ManagedVersioned { version: VERSION, context: std::ptr::null_mut(), deleter: None, flags: 0, tensor };
        create(py, managed, view, VERSIONED_NAME)
    } else {
        create(py, Managed { tensor, context: std::ptr::null_mut(), deleter: None }, view, NAME)
    }
}

/// One of the two structures that capsules contain.
trait Manage: Sized {
    fn tensor(&mut self) -> &mut Tensor;
    fn set_deleter(&mut self, context: *mut c_void);
    /// # Safety
    /// The pointer is that of a living structure.
    unsafe fn delete(this: *mut Self);
}

macro_rules! manage {
    ($($type:ident)*) => {
        $(impl Manage for $type {
            fn tensor(&mut self) -> &mut Tensor {
                &mut self.tensor
            }
            fn set_deleter(&mut self, context: *mut c_void) {
                unsafe extern "C" fn deleter(this: *mut $type) {
                    // SAFETY: importers call the deleter once, with the structure that it is part of. `create` has set the context to
                    // the box that contains it.
                    unsafe { drop(Box::from_raw((*this).context.cast::<Export<$type>>())) };
                }
                self.context = context;
                self.deleter = Some(deleter);
            }
            unsafe fn delete(this: *mut $type) {
                // SAFETY: the caller's promise.
                unsafe {
                    if let Some(deleter) = (*this).deleter {
                        deleter(this);
                    }
                }
            }
        })*
    };
}
manage!(Managed ManagedVersioned);

fn create<'py, M: Manage>(
    py: Python<'py>,
    managed: M,
    view: &Arc<BufferView>,
    name: &'static CStr,
) -> PyResult<Bound<'py, PyAny>> {
    let shape = view.shape().iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
    let export = Box::into_raw(Box::new(Export { managed, shape, _view: Arc::clone(view) }));
    // SAFETY: the box was just leaked and nothing else refers to it; the capsule's destructor or the importer's call of the deleter
    // frees it.
    unsafe {
        (*export).managed.tensor().shape = (*export).shape.as_mut_ptr();
        (*export).managed.set_deleter(export.cast());
        let managed = &raw mut (*export).managed;
        let capsule = ffi::PyCapsule_New(managed.cast(), name.as_ptr(), Some(destroy::<M>));
        if capsule.is_null() {
            M::delete(managed);
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Frees the tensor of a capsule that no importer consumed: one that did has renamed the capsule.
unsafe extern "C" fn destroy<M: Manage>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this once with a living capsule that `create` created for an `M`.
    unsafe {
        let name = ffi::PyCapsule_GetName(capsule);
        if name == NAME.as_ptr() || name == VERSIONED_NAME.as_ptr() {
            M::delete(ffi::PyCapsule_GetPointer(capsule, name).cast());
        }
    }
}
