//! Explains why a module finds no device.
//!
//! A program asks at its start for a device that it was compiled for. Without one, it fails with a message that the compiler wrote
//! into it: the attributes of its targets, `#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", {...}>]>`.

use crate::bytecode::ExecutableTarget;
use crate::bytecode::executable_format::{ARCHITECTURE, SYSTEM_PREFIX, VMVX, is_unverified, untrusted_refusal};
use crate::bytecode::gpu_executable::{VULKAN_ADDRESSES, VULKAN_DESCRIPTORS, foreign_device, is_vulkan};
use crate::hal::Device;
use crate::hal::local::Loaders;
use crate::{Error, StatusCode};

/// Says in a few words what a module was compiled for, and what this program has.
pub(super) fn explain(error: Error, devices: &[std::sync::Arc<Device>], loaders: &Loaders) -> Error {
    if error.code() != StatusCode::Incompatible {
        return error;
    }
    let targets = ExecutableTarget::in_message(error.message());
    let Some(wanted) = wanted(error.message(), &targets) else { return error };
    if !loaders.permit_machine_code()
        && let Some(unverified) = only_unverified(&targets)
    {
        return Error::permission_denied(untrusted_refusal(&unverified.join(", ")));
    }
    let formats = || {
        let supported =
            |device: &Device, format: &str| device.query(loaders, "hal.executable.format", format) == Some(1);
        let gpu = [VULKAN_DESCRIPTORS, VULKAN_ADDRESSES].map(str::to_owned);
        let host = [format!("embedded-elf-{ARCHITECTURE}"), format!("{SYSTEM_PREFIX}{ARCHITECTURE}"), VMVX.to_owned()];
        let known = host.into_iter().chain(gpu);
        let any = |format: &String| devices.iter().any(|device| supported(device, format));
        known.filter(any).collect::<Vec<_>>().join(", ")
    };
    let names: Vec<&str> = devices.iter().map(|device| device.id()).collect();
    let have = match (names.join(", "), formats()) {
        (names, _) if names.is_empty() => "no device".to_owned(),
        (names, formats) if formats.is_empty() => names,
        (names, formats) => format!("{names} ({formats})"),
    };
    let name = error.message().split('`').nth(1).unwrap_or_default();
    let reason = match targets.iter().find_map(|target| loaders.refusal(target.format)) {
        Some(reason) => reason.to_owned(),
        None => {
            let reason = targets.iter().find_map(|target| for_gpu(target.format, devices, loaders)).unwrap_or_default();
            format!("this program has {have}{reason}")
        }
    };
    Error::incompatible(format!("the module's device `{name}` is compiled for {wanted}; {reason}"))
}

/// Returns the formats of code that no verifier checks; `None` if there are none, or if a device without such code could run another
/// target.
fn only_unverified<'a>(targets: &[ExecutableTarget<'a>]) -> Option<Vec<&'a str>> {
    let formats = || targets.iter().map(|target| target.format);
    let is_verified = |format: &str| !is_unverified(format) && foreign_device(format).is_none();
    let unverified: Vec<&str> = formats().filter(|format| is_unverified(format)).collect();
    (!unverified.is_empty() && !formats().any(is_verified)).then_some(unverified)
}

/// Says what would run executables of a format for GPUs, or why a device does not; `None` for other formats.
fn for_gpu(format: &str, devices: &[std::sync::Arc<Device>], loaders: &Loaders) -> Option<String> {
    if let Some(device) = foreign_device(format) {
        return Some(format!(", and no build of it runs {device}: compile the model for vulkan or llvm-cpu"));
    }
    let vulkan = devices.iter().find(|device| device.id() == "vulkan");
    Some(match vulkan {
        _ if !is_vulkan(format) => return None,
        Some(_) if !loaders.permit_machine_code() => {
            "; SPIR-V is code that no verifier checks, which the limits of the session refuse".to_owned()
        }
        Some(device) if device.loaders().is_some() => {
            "; the Vulkan device has loaders (DeviceOptions::loaders), and runs no SPIR-V then".to_owned()
        }
        Some(_) => "; the Vulkan device lacks bufferDeviceAddress".to_owned(),
        None if cfg!(feature = "vulkan") => "; --device=vulkan selects a Vulkan device".to_owned(),
        None => "; builds with the feature `vulkan` have Vulkan devices".to_owned(),
    })
}

/// Names the device in a program's message, and the formats of its targets with the processors that they are for.
fn wanted(message: &str, targets: &[ExecutableTarget<'_>]) -> Option<String> {
    const DEVICE: &str = "#hal.device.target<\"";
    let (device, _) = message.split_once(DEVICE)?.1.split_once('"')?;
    let executables: Vec<String> = targets.iter().map(ToString::to_string).collect();
    Some(if executables.is_empty() { device.to_owned() } else { format!("{device} ({})", executables.join("; ")) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{ExecutableTarget, explain, for_gpu, wanted};
    use crate::bytecode::gpu_executable::VULKAN_DESCRIPTORS;
    use crate::hal::local::{Loaders, SyncBackend};
    use crate::hal::{Device, DeviceOptions};
    use crate::vm::Limits;
    use crate::{Error, StatusCode};

    fn targets(message: &str) -> Option<String> {
        wanted(message, &ExecutableTarget::in_message(message))
    }

    #[test]
    fn targets_are_named_by_format_and_processor() {
        let cuda = "HAL device `__device_0` not found or unavailable: #hal.device.target<\"cuda\", [#hal.executable.target<\
                    \"cuda\", \"cuda-nvptx-fb\", {iree_codegen.target_info = #iree_gpu.target<arch = \"sm_80\">}>]>";
        assert_eq!(targets(cuda).as_deref(), Some("cuda (cuda-nvptx-fb, sm_80)"));
        let local = "#hal.device.target<\"local\", {ordinal = 0 : index}, [#hal.executable.target<\"vmvx\", \
                     \"vmvx-bytecode-fb\", {ukernels = \"none\"}>, #hal.executable.target<\"llvm-cpu\", \
                     \"embedded-elf-arm_64\", {cpu = \"generic\", cpu_features = \"\"}>]>";
        assert_eq!(targets(local).as_deref(), Some("local (vmvx-bytecode-fb; embedded-elf-arm_64, generic)"));
        assert_eq!(targets("#hal.device.target<\"cuda\""), Some("cuda".to_owned()));
        assert_eq!(targets("no such thing"), None);
    }

    /// The error of an untrusted module for executables of the given formats.
    fn refused(formats: &[&str]) -> Error {
        let target = |format: &&str| format!("#hal.executable.target<\"backend\", \"{format}\", {{}}>");
        let targets: Vec<String> = formats.iter().map(target).collect();
        let device = format!("#hal.device.target<\"local\", [{}]>", targets.join(", "));
        let error = Error::incompatible(format!("HAL device `__device_0` not found or unavailable: {device}"));
        explain(error, &[], &Loaders::all().within(Limits::portable()))
    }

    #[test]
    fn machine_code_is_blamed_where_nothing_else_could_run() {
        for formats in [&["embedded-elf-x86_64"][..], &["embedded-elf-x86_64", "cuda-nvptx-fb"], &[VULKAN_DESCRIPTORS]]
        {
            let error = refused(formats);
            assert_eq!(error.code(), StatusCode::PermissionDenied, "{error}");
            assert!(error.to_string().contains(&format!("machine code ({})", formats[0])), "{error}");
        }
        for formats in [&["embedded-elf-x86_64", "vmvx-bytecode-fb"][..], &["vmvx-bytecode-fb"], &["cuda-nvptx-fb"]] {
            let error = refused(formats);
            assert_eq!(error.code(), StatusCode::Incompatible, "{error}");
            assert!(error.to_string().contains("this program has no device"), "{error}");
        }
    }

    #[test]
    fn the_reason_for_no_code_of_a_gpu_is_the_session_s_or_the_device_s() {
        let of_options = |loaders| {
            let options = DeviceOptions { loaders, ..DeviceOptions::default() };
            [Arc::new(Device::new("vulkan", options, Arc::new(SyncBackend)))]
        };
        let reason = |devices: &[Arc<Device>], loaders: &Loaders| {
            for_gpu(VULKAN_DESCRIPTORS, devices, loaders).unwrap_or_default()
        };
        let untrusted = Loaders::all().within(Limits::portable());
        assert!(reason(&of_options(None), &untrusted).contains("which the limits of the session refuse"));
        assert!(reason(&of_options(Some(Vec::new())), &Loaders::all()).contains("DeviceOptions::loaders"));
        assert!(reason(&of_options(None), &Loaders::all()).contains("bufferDeviceAddress"));
        assert_eq!(for_gpu("vmvx-bytecode-fb", &[], &untrusted), None);
    }
}
