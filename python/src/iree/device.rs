//! `HalDriver` and `HalDevice`.

use std::collections::BTreeMap;
use std::sync::Arc;

use incarnate_runtime::Error;
use incarnate_runtime::hal::{
    BufferParameters, BufferUsage, Device, DeviceUri, Driver, DriverRegistry, Fences, MemoryType, Semaphore,
    SignalFence,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::allocator::HalAllocator;
use super::buffer::{HalBuffer, HalBufferView};
use super::command_buffer::HalCommandBuffer;
use super::dlpack;
use super::flag_parser;
use super::process::Process;
use super::status::{OrRaise, exception};
use super::timeline::{HalSemaphore, SemaphoreList};

/// What devices are created with: numbers, or the dictionaries of `query_available_devices`.
#[derive(FromPyObject)]
enum DeviceChoice<'py> {
    Number(u64),
    Info(Bound<'py, PyDict>),
}

/// The devices of one kind.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct HalDriver {
    registry: DriverRegistry,
    name: String,
}

impl HalDriver {
    fn driver(&self, py: Python<'_>) -> PyResult<&dyn Driver> {
        self.registry.driver(&self.name).or_raise(py, "Error creating driver")
    }

    fn create(&self, py: Python<'_>, uri: &DeviceUri<'_>, allocators: Option<Vec<String>>) -> PyResult<HalDevice> {
        check_allocators(allocators.unwrap_or_default())?;
        let driver = self.driver(py)?;
        let options = flag_parser::device_options();
        let device = py.detach(|| driver.create_device(uri, options)).or_raise(py, "Error creating device")?;
        Ok(HalDevice { device, process: Process::current() })
    }
}

/// Allocators that can be put around that of a device. Its own caches, and checks every access.
const ALLOCATORS: &[&str] = &["caching", "debug"];

fn check_allocators(names: Vec<String>) -> PyResult<()> {
    // A name may have options behind a colon.
    match names.iter().find(|name| !ALLOCATORS.contains(&name.split(':').next().unwrap_or_default())) {
        None => Ok(()),
        Some(name) => {
            Err(PyValueError::new_err(format!("'{name}' is no allocator; there are {}", ALLOCATORS.join(", "))))
        }
    }
}

/// Creates the driver of a device's URI, or of a name.
#[pyfunction]
pub(super) fn create_hal_driver(py: Python<'_>, device_uri: &str) -> PyResult<HalDriver> {
    let registry = DriverRegistry::default();
    let name = DeviceUri::parse(device_uri).driver.to_owned();
    registry.driver(&name).or_raise(py, "Error creating driver")?;
    Ok(HalDriver { registry, name })
}

#[pymethods]
impl HalDriver {
    /// Returns the names of the drivers.
    #[staticmethod]
    fn query() -> Vec<String> {
        DriverRegistry::default().drivers().map(|driver| driver.name().to_owned()).collect()
    }

    /// Creates the first device.
    #[pyo3(signature = (allocators = None))]
    fn create_default_device(&self, py: Python<'_>, allocators: Option<Vec<String>>) -> PyResult<HalDevice> {
        self.create(py, &DeviceUri::parse(&self.name), allocators)
    }

    /// Creates a device by its number, or by a dictionary of `query_available_devices`.
    #[pyo3(signature = (device_id, params = None, allocators = None))]
    fn create_device(
        &self,
        py: Python<'_>,
        device_id: DeviceChoice<'_>,
        params: Option<BTreeMap<String, String>>,
        allocators: Option<Vec<String>>,
    ) -> PyResult<HalDevice> {
        let number = match &device_id {
            DeviceChoice::Number(number) => *number,
            DeviceChoice::Info(info) => {
                let number =
                    info.get_item("device_id")?.ok_or_else(|| PyTypeError::new_err("no device_id is given"))?;
                number.extract()?
            }
        };
        let devices = self.driver(py)?.devices();
        let Some(info) = usize::try_from(number).ok().and_then(|number| devices.get(number)) else {
            return Err(PyValueError::new_err(format!(
                "device {number} does not exist; driver {} has {} devices",
                self.name,
                devices.len()
            )));
        };
        let params = params.unwrap_or_default();
        let parameters = params.iter().map(|(key, value)| (&**key, &**value)).collect();
        self.create(py, &DeviceUri { driver: &self.name, path: &info.path, parameters }, allocators)
    }

    /// Creates a device by its URI.
    #[pyo3(signature = (device_uri, allocators = None))]
    fn create_device_by_uri(
        &self,
        py: Python<'_>,
        device_uri: &str,
        allocators: Option<Vec<String>>,
    ) -> PyResult<HalDevice> {
        self.create(py, &DeviceUri::parse(device_uri), allocators)
    }

    /// Returns the devices, as dictionaries of `device_id`, `path` and `name`.
    fn query_available_devices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let devices = PyList::empty(py);
        for (number, info) in self.driver(py)?.devices().iter().enumerate() {
            let device = PyDict::new(py);
            device.set_item("device_id", number)?;
            device.set_item("path", &info.path)?;
            // The only device of a driver has no path.
            device.set_item("name", if info.path.is_empty() { "default" } else { &info.name })?;
            devices.append(device)?;
        }
        Ok(devices)
    }

    /// Returns a description of a device.
    fn dump_device_info(&self, py: Python<'_>, device_id: usize) -> PyResult<String> {
        let driver = self.driver(py)?;
        let devices = driver.devices();
        let missing = || PyValueError::new_err(format!("device {device_id} of driver {} does not exist", self.name));
        let info = devices.get(device_id).ok_or_else(missing)?;
        Ok(format!("{}://{}: {}, {}\n", driver.name(), info.path, info.name, driver.description()))
    }

    fn __repr__(&self) -> String {
        format!("<HalDriver {}>", self.name)
    }
}

/// A device: memory, and a queue of operations.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct HalDevice {
    pub(super) device: Arc<Device>,
    process: Process,
}

impl HalDevice {
    fn check(&self) -> PyResult<()> {
        self.process.check("the device")
    }
}

impl Drop for HalDevice {
    fn drop(&mut self) {
        self.process.keep_in_children(&self.device);
    }
}

/// The fences of a queue operation.
fn fences<'a>(wait: &'a SemaphoreList, signal: &SemaphoreList) -> Fences<'a> {
    let signal = signal.0.clone().map_or(SignalFence::None, SignalFence::Given);
    Fences { wait: wait.0.as_deref(), signal, ..Fences::default() }
}

#[pymethods]
impl HalDevice {
    /// The allocator of the device's memory.
    #[getter]
    fn allocator(&self) -> HalAllocator {
        HalAllocator(Arc::clone(&self.device))
    }

    /// Does nothing without a mode: profiles of modes need a sink, which `incarnate bench --profile` has.
    #[pyo3(signature = (mode = None))]
    fn begin_profiling(&self, mode: Option<&str>) -> PyResult<()> {
        match mode {
            None => Ok(()),
            Some(mode) => Err(PyValueError::new_err(format!(
                "profiling of mode '{mode}' needs a profile sink, which Python has none of; use incarnate bench --profile"
            ))),
        }
    }

    /// Does nothing.
    fn flush_profiling(&self) {}

    /// Does nothing.
    fn end_profiling(&self) {}

    /// Refused: devices of the host have no capture tools.
    #[pyo3(signature = (provider, file_path = None, label = None))]
    fn begin_external_capture(
        &self,
        py: Python<'_>,
        provider: &str,
        file_path: Option<&str>,
        label: Option<&str>,
    ) -> PyResult<()> {
        let _ = (file_path, label);
        let error = Error::unimplemented(format!("device {} is not captured by '{provider}'", self.device.id()));
        Err(exception(py, "starting external device capture", &error))
    }

    /// Refused: no capture can begin.
    fn end_external_capture(&self, py: Python<'_>) -> PyResult<()> {
        let error = Error::failed_precondition("no capture has begun");
        Err(exception(py, "ending external device capture", &error))
    }

    /// Creates a semaphore with a payload.
    fn create_semaphore(&self, initial_value: u64) -> HalSemaphore {
        HalSemaphore(Arc::new(Semaphore::new(initial_value)))
    }

    /// Allocates a buffer, which is ready when the semaphores to signal are signalled.
    fn queue_alloca<'py>(
        &self,
        py: Python<'py>,
        allocation_size: u64,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<Bound<'py, HalBuffer>> {
        self.check()?;
        let usage = BufferUsage::TRANSFER | BufferUsage::DISPATCH_STORAGE;
        let parameters = BufferParameters { memory_type: MemoryType::DEVICE_LOCAL, usage };
        let fences = fences(&wait_semaphores, &signal_semaphores);
        let buffer = py.detach(|| self.device.queue_alloca(fences, parameters, allocation_size));
        HalBuffer::wrap(py, buffer.or_raise(py, "allocating memory on queue")?)
    }

    /// Gives a share of a buffer up when the semaphores to wait for are signalled. The memory lives as long as other shares, such as
    /// that of the object in Python.
    fn queue_dealloca(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, HalBuffer>,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<()> {
        self.check()?;
        let (buffer, fences) = (Arc::clone(&buffer.get().0), fences(&wait_semaphores, &signal_semaphores));
        py.detach(|| self.device.queue_dealloca(fences, buffer)).or_raise(py, "deallocating memory on queue")
    }

    /// Executes a command buffer, or nothing if it is None, when the semaphores to wait for are signalled.
    fn queue_execute(
        &self,
        py: Python<'_>,
        command_buffers: Option<&Bound<'_, HalCommandBuffer>>,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<()> {
        self.check()?;
        let fences = fences(&wait_semaphores, &signal_semaphores);
        let commands = command_buffers.map(|commands| Arc::clone(&commands.get().commands));
        let submitted = py.detach(|| match &commands {
            Some(commands) => self.device.queue_execute(fences, commands, &[]),
            None => self.device.queue_barrier(fences),
        });
        submitted.or_raise(py, "executing command buffers")
    }

    /// Copies all of a buffer to the beginning of another one when the semaphores to wait for are signalled.
    fn queue_copy(
        &self,
        py: Python<'_>,
        source_buffer: &Bound<'_, HalBuffer>,
        target_buffer: &Bound<'_, HalBuffer>,
        wait_semaphores: SemaphoreList,
        signal_semaphores: SemaphoreList,
    ) -> PyResult<()> {
        self.check()?;
        let (source, target) = (Arc::clone(&source_buffer.get().0), Arc::clone(&target_buffer.get().0));
        let (length, available) = (source.byte_length(), target.byte_length());
        if length > available {
            return Err(PyValueError::new_err(format!(
                "the source's length must be less than or equal to the target's, and they are {length} and {available} bytes"
            )));
        }
        let fences = fences(&wait_semaphores, &signal_semaphores);
        let copied = py.detach(|| self.device.queue_copy(fences, (source, 0), (target, 0), length));
        copied.or_raise(py, "Copying buffer on queue")
    }

    /// Creates a DLPack capsule of a buffer view, which keeps its memory, for a DLPack device that the caller chooses.
    fn create_dlpack_capsule<'py>(
        &self,
        py: Python<'py>,
        buffer_view: &Bound<'py, HalBufferView>,
        device_type_code: i32,
        device_id: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        dlpack::export(py, &buffer_view.get().0, device_type_code, device_id)
    }

    #[expect(clippy::wrong_self_convention, reason = "the interface is given")]
    /// Creates a buffer view of a DLPack capsule: in place if the memory is aligned to 64 bytes, and else of a copy.
    fn from_dlpack_capsule<'py>(&self, capsule: &Bound<'py, PyAny>) -> PyResult<Bound<'py, HalBufferView>> {
        dlpack::import(&self.device, capsule)
    }

    fn __repr__(&self) -> String {
        self.device.id().to_owned()
    }
}
