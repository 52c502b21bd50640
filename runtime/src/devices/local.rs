//! The drivers of local devices, which are the default drivers.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::device::{Device, DeviceOptions};
use super::driver::{DeviceInfo, DeviceUri, Driver, DriverRegistry};
use crate::hal::local::SyncBackend;
#[cfg(feature = "local-task")]
use crate::hal::local::engine::TaskBackend;
use crate::{Error, Result};

impl Default for DriverRegistry {
    /// Every driver of this build, the default first. The one list of them.
    fn default() -> DriverRegistry {
        let drivers: Vec<Box<dyn Driver>> = vec![
            Box::new(SyncDriver),
            #[cfg(feature = "local-task")]
            Box::new(TaskDriver),
            #[cfg(feature = "vulkan")]
            Box::new(super::vulkan::VulkanDriver),
        ];
        DriverRegistry { drivers }
    }
}

/// The name of the first of them, which makes the [`default_device`].
pub(super) const DEFAULT_DRIVER: &str = "local-sync";

/// Makes the default device without looking for its driver, which would have every driver linked into the program.
pub(crate) fn default_device(options: DeviceOptions) -> Arc<Device> {
    Arc::new(Device::new(DEFAULT_DRIVER, options, Arc::new(SyncBackend)))
}

impl Device {
    /// Creates the device of a URI, such as `local-sync`, with default options; an empty URI selects the default
    /// device.
    ///
    /// # Errors
    /// NOT_FOUND if the driver or its device does not exist; INVALID_ARGUMENT for unknown parameters.
    #[expect(clippy::inline_always, reason = "what a program links depends on it")]
    #[inline(always)]
    pub fn create(uri: &str) -> Result<Arc<Device>> {
        // The comparison is constant for a literal: a program that uses only the default device links no other driver.
        if uri == DEFAULT_DRIVER {
            return Ok(default_device(DeviceOptions::default()));
        }
        Device::create_by_drivers(uri)
    }

    fn create_by_drivers(uri: &str) -> Result<Arc<Device>> {
        DriverRegistry::default().create_device(uri, DeviceOptions::default())
    }
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
        other => Err(Error::not_found(format!("{driver} has no device '{other}', only 'default'"))),
    }
}
