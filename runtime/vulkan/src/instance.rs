//! The Vulkan loader, instances, and the devices that they enumerate.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::ffi::{CStr, c_void};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ash::vk;

use crate::error::Checked;
use crate::features::Properties;
use crate::{Error, Result};

/// The layer that checks how Vulkan is used.
const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Messages of validation layers in this process.
static MESSAGES: AtomicU64 = AtomicU64::new(0);

/// Returns the number of messages of validation layers in this process so far.
#[must_use]
pub fn validation_messages() -> u64 {
    MESSAGES.load(Ordering::Relaxed)
}

/// An instance of Vulkan, and the library that it comes from.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// Unloaded after everything else.
    _entry: ash::Entry,
}

/// Instances that are in use, without and with validation.
static INSTANCES: Mutex<[Weak<Instance>; 2]> = Mutex::new([Weak::new(), Weak::new()]);

impl Instance {
    /// Returns the instance of the process with or without validation layers.
    ///
    /// # Errors
    /// UNAVAILABLE if this machine has no Vulkan, or no validation layers.
    pub(crate) fn shared(validates: bool) -> Result<Arc<Instance>> {
        let mut instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
        let [plain, validating] = &mut *instances;
        let slot = if validates { validating } else { plain };
        if let Some(instance) = slot.upgrade() {
            return Ok(instance);
        }
        let instance = Arc::new(Instance::create(validates)?);
        *slot = Arc::downgrade(&instance);
        Ok(instance)
    }

    fn create(validates: bool) -> Result<Instance> {
        // SAFETY: the library is the system's Vulkan loader, whose initialisers are trusted like those of any linked library.
        let entry = unsafe { ash::Entry::load() };
        let entry = entry.map_err(|error| {
            Error::unavailable(format!("this machine has no Vulkan loader ({error}); install the drivers of the GPU"))
        })?;
        // SAFETY: the entry is loaded.
        let version = unsafe { entry.try_enumerate_instance_version() }.checked("asking for the version of Vulkan")?;
        if version.is_none_or(|version| version < vk::API_VERSION_1_2) {
            return Err(Error::unavailable("the Vulkan loader of this machine is older than version 1.2"));
        }
        let application = vk::ApplicationInfo::default().engine_name(c"Incarnate").api_version(vk::API_VERSION_1_3);
        let (layers, extensions) = ([VALIDATION.as_ptr()], [ash::ext::debug_utils::NAME.as_ptr()]);
        let mut messenger = messenger_info();
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if validates {
            info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions).push_next(&mut messenger);
        }
        // SAFETY: `info` refers to values of this function, and all strings end in NUL.
        let raw = match unsafe { entry.create_instance(&info, None) } {
            Err(vk::Result::ERROR_LAYER_NOT_PRESENT) => {
                return Err(Error::unavailable("VK_LAYER_KHRONOS_validation is not installed, and was asked for"));
            }
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => {
                return Err(Error::unavailable("this machine has a Vulkan loader and no Vulkan driver"));
            }
            other => other.checked("creating a Vulkan instance")?,
        };
        let mut instance = Instance { raw, messenger: None, _entry: entry };
        if validates {
            let functions = ash::ext::debug_utils::Instance::new(&instance._entry, &instance.raw);
            // SAFETY: the instance has the extension; the callback has the declared type and refers to a static only.
            let messenger = unsafe { functions.create_debug_utils_messenger(&messenger_info(), None) };
            instance.messenger = Some((functions, messenger.checked("creating a debug messenger")?));
        }
        Ok(instance)
    }

    /// Returns the devices of the machine that this driver can use, in Vulkan's order, with their properties.
    pub(crate) fn devices(&self) -> Result<Vec<Properties>> {
        // SAFETY: the instance lives.
        let devices = unsafe { self.raw.enumerate_physical_devices() }.checked("enumerating Vulkan devices")?;
        let clocks = ash::ext::calibrated_timestamps::Instance::new(&self._entry, &self.raw);
        let tells_time = |device: vk::PhysicalDevice| {
            // SAFETY: the caller asks for devices of this instance that have the extension.
            let domains = unsafe { clocks.get_physical_device_calibrateable_time_domains(device) };
            domains.is_ok_and(|domains| domains.contains(&vk::TimeDomainEXT::DEVICE))
        };
        let with_clock = |mut properties: Properties| {
            properties.has_calibrated_timestamps &= tells_time(properties.physical);
            properties
        };
        let devices = devices.into_iter().filter_map(|device| Properties::of(&self.raw, device));
        Ok(devices.map(with_clock).collect())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some((functions, messenger)) = &self.messenger {
            // SAFETY: the messenger belongs to this instance, which lives, and is destroyed once.
            unsafe { functions.destroy_debug_utils_messenger(*messenger, None) };
        }
        // SAFETY: every object of the instance keeps a share of it, so none is left.
        unsafe { self.raw.destroy_instance(None) };
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instance")
    }
}

fn messenger_info() -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE)
        .pfn_user_callback(Some(report))
}

/// Counts and prints a message of a validation layer.
unsafe extern "system" fn report(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: Vulkan passes a valid pointer, or none, whose message is a string that lives during the call.
    let message = unsafe { data.as_ref().and_then(|data| data.message_as_c_str()) };
    let message = message.map(CStr::to_string_lossy).unwrap_or_default();
    // A layer may call from any thread, and a panic must not cross it.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("validation: {message}\n").as_bytes());
    vk::FALSE
}
