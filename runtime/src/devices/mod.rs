//! Devices by name: drivers, their registry, and the devices that they create.

mod device;
mod driver;
mod local;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(feature = "vulkan")]
mod vulkan;
mod waiting;

pub use device::{Device, DeviceOptions};
pub use driver::{DeviceInfo, DeviceUri, Driver, DriverRegistry};
pub(crate) use local::default_device;
pub use waiting::{wait_for_program, wait_for_results};
