//! The devices of a machine, and their names in URIs.

use ash::vk;

use crate::features::Properties;
use crate::instance::Instance;
use crate::{Error, Result};

/// A device of the machine.
#[derive(Clone, Debug)]
pub struct DeviceDescription {
    /// The part of its URI after `vulkan://`: its UUID.
    pub path: String,
    /// Its name, kind and version of Vulkan.
    pub name: String,
}

/// Returns the devices of the machine, the default first; none on a machine without Vulkan.
#[must_use]
pub fn devices() -> Vec<DeviceDescription> {
    let found = Instance::shared(false).and_then(|instance| instance.devices());
    let mut found = found.unwrap_or_else(|error| {
        tracing::debug!(%error, "no Vulkan devices");
        Vec::new()
    });
    found.sort_by_key(rank);
    found.iter().map(|device| DeviceDescription { path: device.path(), name: describe(device) }).collect()
}

fn describe(device: &Properties) -> String {
    let kind = match device.kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => "discrete GPU",
        vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated GPU",
        vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual GPU",
        vk::PhysicalDeviceType::CPU => "processor",
        _ => "other device",
    };
    let version = device.version;
    let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
    format!("{}, {kind}, Vulkan {major}.{minor}", device.name)
}

/// The default device is the first of the least rank.
fn rank(device: &Properties) -> u32 {
    match device.kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
        vk::PhysicalDeviceType::CPU => 3,
        _ => 4,
    }
}

/// Returns the device that a path names: empty or `default` for the default one, an index in Vulkan's order, or a UUID.
///
/// # Errors
/// NOT_FOUND if there is none; UNAVAILABLE if there is no device at all.
pub(crate) fn find(devices: Vec<Properties>, path: &str) -> Result<Properties> {
    if devices.is_empty() {
        return Err(Error::unavailable(
            "this machine has no Vulkan device of version 1.2 or newer with timeline semaphores; `vulkaninfo` lists devices",
        ));
    }
    let paths: Vec<String> = devices.iter().map(Properties::path).collect();
    let count = devices.len();
    let mut devices = devices.into_iter();
    let found = match path {
        "" | "default" => devices.min_by_key(rank),
        _ => match path.parse::<usize>() {
            Ok(index) => devices.nth(index),
            Err(_) => devices.find(|device| device.path().eq_ignore_ascii_case(path)),
        },
    };
    found.ok_or_else(|| {
        Error::not_found(format!("vulkan has no device '{path}'; it has 0 to {}, or {}", count - 1, paths.join(", ")))
    })
}
