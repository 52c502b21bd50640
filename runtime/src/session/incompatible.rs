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
    let mut unverified = targets.iter().map(|target| target.format).filter(|format| is_unverified(format)).peekable();
    if !loaders.permit_machine_code() && unverified.peek().is_some() {
        return Error::permission_denied(untrusted_refusal(&unverified.collect::<Vec<_>>().join(", ")));
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
    let have = if names.is_empty() { "no device".to_owned() } else { format!("{} ({})", names.join(", "), formats()) };
    let name = error.message().split('`').nth(1).unwrap_or_default();
    let reason = match targets.iter().find_map(|target| loaders.refusal(target.format)) {
        Some(reason) => reason.to_owned(),
        None => {
            let reason = targets.iter().find_map(|target| for_gpu(target.format, devices)).unwrap_or_default();
            format!("this program has {have}{reason}")
        }
    };
    Error::incompatible(format!("the module's device `{name}` is compiled for {wanted}; {reason}"))
}

/// Says what would run executables of a format for GPUs, or why a device does not; `None` for other formats.
fn for_gpu(format: &str, devices: &[std::sync::Arc<Device>]) -> Option<String> {
    if let Some(device) = foreign_device(format) {
        return Some(format!(", and no build of it runs {device}: compile the model for vulkan or llvm-cpu"));
    }
    let vulkan = devices.iter().find(|device| device.id() == "vulkan");
    Some(match vulkan {
        _ if !is_vulkan(format) => return None,
        Some(device) if device.loaders().is_some() => {
            "; SPIR-V is code from outside, which the options of the device refuse (--untrusted)".to_owned()
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
    use super::{ExecutableTarget, wanted};

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
}
