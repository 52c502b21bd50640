//! `HalDriver`.

use std::collections::BTreeMap;

use incarnate_runtime::hal::{DeviceUri, Driver, DriverRegistry};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::device::HalDevice;
use super::flag_parser;
use super::status::OrRaise;

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
        Ok(HalDevice::new(device))
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
