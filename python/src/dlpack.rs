//! Tensors of other libraries: the protocol DLPack, of versions 0.8 to 1.1.
//!
//! Source: `dlpack.h` and the Python specification of DLPack. A capsule that is imported is not consumed: its owner keeps the tensor, and
//! this module reads it while the capsule lives.
#![allow(unsafe_code, reason = "structures of C that other libraries fill in")]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use incarnate_runtime::hal::{BufferView, ElementType, NumericalType};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::{OrRaise, invalid_argument, resource_exhausted, unimplemented};
use crate::memory::{self, Elements};
use crate::strided::{Copied, Region};

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
    let row = CODES.iter().find(|row| row.0 == dtype.code && dtype.lanes == 1)?;
    if dtype.bits < 8 || !dtype.bits.is_multiple_of(8) {
        return None;
    }
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

/// A tensor of another library. Its elements live as long as [`Imported::owner`].
pub(crate) struct Imported<'py> {
    capsule: Bound<'py, PyCapsule>,
    /// The elements in row-major order, if those of the tensor are in another one.
    copy: Option<Bound<'py, Copied>>,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<u64>,
    pub(crate) elements: Elements,
}

impl<'py> Imported<'py> {
    /// Returns what keeps the elements.
    pub(crate) fn owner(&self) -> Bound<'py, PyAny> {
        match &self.copy {
            Some(copy) => copy.clone().into_any(),
            None => self.capsule.clone().into_any(),
        }
    }
}

/// Returns true if an object can export its tensor.
pub(crate) fn is_exporter(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr("__dlpack__").unwrap_or(false)
}

/// Imports the tensor of an object: in place, or as a copy if its elements are not in row-major order.
///
/// # Errors
/// Exceptions of the object; UNIMPLEMENTED for types and devices that the runtime does not have; INVALID_ARGUMENT for a tensor that
/// cannot be in memory.
pub(crate) fn import<'py>(object: &Bound<'py, PyAny>) -> PyResult<Imported<'py>> {
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

/// Reads the tensor of a capsule in the memory of the host.
fn read(capsule: Bound<'_, PyCapsule>) -> PyResult<Imported<'_>> {
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
    let kind = tensor.device.kind;
    if !HOST_KINDS.contains(&kind) {
        return Err(unimplemented(py, format!("the tensor is on device {kind} of DLPack, not in memory of the host")));
    }
    let rank = usize::try_from(tensor.rank).ok().filter(|rank| *rank <= BufferView::RANK_LIMIT);
    let rank = rank.ok_or_else(|| invalid_argument(py, format!("a tensor of {} dimensions", tensor.rank)))?;
    // SAFETY: the structure's documentation: `rank` extents, and as many strides or none.
    let (extents, strides) = unsafe { (array(tensor.shape, rank), array(tensor.strides, rank)) };
    if extents.len() != rank {
        return Err(invalid_argument(py, format!("a tensor of {rank} dimensions without extents")));
    }
    let offset = if tensor.data.is_null() { 0 } else { tensor.byte_offset };
    let start = (tensor.data.addr() as u64).checked_add(offset);
    let region = start.ok_or("it ends beyond the address space").and_then(|start| {
        let strides = if strides.is_empty() { None } else { Some(strides) };
        Region::new(start, element.dense_byte_count(), extents, strides)
    });
    let wrong = |why| invalid_argument(py, format!("a tensor of shape {extents:?} and strides {strides:?}: {why}"));
    let region = region.map_err(wrong)?;
    let shape = extents.iter().map(|extent| extent.unsigned_abs()).collect();
    let data = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    let (copy, elements) = if region.is_row_major() {
        (None, Elements::of_memory(data, region.length()))
    } else {
        // SAFETY: the exporter's promise, as far as it can be checked: the elements at these strides are in memory, which it keeps
        // as long as the capsule lives. The interpreter's lock is held, under which programs write to tensors. `Region::new` has
        // checked that no address overflows.
        let copy = unsafe { Copied::new(&region, data) };
        let copy = copy.ok_or_else(|| resource_exhausted(py, format!("no memory for {} bytes", region.length())))?;
        let elements = copy.elements();
        (Some(Bound::new(py, copy)?), elements)
    };
    Ok(Imported { element, shape, elements, copy, capsule })
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
    export_as(py, view, max_version, CPU, 0)
}

/// As [`export`], as memory of a device that the caller names.
pub(crate) fn export_as<'py>(
    py: Python<'py>,
    view: &Arc<BufferView>,
    max_version: Option<(u32, u32)>,
    kind: i32,
    id: i32,
) -> PyResult<Bound<'py, PyAny>> {
    let element = view.element_type();
    let dtype = data_type(element)
        .ok_or_else(|| unimplemented(py, format!("elements of type {element} have no type in DLPack")))?;
    let tensor = Tensor {
        data: memory::fixed_memory(view.buffer()).or_raise(py)?.cast(),
        device: Device { kind, id },
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

/// The names of capsules whose tensor has another owner.
static USED_NAME: &CStr = c"used_dltensor";
static USED_VERSIONED_NAME: &CStr = c"used_dltensor_versioned";

/// Types of devices whose memory is the host's: its own, and what CUDA and ROCm have pinned.
const HOST_KINDS: &[i32] = &[CPU, 3, 11];

/// A tensor that was taken out of its capsule, and is deleted with this. It is an object of Python, so that it is dropped with the
/// interpreter attached, which deleters need.
#[pyclass(frozen, module = "incarnate._native")]
struct Taken {
    managed: NonNull<c_void>,
    /// Calls the deleter of the structure.
    delete: unsafe fn(NonNull<c_void>),
}

// SAFETY: DLPack lets any thread use a tensor and delete it.
unsafe impl Send for Taken {}
// SAFETY: as above; nothing is reached through a shared borrow.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: `take` owns the tensor, and this is the only call of its deleter.
        unsafe { (self.delete)(self.managed) }
    }
}

/// Takes the tensor out of a capsule: in place, or as a copy if its elements are not in row-major order. The capsule cannot be used
/// again. The bytes are valid for reading and writing until the second result is dropped. A tensor that is copied is deleted at once.
///
/// # Errors
/// UNIMPLEMENTED for types and devices that the runtime does not have; INVALID_ARGUMENT for capsules that were used, and other objects.
pub(crate) fn take<'py>(capsule: &Bound<'py, PyAny>) -> PyResult<(Imported<'py>, Py<PyAny>)> {
    let py = capsule.py();
    let not_a_tensor = || invalid_argument(py, "the object is no capsule of DLPack".to_owned());
    let capsule = capsule.clone().cast_into::<PyCapsule>().map_err(|_| not_a_tensor())?;
    let imported = read(capsule)?;
    unsafe fn delete<M: Manage>(managed: NonNull<c_void>) {
        // SAFETY: the caller's promise: the structure of a tensor that `take` owns.
        unsafe { M::delete(managed.as_ptr().cast()) }
    }
    let pointer = imported.capsule.as_ptr();
    // SAFETY: `read` found a tensor in the capsule, which is alive. With its new name it leaves the tensor to its consumer.
    let managed = unsafe {
        let is_versioned = ffi::PyCapsule_IsValid(pointer, VERSIONED_NAME.as_ptr()) != 0;
        let (name, used) = if is_versioned { (VERSIONED_NAME, USED_VERSIONED_NAME) } else { (NAME, USED_NAME) };
        let managed = ffi::PyCapsule_GetPointer(pointer, name.as_ptr());
        if ffi::PyCapsule_SetName(pointer, used.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        NonNull::new(managed).map(|managed| Taken {
            managed,
            delete: if is_versioned { delete::<ManagedVersioned> } else { delete::<Managed> },
        })
    };
    let taken = managed.ok_or_else(not_a_tensor)?;
    let owner = match &imported.copy {
        Some(copy) => copy.clone().into_any().unbind(),
        None => Py::new(py, taken)?.into_any(),
    };
    Ok((imported, owner))
}
