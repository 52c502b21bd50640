//! Models: modules that are loaded, and their functions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use incarnate_runtime::vm::parse_byte_size;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMappingProxy, PyTuple};

use crate::array;
use crate::callee::Callee;
use crate::error::invalid_argument;
use crate::function::{self, Function};
use crate::interrupt;
use crate::module::{Loaded, Module, Source};
use crate::options::LoadOptions;
use crate::parameters::Parameters;
use crate::result::Form;
use crate::signature::PySignature;
use crate::tensor::Tensor;

/// The functions that a model is called for if it has several.
const MAIN_FUNCTIONS: &[&str] = &["main", "main_graph", "forward"];

/// A model: `model(x)` calls its function, `model.encode(x)` the one of that name.
///
/// Threads may call the same model at once. In a child of `fork`, the model is loaded again at its first call.
#[pyclass(frozen, module = "incarnate", weakref, dict)]
pub(crate) struct Model {
    module: Arc<Module>,
    /// The functions, in the order of the module.
    functions: Vec<Arc<Callee>>,
    /// The function that the model is called for.
    main: Option<Arc<Callee>>,
}

/// The arguments of `load` as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Arguments {
    device: Option<Devices>,
    workers: Option<usize>,
    parameters: Option<Py<PyAny>>,
    reassociate: bool,
    untrusted: bool,
    timeout: Option<f64>,
    fuel: Option<u64>,
    memory_limit: Option<ByteSize>,
    object_limit: Option<u64>,
}

/// A size in bytes: a number, or text such as `512MiB`.
#[derive(FromPyObject)]
enum ByteSize {
    Number(u64),
    Text(String),
}

impl ByteSize {
    fn bytes(self, py: Python<'_>) -> PyResult<u64> {
        match self {
            ByteSize::Number(bytes) => Ok(bytes),
            ByteSize::Text(text) => parse_byte_size(&text)
                .map_err(|error| invalid_argument(py, format!("memory_limit: {}", error.message()))),
        }
    }
}

/// One device or several.
#[derive(FromPyObject)]
enum Devices {
    One(String),
    Several(Vec<String>),
}

impl Arguments {
    fn options(self, py: Python<'_>) -> PyResult<LoadOptions> {
        let parameters = match &self.parameters {
            Some(parameters) => Parameters::from_python(parameters.bind(py))?,
            None => Parameters::default(),
        };
        let timeout = self.timeout.map(Duration::try_from_secs_f64).transpose();
        Ok(LoadOptions {
            devices: match self.device {
                None => Vec::new(),
                Some(Devices::One(device)) => vec![device],
                Some(Devices::Several(devices)) => devices,
            },
            workers: self.workers,
            parameters,
            reassociate: self.reassociate,
            untrusted: self.untrusted,
            timeout: timeout.map_err(|error| invalid_argument(py, format!("timeout: {error}")))?,
            fuel: self.fuel,
            memory_limit: self.memory_limit.map(|size| size.bytes(py)).transpose()?,
            object_limit: self.object_limit,
        })
    }
}

impl Model {
    /// Returns the function that the model is called for.
    fn main(&self) -> PyResult<&Callee> {
        self.main.as_deref().ok_or_else(|| {
            PyTypeError::new_err(format!("the model has several functions; call one of {}", self.names().join(", ")))
        })
    }

    fn names(&self) -> Vec<&str> {
        self.functions.iter().map(|callee| callee.name()).collect()
    }
}

/// Returns a function of a model as an object.
fn function(model: &Bound<'_, Model>, callee: &Arc<Callee>) -> Function {
    Function::new(model.clone().into_any().unbind(), Arc::clone(&model.get().module), Arc::clone(callee))
}

#[pymethods]
impl Model {
    /// Loads a module: a path, or the bytes of a file. `options` are those of `incarnate.load`.
    #[new]
    fn new(py: Python<'_>, module: &Bound<'_, PyAny>, options: Arguments) -> PyResult<Model> {
        let options = options.options(py)?;
        let source = match module.cast::<PyBytes>() {
            Ok(bytes) => Source::Bytes(bytes.as_bytes().into()),
            Err(_) => Source::File(std::path::absolute(module.extract::<PathBuf>()?)?),
        };
        let loaded = interrupt::detached(py, || Loaded::new(&source, &options))?;
        let described = loaded.functions.iter().enumerate();
        let functions =
            described.map(|(index, each)| Callee::new(py, index, each.name(), &each.signature()).map(Arc::new));
        let functions = functions.collect::<PyResult<Vec<_>>>()?;
        let main = match &functions[..] {
            [only] => Some(only),
            _ => MAIN_FUNCTIONS.iter().find_map(|name| functions.iter().find(|callee| callee.name() == *name)),
        };
        let main = main.cloned();
        Ok(Model { module: Arc::new(Module::new(source, options, loaded)), functions, main })
    }

    /// The functions by name.
    #[getter]
    fn functions<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMappingProxy>> {
        let functions = PyDict::new(slf.py());
        for callee in &slf.get().functions {
            functions.set_item(callee.name(), function(slf, callee))?;
        }
        Ok(PyMappingProxy::new(slf.py(), functions.as_mapping()))
    }

    /// The names and types of what the model takes and returns.
    #[getter]
    fn signature(&self) -> PyResult<PySignature> {
        Ok(PySignature::new(self.main()?.signature().clone()))
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.main()?.call(&self.module, arguments, named, Form::Array)
    }

    /// Calls the model. Tensors among the results stay in the memory of the device: each is a `Tensor`.
    #[pyo3(signature = (*arguments, **named))]
    fn tensors<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.main()?.call(&self.module, arguments, named, Form::Tensor)
    }

    /// Returns the statistics of the device's memory, in bytes: `live` and `peak`, `allocated` and `freed` in all, `cached` for reuse.
    fn memory_statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.module.loaded(py)?.session.allocator().statistics();
        let rows = PyDict::new(py);
        rows.set_item("live", statistics.live)?;
        rows.set_item("peak", statistics.peak)?;
        rows.set_item("allocated", statistics.allocated)?;
        rows.set_item("freed", statistics.freed)?;
        rows.set_item("cached", statistics.cached)?;
        Ok(rows)
    }

    /// Calls the model without blocking the event loop: returns a coroutine.
    #[pyo3(signature = (*arguments, **named))]
    fn call_async<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        function::call_async(slf.as_any(), arguments, named)
    }

    /// Copies an array, or a tensor of another library, into the memory of the model's device.
    fn tensor(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let allocator = self.module.loaded(py)?.session.allocator();
        array::copy(values, allocator).map(Tensor::new)
    }

    /// Pickles the model: see the guide.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("incarnate._load")?.call_method1("reduce", (slf,))
    }

    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Function> {
        let model = slf.get();
        match model.functions.iter().find(|callee| callee.name() == name) {
            Some(callee) => Ok(function(slf, callee)),
            None => {
                let names = model.names().join(", ");
                Err(PyAttributeError::new_err(format!("the model has no function '{name}'; its functions are {names}")))
            }
        }
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let names = py.import("builtins")?.getattr("object")?.call_method1("__dir__", (slf,))?.cast_into::<PyList>()?;
        slf.get().functions.iter().try_for_each(|callee| names.append(callee.name()))?;
        Ok(names)
    }

    fn __repr__(&self) -> String {
        let of = match self.module.source() {
            Source::File(path) => path.display().to_string(),
            Source::Bytes(bytes) => format!("{} bytes", bytes.len()),
        };
        format!("<incarnate.Model of {of}: {}>", self.names().join(", "))
    }
}
