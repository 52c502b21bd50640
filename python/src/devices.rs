//! The devices of this process: models of the same device share its workers and its memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use incarnate_runtime::hal::local::engine::TaskOptions;
use incarnate_runtime::hal::{Device, DeviceOptions, DriverRegistry};
use incarnate_runtime::{Error, Result};

use pyo3::prelude::*;

use crate::fork::PerProcess;

/// The URI of a device and the number of its workers.
type Key = (String, Option<usize>);

/// The devices that models use. A device lives as long as one of them.
type Devices = Mutex<HashMap<Key, Weak<Device>>>;

static DEVICES: OnceLock<PerProcess<Devices>> = OnceLock::new();

/// Returns the device of a URI, such as `local-task`, with a number of workers; None for one for each core that the process may use.
///
/// # Errors
/// NOT_FOUND if there is no such device; INVALID_ARGUMENT for unknown parameters and numbers of workers.
pub(crate) fn shared(uri: &str, workers: Option<usize>) -> Result<Arc<Device>> {
    let devices = DEVICES.get_or_init(|| PerProcess::new(Devices::default()));
    let devices = devices.get_or_try_create(|| Ok::<_, Error>(Devices::default()))?;
    let mut devices = devices.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (uri.to_owned(), workers);
    if let Some(device) = devices.get(&key).and_then(Weak::upgrade) {
        return Ok(device);
    }
    let device = DriverRegistry::default().create_device(uri, options(workers))?;
    devices.insert(key, Arc::downgrade(&device));
    Ok(device)
}

/// Returns the options of a device with a number of workers.
pub(crate) fn options(workers: Option<usize>) -> DeviceOptions {
    let task = TaskOptions { worker_count: workers, ..TaskOptions::default() };
    DeviceOptions { task, ..DeviceOptions::default() }
}

/// Returns the URIs of the devices of this machine.
#[pyfunction]
pub(crate) fn devices() -> Vec<String> {
    DriverRegistry::default().device_uris()
}
