//! Modules that are compiled for Vulkan, on the Vulkan device of the machine; skipped where there is none.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use incarnate_runtime::StatusCode;
use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::bytecode::gpu_executable::{KernelExecutable, VulkanExecutable};
use incarnate_runtime::hal::local::Loaders;
use incarnate_runtime::hal::local::loaders::VmvxLoader;
use incarnate_runtime::hal::{Device, DeviceOptions, DriverRegistry};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::profile::{self, EventKind, Track};
use incarnate_runtime::vm::Ledger;
use support::cases::{self, Case};
use support::compare;
use support::program::{Instance, Machine};

/// Held while a device executes, because a profile contains what all devices of the process do meanwhile.
static DEVICE: Mutex<()> = Mutex::new(());

fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vulkan/modules")
}

/// Returns the parameters of the device's URI; `None`, with the reason, if the machine has no Vulkan device.
fn parameters() -> Option<&'static str> {
    let registry = DriverRegistry::default();
    if registry.driver("vulkan").unwrap().devices().is_empty() {
        println!("skipped: this machine has no Vulkan device");
        return None;
    }
    match registry.create_device("vulkan://?validation=1", DeviceOptions::default()) {
        Ok(_) => Some("validation=1"),
        Err(error) => {
            println!("without validation: {error}");
            Some("validation=0")
        }
    }
}

fn assert_valid() {
    assert_eq!(incarnate_runtime::hal::vulkan::validation_messages(), 0, "messages of validation layers");
}

/// Describes the error in a case on a module and devices, if there is one.
fn fault(case: &Case, module: &Path, devices: &[String]) -> Option<String> {
    let machine = Machine { devices: devices.to_vec(), plugins: Vec::new(), parameters: case.parameters.clone() };
    let instance = match Instance::load([module].into_iter(), &machine) {
        Ok(instance) => instance,
        Err(error) => return Some(format!("loading: {error}")),
    };
    case.calls.iter().find_map(|call| match (instance.call(&call.function, &call.inputs), &call.fails) {
        (Ok(outputs), None) => compare::mismatch(call, &outputs),
        (Ok(_), Some(status)) => Some(format!("succeeded, {status} expected")),
        (Err(error), Some(status)) if error.code().name() == status => None,
        (Err(error), _) => Some(error.to_string()),
    })
}

#[test]
fn models_return_what_is_expected() {
    let Some(parameters) = parameters() else { return };
    let _executing = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    let models = cases::models();
    let mut files: Vec<PathBuf> = std::fs::read_dir(modules()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut passed, mut faults) = (0, Vec::new());
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let (model, kind) = name.split_once('.').unwrap();
        if !["descriptor.vmfb", "bda.vmfb"].contains(&kind) {
            continue;
        }
        let model = models.iter().find(|row| row.folder.ends_with(model)).unwrap();
        for access in ["automatic", "staged"] {
            let device = format!("vulkan://?{parameters}&host_access={access}");
            // Its part for the host is machine code for x86-64.
            if name.starts_with("two_devices") && !cfg!(target_arch = "x86_64") {
                continue;
            }
            for case in &model.cases {
                let devices = match case.devices.as_slice() {
                    [] => vec![device.clone()],
                    // The second device of a case is one of the host.
                    [_, host] => vec![device.clone(), host.clone()],
                    _ => continue,
                };
                match fault(case, file, &devices) {
                    None => passed += 1,
                    Some(fault) => faults.push(format!("{name} [{}] {access}: {fault}", case.name)),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), faults.len() + passed, faults.join("\n"));
    assert!(passed >= 100, "only {passed} cases were found");
    println!("{passed} cases passed");
    assert_valid();
}

/// The executables of a module.
fn executables(file: &str, identifier: &str) -> Vec<Vec<u8>> {
    let contents = MappedFile::contents(&modules().join(file)).unwrap();
    let module = VerifiedModule::load(Arc::new(contents)).unwrap();
    let bytes = (0..module.rodata_count()).filter_map(|ordinal| Some(module.rodata_bytes(ordinal)?.into_owned()));
    bytes.filter(|bytes| bytes.starts_with(identifier.as_bytes())).collect()
}

fn create(device: &Device, format: &str, data: &[u8]) -> incarnate_runtime::Result<()> {
    device.create_executable(&Loaders::all(), format, data, None, &[], Ledger::HOST).map(drop)
}

#[test]
fn features_that_a_device_lacks_are_named() {
    if parameters().is_none() {
        return;
    }
    // A card that has the feature runs it, with validation or without.
    let device = Device::create("vulkan://?validation=0").unwrap();
    let found = executables("half_matmul.rdna3.vmfb", "VKE1");
    assert_eq!(found.len(), 1);
    match create(&device, "vulkan-spirv-fb", &found[0]) {
        Ok(()) => println!("the device has cooperative matrices"),
        Err(error) => {
            assert_eq!(error.code(), StatusCode::Unavailable, "{error}");
            let text = error.to_string();
            assert!(text.contains("cooperativeMatrix") || text.contains("subgroups of 32"), "{text}");
        }
    }
}

#[test]
fn profiles_contain_the_times_of_dispatches() {
    let Some(parameters) = parameters() else { return };
    let _executing = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    let models = cases::models();
    let model = models.iter().find(|row| row.folder.ends_with("mlp")).unwrap();
    let call = &model.cases[0].calls[0];
    let machine = Machine::of(&format!("vulkan://?{parameters}"));
    let module = modules().join("mlp.descriptor.vmfb");
    let instance = Instance::load([module.as_path()].into_iter(), &machine).unwrap();
    // The first recordings are made before the profile, and are not timed.
    instance.call(&call.function, &call.inputs).unwrap();
    profile::start();
    instance.call(&call.function, &call.inputs).unwrap();
    let recording = profile::stop();
    let is_of_device = |track: &&Track| track.thread.starts_with("vulkan ") && track.thread.ends_with(" queue 0");
    let track = recording.tracks.iter().find(is_of_device).unwrap();
    let dispatches: Vec<_> = track.events.iter().filter(|event| event.kind == EventKind::Dispatch).collect();
    assert!(dispatches.len() > 1, "{dispatches:?}");
    for event in &dispatches {
        assert!(event.name.contains("dispatch") && event.workgroups > 0 && event.bytes > 0, "{event:?}");
        assert!(event.duration.as_nanos() > 0 && event.start + event.duration <= recording.duration, "{event:?}");
    }
    // Times of one queue do not overlap. Where each recording begins is as exact as the comparison of the clocks.
    assert!(dispatches.iter().map(|event| event.duration).sum::<Duration>() <= recording.duration);
    assert_valid();
}

#[test]
fn untrusted_devices_refuse_code_for_gpus() {
    let Some(parameters) = parameters() else { return };
    let loaders = Some(vec![Arc::new(VmvxLoader::default()) as _]);
    let options = DeviceOptions { loaders, ..DeviceOptions::default() };
    let device = DriverRegistry::default().create_device(&format!("vulkan://?{parameters}"), options).unwrap();
    assert_eq!(device.query(&Loaders::all(), "hal.executable.format", "vulkan-spirv-fb"), Some(0));
    for data in executables("simple_mul.descriptor.vmfb", "VKE1") {
        let error = create(&device, "vulkan-spirv-fb", &data).unwrap_err();
        assert_eq!(error.code(), StatusCode::PermissionDenied, "{error}");
    }
}

/// A generator of numbers that repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

#[test]
fn damaged_containers_are_one_line_of_error() {
    let mut random = Random(7);
    let sources = [
        executables("mlp.descriptor.vmfb", "VKE1"),
        executables("mlp.bda.vmfb", "VKE1"),
        executables("simple_mul.cuda.vmfb", "CDA1"),
        executables("simple_mul.hip.vmfb", "HIP1"),
    ];
    let (mut refused, mut read) = (0, 0);
    for data in sources.iter().flatten() {
        for _ in 0..2000 {
            let mut bytes = data.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                    2 => bytes.truncate(at),
                    _ => {
                        let (from, count) = (random.below(bytes.len()), random.below(16));
                        let copy: Vec<u8> = bytes.iter().skip(from).take(count).copied().collect();
                        bytes.iter_mut().skip(at).zip(copy).for_each(|(byte, value)| *byte = value);
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let result = match bytes.starts_with(b"VKE1") {
                true => VulkanExecutable::read(&bytes).map(drop),
                false => KernelExecutable::read(&bytes).map(drop),
            };
            match result {
                Ok(()) => read += 1,
                Err(error) => {
                    assert!(!error.to_string().contains('\n'), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1000 && read > 0, "{refused} refused, {read} read");
    println!("{refused} mutants refused, {read} read");
}

#[test]
fn kernels_for_other_gpus_are_described() {
    for (file, identifier) in [("simple_mul.cuda.vmfb", "CDA1"), ("simple_mul.hip.vmfb", "HIP1")] {
        let found = executables(file, identifier);
        assert_eq!(found.len(), 1);
        let executable = KernelExecutable::read(&found[0]).unwrap();
        assert!(executable.kernels[0].name.starts_with("simple_mul_dispatch_0"));
        assert_eq!(executable.kernels[0].binding_count, 3);
        let is_text = executable.images[0].windows(6).any(|window| window == b".entry");
        assert_eq!(is_text, identifier == "CDA1");
    }
}
