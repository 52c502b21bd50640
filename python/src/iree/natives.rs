//! Native modules, which programs import: `hal` and `io_parameters`, and `hal_inline` and `hal_loader` as dependencies.

use std::sync::Arc;

use incarnate_runtime::hal::format::format_view;
use incarnate_runtime::hal::{BufferView, Device};
use incarnate_runtime::modules::hal::HalOptions;
use incarnate_runtime::modules::hal_inline::HalInlineOptions;
use incarnate_runtime::modules::hal_loader::HalLoaderOptions;
use incarnate_runtime::modules::io_parameters::IoParametersOptions;
use incarnate_runtime::modules::{TraceSink, hal, hal_inline, hal_loader, io_parameters};
use incarnate_runtime::vm::Module;
use incarnate_runtime::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::buffer::HalBufferView;
use super::device::HalDevice;
use super::module::{VmInstance, VmModule};
use super::parameters::ParameterProvider;
use super::status::{error_of, with_python};

/// Elements of a traced tensor that are printed where there is no sink.
const PRINTED_ELEMENTS: usize = 1024;

/// Receives the tensors that a program traces: calls `buffer_view_trace_callback` with a key and a list of buffer views.
#[pyclass(module = "incarnate.iree.runtime")]
pub(super) struct HalModuleDebugSink {
    callback: Option<Py<PyAny>>,
}

#[pymethods]
impl HalModuleDebugSink {
    #[new]
    fn new(buffer_view_trace_callback: Option<Py<PyAny>>) -> HalModuleDebugSink {
        HalModuleDebugSink { callback: buffer_view_trace_callback }
    }

    /// The callback.
    #[getter]
    fn buffer_view_trace_callback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.callback.as_ref().map(|callback| callback.clone_ref(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.callback)
    }

    fn __clear__(&mut self) {
        self.callback = None;
    }
}

fn call_sink(py: Python<'_>, sink: &Py<HalModuleDebugSink>, key: &str, views: &[Arc<BufferView>]) -> PyResult<()> {
    let Some(callback) = sink.try_borrow(py)?.buffer_view_trace_callback(py) else { return Ok(()) };
    let objects = PyList::empty(py);
    for view in views {
        objects.append(HalBufferView::wrap(py, Arc::clone(view))?)?;
    }
    callback.call1(py, (key, objects)).map(drop)
}

fn print_views(key: &str, views: &[Arc<BufferView>]) -> Result<()> {
    for view in views {
        let mut text = String::new();
        format_view(&mut text, view, PRINTED_ELEMENTS)?;
        eprintln!("{key}: {text}");
    }
    Ok(())
}

fn trace_sink(sink: Option<Py<HalModuleDebugSink>>) -> TraceSink {
    let Some(sink) = sink else { return TraceSink::new(print_views) };
    TraceSink::new(move |key, views| {
        with_python(|py| {
            call_sink(py, &sink, key, views)
                .map_err(|raised| error_of(py, "exception raised by the trace callback", &raised))
        })
    })
}

/// Creates the module `hal` for one device or for several. What programs trace goes to `debug_sink`; without one it is printed.
#[pyfunction]
#[pyo3(signature = (instance, device = None, devices = None, debug_sink = None))]
pub(super) fn create_hal_module(
    instance: &Bound<'_, VmInstance>,
    device: Option<Bound<'_, HalDevice>>,
    devices: Option<Vec<Bound<'_, HalDevice>>>,
    debug_sink: Option<Py<HalModuleDebugSink>>,
) -> PyResult<VmModule> {
    let _ = instance;
    let devices: Vec<Arc<Device>> = match (device, devices) {
        (Some(device), None) => vec![Arc::clone(&device.get().device)],
        (None, Some(devices)) => devices.iter().map(|device| Arc::clone(&device.get().device)).collect(),
        (Some(_), Some(_)) => return Err(PyValueError::new_err("pass device or devices, not both")),
        (None, None) => return Err(PyValueError::new_err("pass device or devices")),
    };
    let options = HalOptions { devices, trace_sink: trace_sink(debug_sink), ..HalOptions::default() };
    Ok(VmModule::native(Arc::new(hal::module(options))))
}

/// Creates the module `io_parameters` of parameter providers. The first provider of a scope serves it.
#[pyfunction]
#[pyo3(signature = (instance, *providers))]
pub(super) fn create_io_parameters_module(
    instance: &Bound<'_, VmInstance>,
    providers: Vec<Bound<'_, ParameterProvider>>,
) -> VmModule {
    let _ = instance;
    let providers = providers.iter().map(|provider| Arc::clone(&provider.get().0)).collect();
    let options = IoParametersOptions { providers, ..IoParametersOptions::default() };
    VmModule::native(Arc::new(io_parameters::module(options)))
}

/// Creates a native module that modules depend on by its name.
pub(super) fn dependency(name: &str, minimum_version: u32) -> Result<Arc<dyn Module>> {
    let module: Arc<dyn Module> = match name {
        hal_inline::NAME => Arc::new(hal_inline::module(HalInlineOptions::default())),
        hal_loader::NAME => Arc::new(hal_loader::module(HalLoaderOptions::default())),
        _ => {
            let known = [hal_inline::NAME, hal_loader::NAME].join(", ");
            return Err(Error::not_found(format!("no native module is named '{name}'; there are {known}")));
        }
    };
    let version = module.signature().version;
    if version < minimum_version {
        let why = format!("@{name} of version {minimum_version} is needed, and version {version} is there");
        return Err(Error::incompatible(why));
    }
    Ok(module)
}
