//! The drivers of local devices.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::device::{Device, DeviceOptions};
use super::driver::{DeviceInfo, DeviceUri, Driver};
use crate::hal::local::SyncBackend;
#[cfg(feature = "local-task")]
use crate::hal::local::engine::TaskBackend;
use crate::{Error, Result};

/// Every local driver, the default first. The one list of them.
pub(super) fn default_drivers() -> Vec<Box<dyn Driver>> {
    vec![
        Box::new(SyncDriver),
        #[cfg(feature = "local-task")]
        Box::new(TaskDriver),
    ]
}

/// The name of the first of them, which makes the [`default_device`].
pub(super) const DEFAULT_DRIVER: &str = "local-sync";

/// Makes the default device without looking for its driver, which would have every driver linked into the program.
pub(crate) fn default_device(options: DeviceOptions) -> Arc<Device> {
    Arc::new(Device::new(DEFAULT_DRIVER, options, Arc::new(SyncBackend)))
}

/// Makes `local-sync` devices.
#[derive(Debug)]
struct SyncDriver;

impl Driver for SyncDriver {
    fn name(&self) -> &'static str {
        DEFAULT_DRIVER
    }

    fn description(&self) -> &'static str {
        "runs everything on the calling thread"
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo { path: "".into(), name: "the calling thread".into() }]
    }

    fn create_device(&self, uri: &DeviceUri<'_>, options: DeviceOptions) -> Result<Arc<Device>> {
        check_path(self.name(), uri)?;
        if let Some((key, _)) = uri.parameters.first() {
            return Err(Error::invalid_argument(format!("{} has no parameter '{key}'", self.name())));
        }
        Ok(default_device(options))
    }
}

/// Makes `local-task` devices. Parameters of their addresses are those of [`TaskOptions`](crate::hal::local::engine::TaskOptions).
#[cfg(feature = "local-task")]
#[derive(Debug)]
struct TaskDriver;

#[cfg(feature = "local-task")]
impl Driver for TaskDriver {
    fn name(&self) -> &'static str {
        "local-task"
    }

    fn description(&self) -> &'static str {
        "runs on the cores of the host; parameters: workers=N, spin_us=N, pin=0|1"
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo { path: "".into(), name: "the cores of the host".into() }]
    }

    fn create_device(&self, uri: &DeviceUri<'_>, options: DeviceOptions) -> Result<Arc<Device>> {
        check_path(self.name(), uri)?;
        let backend = TaskBackend::new(&options.task.clone().with_parameters(&uri.parameters)?)?;
        Ok(Arc::new(Device::new(self.name(), options, Arc::new(backend))))
    }
}

fn check_path(driver: &str, uri: &DeviceUri<'_>) -> Result<()> {
    match uri.path {
        "" | "default" | "0" => Ok(()),
        other => Err(Error::not_found(format!("{driver} has no device '{other}'; it has 'default'"))),
    }
}
