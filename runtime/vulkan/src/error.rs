//! Results of Vulkan as errors with a status code.

use ash::vk;

use crate::{Error, Result};

/// Converts the result of a Vulkan function; `what` says what was done.
pub(crate) trait Checked<T> {
    fn checked(self, what: &str) -> Result<T>;
}

impl<T> Checked<T> for Result<T, vk::Result> {
    fn checked(self, what: &str) -> Result<T> {
        self.map_err(|result| error(result, what))
    }
}

/// The error of a Vulkan function that failed.
#[cold]
pub(crate) fn error(result: vk::Result, what: &str) -> Error {
    match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY | vk::Result::ERROR_TOO_MANY_OBJECTS => {
            Error::resource_exhausted(format!("{what}: the system has no memory for it ({result:?})"))
        }
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_POOL_MEMORY => {
            Error::resource_exhausted(format!("{what}: the Vulkan device has no memory for it"))
        }
        vk::Result::ERROR_DEVICE_LOST => device_lost(what),
        vk::Result::ERROR_FEATURE_NOT_PRESENT | vk::Result::ERROR_EXTENSION_NOT_PRESENT => {
            Error::unavailable(format!("{what}: the Vulkan device lacks what it needs ({result:?})"))
        }
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            Error::incompatible(format!("{what}: the Vulkan driver is too old ({result:?})"))
        }
        other => Error::internal(format!("{what}: Vulkan reports {other:?}")),
    }
}

/// The error of everything on a device that is lost.
#[cold]
pub(crate) fn device_lost(what: &str) -> Error {
    Error::unavailable(format!("{what}: the Vulkan device is lost; create it and the sessions on it again"))
}
