//! Models: modules that are loaded, and their functions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMappingProxy, PyTuple};

use crate::array;
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
    /// The functions by name, in the order of the module.
    functions: Py<PyDict>,
    main: Option<Py<Function>>,
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
    memory_limit: Option<u64>,
    object_limit: Option<u64>,
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
            memory_limit: self.memory_limit,
            object_limit: self.object_limit,
        })
    }
}

impl Model {
    /// Returns the function that the model is called for.
    fn main(&self, py: Python<'_>) -> PyResult<&Function> {
        match &self.main {
            Some(main) => Ok(main.get()),
            None => Err(PyTypeError::new_err(format!(
                "the model has several functions: call one of {}",
                self.functions.bind(py).keys()
            ))),
        }
    }
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
        let described: Vec<_> =
            loaded.functions.iter().map(|each| (each.name().to_owned(), each.signature())).collect();
        let module = Arc::new(Module::new(source, options, loaded));
        let functions = PyDict::new(py);
        for (index, (name, signature)) in described.iter().enumerate() {
            functions.set_item(name, Function::new(py, &module, index, name, signature)?)?;
        }
        let main = match &described[..] {
            [(name, _)] => functions.get_item(name)?,
            _ => MAIN_FUNCTIONS.iter().find_map(|name| functions.get_item(name).transpose()).transpose()?,
        };
        let main = main.map(|main| main.cast_into::<Function>()).transpose()?.map(Bound::unbind);
        Ok(Model { module, functions: functions.unbind(), main })
    }

    /// The functions by name.
    #[getter]
    fn functions<'py>(&self, py: Python<'py>) -> Bound<'py, PyMappingProxy> {
        PyMappingProxy::new(py, self.functions.bind(py).as_mapping())
    }

    /// The names and types of what the model takes and returns.
    #[getter]
    fn signature(&self, py: Python<'_>) -> PyResult<PySignature> {
        Ok(self.main(py)?.signature())
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.main(py)?.call(py, arguments, named, Form::Array)
    }

    /// Calls the model. Tensors among the results stay in the memory of the device: each is a `Tensor`.
    #[pyo3(signature = (*arguments, **named))]
    fn tensors<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.main(py)?.call(py, arguments, named, Form::Tensor)
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

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let functions = self.functions.bind(py);
        functions.get_item(name)?.ok_or_else(|| {
            PyAttributeError::new_err(format!("the model has no function '{name}'; it has {}", functions.keys()))
        })
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let names = py.import("builtins")?.getattr("object")?.call_method1("__dir__", (slf,))?.cast_into::<PyList>()?;
        slf.get().functions.bind(py).keys().iter().try_for_each(|name| names.append(name))?;
        Ok(names)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let of = match self.module.source() {
            Source::File(path) => path.display().to_string(),
            Source::Bytes(bytes) => format!("{} bytes", bytes.len()),
        };
        format!("<incarnate.Model of {of}: {}>", self.functions.bind(py).keys())
    }
}
