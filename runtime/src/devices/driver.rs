//! Drivers and their registry: devices by name.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::device::{Device, DeviceOptions};
use crate::{Error, Result};

/// A device that a driver can create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The part of its URI after `driver://`; empty for the only device of a driver.
    pub path: String,
    /// A human-readable name.
    pub name: String,
}

/// The URI of a device: `driver`, `driver://path` or `driver://path?key=value&key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUri<'a> {
    /// The driver's name.
    pub driver: &'a str,
    /// The device of the driver; empty for its default.
    pub path: &'a str,
    /// Parameters of the device, in order.
    pub parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> DeviceUri<'a> {
    /// Parses a URI. Parsing never fails; drivers reject unknown paths and parameters.
    #[must_use]
    pub fn parse(uri: &'a str) -> DeviceUri<'a> {
        let (address, parameters) = uri.split_once('?').unwrap_or((uri, ""));
        let (driver, path) = address.split_once("://").unwrap_or((address, ""));
        let parameters = parameters.split('&').filter(|parameter| !parameter.is_empty());
        DeviceUri {
            driver,
            path,
            parameters: parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, ""))).collect(),
        }
    }
}

/// Creates devices of one kind.
pub trait Driver: Send + Sync + fmt::Debug {
    /// Returns the name that its URIs begin with.
    fn name(&self) -> &'static str;

    /// Returns a human-readable description.
    fn description(&self) -> &'static str;

    /// Returns the devices that it can create, the default first.
    fn devices(&self) -> Vec<DeviceInfo>;

    /// Creates a device.
    ///
    /// # Errors
    /// NOT_FOUND for an unknown path; INVALID_ARGUMENT for unknown parameters.
    fn create_device(&self, uri: &DeviceUri<'_>, options: DeviceOptions) -> Result<Arc<Device>>;
}

/// Drivers by name.
#[derive(Debug)]
pub struct DriverRegistry {
    pub(super) drivers: Vec<Box<dyn Driver>>,
}

impl DriverRegistry {
    /// Creates a registry without drivers.
    #[must_use]
    pub fn empty() -> DriverRegistry {
        DriverRegistry { drivers: Vec::new() }
    }

    /// Adds a driver.
    ///
    /// # Errors
    /// ALREADY_EXISTS if the name is taken.
    pub fn register(&mut self, driver: Box<dyn Driver>) -> Result<()> {
        if self.drivers.iter().any(|other| other.name() == driver.name()) {
            let message = format!("a driver named '{}' is registered already", driver.name());
            return Err(Error::new(crate::StatusCode::AlreadyExists, message));
        }
        self.drivers.push(driver);
        Ok(())
    }

    /// Returns the drivers.
    pub fn drivers(&self) -> impl Iterator<Item = &dyn Driver> {
        self.drivers.iter().map(|driver| &**driver)
    }

    /// Returns the driver of a name; an empty name selects the default one.
    ///
    /// # Errors
    /// NOT_FOUND if it does not exist.
    pub fn driver(&self, name: &str) -> Result<&dyn Driver> {
        self.find(name).ok_or_else(|| self.missing(&format!("devices of '{name}'")))
    }

    fn find(&self, name: &str) -> Option<&dyn Driver> {
        self.drivers().find(|driver| name.is_empty() || driver.name() == name)
    }

    fn missing(&self, what: &str) -> Error {
        let names: Vec<&str> = self.drivers().map(Driver::name).collect();
        Error::not_found(format!("no driver for {what}; drivers: {}", names.join(", ")))
    }

    /// Returns the URIs of all devices of all drivers, the default first.
    #[must_use]
    pub fn device_uris(&self) -> Vec<String> {
        let devices = self.drivers().flat_map(|driver| driver.devices().into_iter().map(|info| (driver.name(), info)));
        devices.map(|(driver, info)| format!("{driver}://{}", info.path)).collect()
    }

    /// Creates the device of a URI; an empty one selects the default device.
    ///
    /// # Errors
    /// NOT_FOUND if the driver or its device does not exist; INVALID_ARGUMENT for unknown parameters.
    pub fn create_device(&self, uri: &str, options: DeviceOptions) -> Result<Arc<Device>> {
        let parsed = DeviceUri::parse(uri);
        let driver = self.find(parsed.driver).ok_or_else(|| self.missing(&format!("device '{uri}'")))?;
        driver.create_device(&parsed, options).map_err(|error| error.context(format!("creating device '{uri}'")))
    }
}
