//! `VmInstance`, `VmModule`, `VmFunction`.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::hal::MINIMUM_ALIGNMENT;
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::vm::{self, BytecodeModule, Linkage, Module};
use pyo3::exceptions::{PyRuntimeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};

use super::memory;
use super::natives;
use super::process::Process;
use super::status::OrRaise;

/// What modules and contexts are created for. Types are known without one.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct VmInstance;

#[pymethods]
impl VmInstance {
    #[new]
    fn new() -> VmInstance {
        VmInstance
    }
}

/// The numbers of linkages, as `Linkage` has them.
pub(super) const LINKAGES: &[(&str, u32)] =
    &[("INTERNAL", 0), ("IMPORT", 1), ("EXPORT", 2), ("IMPORT_OPTIONAL", 3), ("EXPORT_OPTIONAL", 4)];

const EXPORT: u32 = 2;

fn linkage_of(number: u32) -> Option<Linkage> {
    match number {
        0 => Some(Linkage::Internal),
        1 | 3 => Some(Linkage::Import),
        2 | 4 => Some(Linkage::Export),
        _ => None,
    }
}

/// What happens when the memory of a module is not in use any more: the buffer is closed, then the callback is called. It is an object
/// of Python for the reason that memory of Python is: see [`memory`].
#[pyclass(module = "incarnate.iree.runtime")]
struct OnRelease {
    close: Option<Py<PyAny>>,
    callback: Option<Py<PyAny>>,
}

impl Drop for OnRelease {
    fn drop(&mut self) {
        let (close, callback) = (self.close.take(), self.callback.take());
        if close.is_none() && callback.is_none() {
            return;
        }
        let _ = Python::try_attach(|py| {
            let closed = close.map(|buffer| buffer.call_method0(py, "close").map(drop));
            let called = callback.map(|callback| callback.call0(py).map(drop));
            for error in [closed, called].into_iter().flatten().filter_map(Result::err) {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// A module: functions that contexts run.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct VmModule {
    pub(super) module: Arc<dyn Module>,
    /// The file of a bytecode module.
    contents: Option<Arc<Contents>>,
    process: Process,
}

impl Drop for VmModule {
    fn drop(&mut self) {
        // A native module may have devices.
        self.process.keep_in_children(&self.module);
    }
}

impl VmModule {
    pub(super) fn native(module: Arc<dyn Module>) -> VmModule {
        VmModule { module, contents: None, process: Process::current() }
    }

    fn load(py: Python<'_>, contents: Contents) -> PyResult<VmModule> {
        let contents = Arc::new(contents);
        let load = || BytecodeModule::new(VerifiedModule::load(Arc::clone(&contents))?);
        let module = py.detach(load).or_raise(py, "Error creating vm module")?;
        Ok(VmModule { module, contents: Some(contents), process: Process::current() })
    }

    fn names(&self) -> Vec<String> {
        let exports = (0..).map_while(|ordinal| self.module.function(Linkage::Export, ordinal));
        exports.map(|info| info.name.to_owned()).collect()
    }
}

#[pymethods]
impl VmModule {
    /// Returns the native module of a name that a module depends on: `hal_inline` or `hal_loader`.
    #[staticmethod]
    fn resolve_module_dependency(
        py: Python<'_>,
        instance: &Bound<'_, VmInstance>,
        name: &str,
        minimum_version: u32,
    ) -> PyResult<VmModule> {
        let _ = instance;
        natives::dependency(name, minimum_version)
            .or_raise(py, "Error resolving module dependency")
            .map(VmModule::native)
    }

    /// Loads a module from a copy of a buffer.
    #[staticmethod]
    fn copy_buffer(py: Python<'_>, instance: &Bound<'_, VmInstance>, buffer: &Bound<'_, PyAny>) -> PyResult<VmModule> {
        let _ = instance;
        let bytes = memory::python_memory(buffer, false)?.bytes;
        let bytes = py.detach(|| bytes.to_vec()).or_raise(py, "Error copying the buffer of a module")?;
        VmModule::load(py, Contents::from_vec(bytes))
    }

    /// Loads a module from a buffer in place, or from a copy if it is not aligned to 64 bytes, with a warning.
    #[staticmethod]
    #[pyo3(signature = (instance, buffer, warn_if_copy = true))]
    fn from_buffer(
        py: Python<'_>,
        instance: &Bound<'_, VmInstance>,
        buffer: &Bound<'_, PyAny>,
        warn_if_copy: bool,
    ) -> PyResult<VmModule> {
        if memory::is_aligned(buffer, MINIMUM_ALIGNMENT)? {
            return VmModule::wrap_buffer(py, instance, buffer, None, false);
        }
        if warn_if_copy {
            let text = c"Making copy of unaligned VmModule buffer: it is not aligned to 64 bytes. VmModule.copy_buffer always copies, \
                         VmModule.mmap uses a file in place, and warn_if_copy=False turns this warning off";
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), text, 1)?;
        }
        VmModule::copy_buffer(py, instance, buffer)
    }

    /// Loads a module as `from_buffer` does.
    #[staticmethod]
    #[pyo3(signature = (instance, buffer, warn_if_copy = true))]
    fn from_flatbuffer(
        py: Python<'_>,
        instance: &Bound<'_, VmInstance>,
        buffer: &Bound<'_, PyAny>,
        warn_if_copy: bool,
    ) -> PyResult<VmModule> {
        VmModule::from_buffer(py, instance, buffer, warn_if_copy)
    }

    /// Loads a module from a buffer in place, which must be aligned to 64 bytes. When nothing uses the memory any more, the buffer is
    /// closed if `close_buffer` is set, and `destroy_callback` is called.
    #[staticmethod]
    #[pyo3(signature = (instance, buffer, destroy_callback = None, close_buffer = false))]
    fn wrap_buffer(
        py: Python<'_>,
        instance: &Bound<'_, VmInstance>,
        buffer: &Bound<'_, PyAny>,
        destroy_callback: Option<Py<PyAny>>,
        close_buffer: bool,
    ) -> PyResult<VmModule> {
        let _ = instance;
        if !memory::is_aligned(buffer, MINIMUM_ALIGNMENT)? {
            return Err(PyValueError::new_err(format!(
                "VmModule.wrap_buffer received an unaligned buffer, which must be aligned to {MINIMUM_ALIGNMENT} bytes; \
                 VmModule.copy_buffer takes any"
            )));
        }
        let close = close_buffer.then(|| buffer.clone().unbind());
        let companion = Py::new(py, OnRelease { close, callback: destroy_callback })?;
        VmModule::load(py, memory::contents(buffer, companion)?)
    }

    /// Maps a module file. `destroy_callback` is called when it is unmapped. The file must not be truncated meanwhile.
    #[staticmethod]
    #[pyo3(signature = (instance, filepath, destroy_callback = None))]
    fn mmap(
        py: Python<'_>,
        instance: &Bound<'_, VmInstance>,
        filepath: PathBuf,
        destroy_callback: Option<Py<PyAny>>,
    ) -> PyResult<VmModule> {
        let _ = instance;
        let companion = Py::new(py, OnRelease { close: None, callback: destroy_callback })?;
        let contents =
            MappedFile::contents_with(&filepath, companion).or_raise(py, "Error mapping the file of a module")?;
        VmModule::load(py, contents)
    }

    /// The name, by which other modules import from it.
    #[getter]
    fn name(&self) -> &str {
        self.module.name()
    }

    /// The version, which modules that depend on it compare.
    #[getter]
    fn version(&self) -> u32 {
        self.module.signature().version
    }

    /// Returns a function, or None if there is none of the name.
    #[pyo3(signature = (name, linkage = EXPORT))]
    fn lookup_function(&self, name: &str, linkage: u32) -> PyResult<Option<VmFunction>> {
        let kind = linkage_of(linkage).ok_or_else(|| PyValueError::new_err(format!("{linkage} is no linkage")))?;
        let Some(ordinal) = self.module.lookup(kind, name) else { return Ok(None) };
        let info = self.module.function(kind, ordinal);
        Ok(info.map(|info| VmFunction {
            module: Arc::downgrade(&self.module),
            kind,
            linkage,
            ordinal,
            name: info.name.to_owned(),
            module_name: self.module.name().to_owned(),
            convention: info.calling_convention.to_owned(),
        }))
    }

    /// A view of the file of a module that was loaded from one.
    #[getter]
    fn stashed_flatbuffer_blob<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let Some(contents) = &self.contents else { return Ok(None) };
        let bytes = vm::Buffer::of_contents(Arc::clone(contents), 0..contents.length());
        memory::memory_view(py, bytes.or_raise(py, "Error reading the file of a module")?).map(Some)
    }

    /// The names of the exported functions.
    #[getter]
    fn function_names(&self) -> Vec<String> {
        self.names()
    }

    fn __repr__(&self) -> String {
        format!("<VmModule {} : [{}]>", self.module.name(), self.names().join(", "))
    }
}

/// A function of a module. It does not keep the module, which contexts do.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct VmFunction {
    module: Weak<dyn Module>,
    kind: Linkage,
    /// The number of its linkage in Python.
    #[pyo3(get)]
    linkage: u32,
    /// The index in the module's functions of the linkage.
    #[pyo3(get)]
    ordinal: u32,
    /// The name.
    #[pyo3(get)]
    name: String,
    /// The name of the module.
    #[pyo3(get)]
    module_name: String,
    convention: String,
}

impl VmFunction {
    /// The module and the ordinal of an exported function.
    pub(super) fn export(&self) -> PyResult<(Arc<dyn Module>, u32)> {
        if self.kind != Linkage::Export {
            return Err(PyValueError::new_err(format!("function '{}' is not exported", self.name)));
        }
        Ok((self.module()?, self.ordinal))
    }

    fn module(&self) -> PyResult<Arc<dyn Module>> {
        let gone = || PyRuntimeError::new_err(format!("the module of function '{}' is gone", self.name));
        self.module.upgrade().ok_or_else(gone)
    }
}

#[pymethods]
impl VmFunction {
    /// The attributes of the function.
    #[getter]
    fn reflection<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (attributes, module) = (PyDict::new(py), self.module()?);
        for (key, value) in (0..).map_while(|index| module.function_attribute(self.kind, self.ordinal, index)) {
            attributes.set_item(key, value)?;
        }
        Ok(attributes)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let reflection = match self.module.strong_count() {
            0 => PyDict::new(py),
            _ => self.reflection(py)?,
        };
        Ok(format!("<VmFunction {}({}), reflection = {}>", self.name, self.convention, reflection.repr()?))
    }
}
