//! The devices of this process: models of the same device share its workers and its memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use incarnate_runtime::hal::local::engine::TaskOptions;
use incarnate_runtime::hal::{Device, DeviceOptions, DriverRegistry};
use incarnate_runtime::{Error, Result};
use pyo3::prelude::*;

use crate::fork::{self, PerProcess};

/// The URI of a device and the number of its workers.
type Key = (String, Option<usize>);

/// The devices that models use. A device lives as long as one of them.
type Devices = Mutex<HashMap<Key, Weak<Device>>>;

static DEVICES: OnceLock<PerProcess<Devices>> = OnceLock::new();

/// The generation of the process that created the first device whose driver does not outlive a fork.
static OUTSIDE: OnceLock<u32> = OnceLock::new();

/// Checks that this process may create a device. The drivers of GPUs have threads and locks of their own, which a child of the process
/// that started them does not have.
///
/// # Errors
/// FAILED_PRECONDITION for such a device in a child.
pub(crate) fn check(uri: &str) -> Result<()> {
    if uri.is_empty() || uri.starts_with("local-") {
        return Ok(());
    }
    let generation = fork::generation();
    if *OUTSIDE.get_or_init(|| generation) == generation {
        return Ok(());
    }
    Err(Error::failed_precondition(format!(
        "device '{uri}' does not work in a child of fork, as its driver was started before: use the start method 'spawn'"
    )))
}

/// Returns the device of a URI, such as `local-task`, with a number of workers; None for one for each core that the process may use.
///
/// # Errors
/// NOT_FOUND if there is no such device; INVALID_ARGUMENT for unknown parameters and numbers of workers; those of [`check`].
pub(crate) fn shared(uri: &str, workers: Option<usize>) -> Result<Arc<Device>> {
    check(uri)?;
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
