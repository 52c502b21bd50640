//! Memory that Python and the runtime share: Python's buffers as byte buffers of the VM, and byte buffers as Python's.
//!
//! A byte buffer neither moves nor frees its bytes while it lives. Memory of a device of which there is a byte buffer does not move
//! any more, so that what maps a device's buffer keeps a byte buffer of it.
#![allow(unsafe_code, reason = "the buffer protocol works with addresses")]

use std::any::Any;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

use incarnate_runtime::bytecode::Contents;
use incarnate_runtime::hal;
use incarnate_runtime::vm::{self, Charge, MappedBytes, Ref};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyMemoryView, PyTuple};
use smallvec::SmallVec;

use super::reference::RefObject;
use super::status::OrRaise;

/// The buffer of a Python object, C-contiguous, which the object keeps in place until this is dropped.
///
/// It is an object of Python itself, so that it is dropped with the interpreter attached: a thread that is not attached and drops the
/// last reference does not wait for the interpreter's lock, whose holder may wait for that thread.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
struct Exported(Box<ffi::Py_buffer>);

// SAFETY: the buffer protocol keeps the memory at its address on every thread. The structure is changed only when it is released,
// by its only owner and with the interpreter attached.
unsafe impl Send for Exported {}
// SAFETY: as above; shared borrows only read the structure.
unsafe impl Sync for Exported {}

impl Exported {
    fn get(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Exported> {
        // Without a format, so that elements that the protocol does not know, such as bfloat16, are bytes like any others.
        let flags = ffi::PyBUF_ND | if writable { ffi::PyBUF_WRITABLE } else { 0 };
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is valid, and the structure is one to be filled in. It stays in its box, so that its exporter may refer
        // to it.
        let failed = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0;
        if failed { Err(PyErr::fetch(object.py())) } else { Ok(Exported(view)) }
    }

    fn length(&self) -> usize {
        usize::try_from(self.0.len).unwrap_or(0)
    }

    /// The address of the first byte, which is any where there are none.
    fn address(&self) -> NonNull<u8> {
        NonNull::new(self.0.buf.cast()).unwrap_or(NonNull::<u128>::dangling().cast())
    }

    /// The extents of the dimensions.
    fn shape(&self) -> Vec<u64> {
        let rank = usize::try_from(self.0.ndim).unwrap_or(0);
        if self.0.shape.is_null() {
            return if rank == 1 { vec![self.length() as u64] } else { Vec::new() };
        }
        // SAFETY: `shape` is not null, so it has `ndim` extents, which live as long as the buffer is not released.
        let extents = unsafe { std::slice::from_raw_parts(self.0.shape, rank) };
        extents.iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).collect()
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // The interpreter is attached, unless it shuts down: then the memory stays.
        let _ = Python::try_attach(|_| {
            // SAFETY: `get` filled the structure in, and it is released once. The interpreter is attached.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
        });
    }
}

/// The bytes of a Python object, in place.
pub(super) struct PythonMemory {
    pub(super) bytes: Arc<vm::Buffer>,
    pub(super) shape: Vec<u64>,
}

/// Uses the memory of a Python object, for reading or also for writing.
pub(super) fn python_memory(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<PythonMemory> {
    let exported = Exported::get(object, writable)?;
    let (data, length, shape) = (exported.address(), exported.length(), exported.shape());
    let owner = Arc::new(Py::new(object.py(), exported)?);
    // SAFETY: the exporter keeps the bytes valid until the owner is dropped, for writing if that was asked for. No slice of them is
    // created here, and what other code does to the bytes meanwhile is a race of the program, as with any guest memory. Only the host
    // program exports memory of a byte buffer again, so that a program of the VM cannot nest owners.
    let bytes = unsafe { vm::Buffer::from_raw(data, length, writable, owner, Charge::none().share()) };
    Ok(PythonMemory { bytes, shape })
}

/// The contents of a file in the memory of a Python object, in place. `companion` is dropped after the memory is released.
pub(super) fn contents(object: &Bound<'_, PyAny>, companion: impl Any + Send + Sync) -> PyResult<Contents> {
    let exported = Exported::get(object, false)?;
    let (data, length) = (exported.address(), exported.length());
    let owner = (Py::new(object.py(), exported)?, companion);
    // SAFETY: the exporter keeps the bytes valid until the owner is dropped, and no slice of them is created here.
    Ok(unsafe { MappedBytes::new(data, length, Box::new(owner)) }.contents())
}

/// Returns true if the bytes of a Python object begin at a multiple of an alignment.
pub(super) fn is_aligned(object: &Bound<'_, PyAny>, alignment: usize) -> PyResult<bool> {
    Ok(Exported::get(object, false)?.address().addr().get().is_multiple_of(alignment))
}

/// Fills in the structure by which Python accesses a byte buffer that `owner` keeps.
///
/// # Safety
/// `view` is null or a structure to be filled in. `owner` keeps `bytes` as long as it lives.
unsafe fn export(owner: Bound<'_, PyAny>, bytes: &vm::Buffer, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no structure to be filled in"));
    }
    let length =
        isize::try_from(bytes.length()).map_err(|_| PyBufferError::new_err("more bytes than Python counts"))?;
    let read_only = c_int::from(!bytes.is_mutable());
    // SAFETY: the caller promises a structure and that the owner, of which it gets a share, keeps the bytes, which do not move.
    // They may be written where the byte buffer may.
    let failed =
        unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), bytes.as_ptr().cast(), length, read_only, flags) } != 0;
    if failed { Err(PyErr::fetch(owner.py())) } else { Ok(()) }
}

/// The base of classes that are memory of the host.
#[pyclass(module = "incarnate.iree.runtime", subclass, frozen)]
pub(super) struct HostMemory(Option<Arc<vm::Buffer>>);

impl HostMemory {
    pub(super) fn new(bytes: Option<Arc<vm::Buffer>>) -> HostMemory {
        HostMemory(bytes)
    }

    pub(super) fn bytes(&self) -> Option<&Arc<vm::Buffer>> {
        self.0.as_ref()
    }
}

#[pymethods]
impl HostMemory {
    #[allow(clippy::missing_safety_doc, reason = "called by the interpreter")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let none = || PyValueError::new_err("the file is not in memory of the host and cannot be mapped");
        let bytes = Arc::clone(slf.get().0.as_ref().ok_or_else(none)?);
        // SAFETY: the interpreter passes a structure. The object keeps its byte buffer: it is frozen.
        unsafe { export(slf.into_any(), &bytes, view, flags) }
    }
}

/// Memory of a device, mapped for the host.
#[pyclass(module = "incarnate.iree.runtime", extends = HostMemory, frozen)]
pub(super) struct MappedMemory;

impl MappedMemory {
    pub(super) fn of_bytes(py: Python<'_>, bytes: Arc<vm::Buffer>) -> PyResult<Bound<'_, MappedMemory>> {
        Bound::new(py, PyClassInitializer::from(HostMemory(Some(bytes))).add_subclass(MappedMemory))
    }

    pub(super) fn of_buffer<'py>(py: Python<'py>, buffer: &hal::Buffer) -> PyResult<Bound<'py, MappedMemory>> {
        let bytes = py.detach(|| buffer.vm_buffer().cloned()).or_raise(py, "mapping a buffer")?;
        MappedMemory::of_bytes(py, bytes)
    }
}

#[pymethods]
impl MappedMemory {
    /// Returns an array over the memory, which it keeps. The array is writable where the memory is.
    fn asarray<'py>(
        slf: &Bound<'py, Self>,
        shape: &Bound<'py, PyAny>,
        numpy_dtype_descr: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static ARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let extents: SmallVec<[Bound<'py, PyAny>; 8]> = shape.try_iter()?.collect::<PyResult<_>>()?;
        let extents = PyTuple::new(slf.py(), extents)?;
        ARRAY.import(slf.py(), "numpy", "ndarray")?.call1((extents, numpy_dtype_descr, slf))
    }
}

/// Returns a memory view of a byte buffer, which it keeps.
pub(super) fn memory_view(py: Python<'_>, bytes: Arc<vm::Buffer>) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(MappedMemory::of_bytes(py, bytes)?.as_any())
}

/// A byte buffer of programs.
#[pyclass(module = "incarnate.iree.runtime", extends = RefObject, frozen)]
pub(super) struct VmBuffer(Arc<vm::Buffer>);

impl VmBuffer {
    pub(super) fn wrap(py: Python<'_>, buffer: Arc<vm::Buffer>) -> PyResult<Bound<'_, VmBuffer>> {
        let base = RefObject::new(Ref::Buffer(Arc::clone(&buffer)));
        Bound::new(py, PyClassInitializer::from(base).add_subclass(VmBuffer(buffer)))
    }
}

#[pymethods]
impl VmBuffer {
    #[new]
    #[pyo3(signature = (length, alignment = 0, mutable = true))]
    fn new(py: Python<'_>, length: u64, alignment: u32, mutable: bool) -> PyResult<PyClassInitializer<VmBuffer>> {
        let create = || -> incarnate_runtime::Result<Arc<vm::Buffer>> {
            let buffer = vm::Buffer::zeroed(length, alignment, None)?;
            if mutable { Ok(buffer) } else { vm::Buffer::part(&buffer, 0, length, false, Charge::none().share()) }
        };
        let buffer = create().or_raise(py, "creating a buffer")?;
        let base = RefObject::new(Ref::Buffer(Arc::clone(&buffer)));
        Ok(PyClassInitializer::from(base).add_subclass(VmBuffer(buffer)))
    }

    #[allow(clippy::missing_safety_doc, reason = "called by the interpreter")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = Arc::clone(&slf.get().0);
        // SAFETY: the interpreter passes a structure. The object keeps its byte buffer: it is frozen.
        unsafe { export(slf.into_any(), &bytes, view, flags) }
    }

    fn __repr__(&self) -> String {
        format!("<VmBuffer size {} at {:#x}>", self.0.length(), self.0.as_ptr().addr())
    }
}
