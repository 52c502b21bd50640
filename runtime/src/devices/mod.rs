//! Devices by name: drivers, their registry, and the devices that they create.

mod device;
mod driver;
mod local;
#[cfg(all(test, not(loom)))]
mod tests;

pub use device::{Device, DeviceOptions, Fences};
pub use driver::{DeviceInfo, DeviceUri, Driver, DriverRegistry};
pub(crate) use local::default_device;
