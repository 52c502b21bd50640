//! `PyModuleInterface`: modules whose functions are written in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use incarnate_runtime::bytecode::{CallingConvention, ConventionItem};
use incarnate_runtime::vm::{
    CallBuffer, Completion, FunctionInfo, Limits, Linkage, Module, ModuleSignature, ModuleState, Stack, Value,
};
use incarnate_runtime::{Error, Result};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::module::VmModule;
use super::reference::{VmRef, reference_of};
use super::status::{error_of, exception, with_python};

struct Export {
    name: String,
    convention: String,
    callable: Py<PyAny>,
}

/// Describes a module: its name, a constructor that is called with this object for each context and returns the state, and functions,
/// which are called with the state and the arguments.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct PyModuleInterface {
    name: String,
    constructor: Py<PyAny>,
    exports: Mutex<Vec<Arc<Export>>>,
    initialized: AtomicBool,
    destroyed: Arc<AtomicBool>,
}

#[pymethods]
impl PyModuleInterface {
    #[new]
    fn new(module_name: String, ctor: Py<PyAny>) -> PyModuleInterface {
        PyModuleInterface {
            name: module_name,
            constructor: ctor,
            exports: Mutex::default(),
            initialized: AtomicBool::new(false),
            destroyed: Arc::default(),
        }
    }

    /// Adds a function, with its calling convention such as `0ii_i`.
    fn export(&self, py: Python<'_>, name: String, cconv: String, callable: Py<PyAny>) -> PyResult<()> {
        if self.initialized.load(Ordering::Acquire) {
            return Err(PyRuntimeError::new_err("the module was created, so that no function can be added"));
        }
        let convention = CallingConvention::parse(&cconv);
        let convention = convention.map_err(|error| exception(py, "Unparsable calling convention", &error))?;
        if convention.is_variadic() {
            let error = Error::invalid_argument("functions written in Python are not variadic");
            return Err(exception(py, "Unparsable calling convention", &error));
        }
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        if exports.iter().any(|export| export.name == name) {
            return Err(PyValueError::new_err(format!("function '{name}' is exported already")));
        }
        exports.push(Arc::new(Export { name, convention: cconv, callable }));
        Ok(())
    }

    /// Creates the module, once.
    fn create(slf: &Bound<'_, Self>) -> PyResult<VmModule> {
        let this = slf.get();
        if this.initialized.swap(true, Ordering::AcqRel) {
            return Err(PyRuntimeError::new_err("the module was created already"));
        }
        let module = PythonModule {
            name: this.name.clone(),
            interface: slf.clone().unbind(),
            exports: this.exports.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            destroyed: Arc::clone(&this.destroyed),
        };
        Ok(VmModule::native(Arc::new(module)))
    }

    /// True if the module was created.
    #[getter]
    fn initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// True if the module was created and nothing uses it any more.
    #[getter]
    fn destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    fn __str__(&self) -> String {
        let state = match (self.initialized(), self.destroyed()) {
            (false, _) => "",
            (true, false) => " initialized",
            (true, true) => " destroyed",
        };
        format!("<PyModuleInterface '{}'{state}>", self.name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.constructor)?;
        // The lock is held for a few instructions, none of which collects garbage.
        let Ok(exports) = self.exports.try_lock() else { return Ok(()) };
        exports
            .iter()
            .filter(|export| Arc::strong_count(export) == 1)
            .try_for_each(|export| visit.call(&export.callable))
    }

    fn __clear__(&self) {
        let exports = std::mem::take(&mut *self.exports.lock().unwrap_or_else(PoisonError::into_inner));
        // Without the lock, as that can run code of Python.
        drop(exports);
    }
}

/// A module of Python functions.
struct PythonModule {
    name: String,
    interface: Py<PyModuleInterface>,
    exports: Vec<Arc<Export>>,
    destroyed: Arc<AtomicBool>,
}

impl Drop for PythonModule {
    fn drop(&mut self) {
        self.destroyed.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for PythonModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "module @{} of {} Python functions", self.name, self.exports.len())
    }
}

/// What the constructor returned.
#[derive(Debug)]
struct PythonState(Py<PyAny>);

impl ModuleState for PythonState {}

impl PythonModule {
    fn export(&self, ordinal: u32) -> Result<&Export> {
        let export = self.exports.get(ordinal as usize);
        export
            .map(|export| &**export)
            .ok_or_else(|| Error::out_of_range(format!("module @{} has no exported function {ordinal}", self.name)))
    }
}

impl Module for PythonModule {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> ModuleSignature {
        ModuleSignature { export_count: self.exports.len(), ..ModuleSignature::default() }
    }

    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32> {
        let position = || self.exports.iter().position(|export| export.name == name);
        (linkage == Linkage::Export).then(position).flatten().map(|position| position as u32)
    }

    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>> {
        let export = self.exports.get(ordinal as usize).filter(|_| linkage == Linkage::Export)?;
        Some(FunctionInfo { name: &export.name, calling_convention: &export.convention, optional: false })
    }

    fn allocate_state(&self, _: &Limits) -> Result<Box<dyn ModuleState>> {
        with_python(|py| {
            let state = self.interface.get().constructor.call1(py, (self.interface.clone_ref(py),));
            let state = state.map_err(|raised| error_of(py, "exception raised by the constructor", &raised))?;
            Ok(Box::new(PythonState(state)) as Box<dyn ModuleState>)
        })
    }

    fn begin_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        _: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let (state, export) = (state.downcast::<PythonState>()?, self.export(export)?);
        with_python(|py| {
            call(py, state, export, buffer).map_err(|error| error.context(format!("@{}.{}", self.name, export.name)))
        })?;
        Ok(Completion::Done)
    }
}

/// Calls a function with the values of a call buffer, and leaves its results there.
fn call(py: Python<'_>, state: &PythonState, export: &Export, buffer: &mut CallBuffer) -> Result<()> {
    let raised = |raised: PyErr| error_of(py, "exception raised from Python", &raised);
    let convention = CallingConvention::parse(&export.convention)?;
    let items: Vec<ConventionItem> = convention.arguments().collect();
    let mut arguments = vec![state.0.bind(py).clone()];
    for value in buffer.values(&items) {
        arguments.push(to_python(py, value?).map_err(raised)?);
    }
    buffer.finish_arguments();
    let arguments = PyTuple::new(py, arguments).map_err(raised)?;
    let returned = export.callable.bind(py).call1(arguments).map_err(raised)?;
    let mut items = convention.results();
    match convention.result_letters().len() {
        0 => Ok(()),
        1 => items.try_for_each(|item| {
            buffer.push(to_value(&returned, item).map_err(raised)?);
            Ok(())
        }),
        count => {
            let results: Vec<Bound<'_, PyAny>> = returned.extract().map_err(raised)?;
            if results.len() != count {
                return Err(Error::invalid_argument(format!("{} results are returned, not {count}", results.len())));
            }
            results.iter().zip(items).try_for_each(|(result, item)| {
                buffer.push(to_value(result, item).map_err(raised)?);
                Ok(())
            })
        }
    }
}

fn to_python(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::I32(value) => value.into_pyobject(py)?.into_any(),
        Value::I64(value) => value.into_pyobject(py)?.into_any(),
        Value::F32(value) => value.into_pyobject(py)?.into_any(),
        Value::F64(value) => value.into_pyobject(py)?.into_any(),
        Value::Ref(reference) => Bound::new(py, VmRef(reference))?.into_any(),
    })
}

fn to_value(object: &Bound<'_, PyAny>, item: ConventionItem) -> PyResult<Value> {
    Ok(match item {
        ConventionItem::I32 => Value::I32(object.extract()?),
        ConventionItem::I64 => Value::I64(object.extract()?),
        ConventionItem::F32 => Value::F32(object.extract()?),
        ConventionItem::F64 => Value::F64(object.extract()?),
        ConventionItem::Ref => Value::Ref(reference_of(object)?),
        ConventionItem::SpanStart | ConventionItem::SpanEnd => {
            return Err(PyValueError::new_err("functions written in Python are not variadic"));
        }
    })
}
