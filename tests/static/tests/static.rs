//! Kernels that are linked into the program, translated and interpreted.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::needless_borrows_for_generic_args, reason = "programs may pass references")]
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::sync::Arc;

use incarnate::runtime::hal::local::library::abi::{Environment, LibraryHeader};
use incarnate::runtime::hal::local::loaders::{StaticLibrary, StaticLibraryLoader};
use incarnate::runtime::hal::{DeviceOptions, DriverRegistry};
use incarnate::{Device, Session, StatusCode, Tensor};
use incarnate_static_tests::{kernels, other};

/// Two modules whose kernels are libraries that the program links, or does not.
#[cfg(target_arch = "x86_64")]
const MODULES: [&[u8]; 2] = [include_bytes!("../kernels.vmfb"), include_bytes!("../other.vmfb")];
#[cfg(target_arch = "aarch64")]
const MODULES: [&[u8]; 2] = [include_bytes!("../kernels_arm_64.vmfb"), include_bytes!("../other_arm_64.vmfb")];

fn inputs() -> (Vec<f32>, Vec<f32>) {
    let numbers = |count: usize| (0..count).map(|index| (index * 37 % 11) as f32 - 5.0).collect();
    (numbers(5 * 16), numbers(16 * 7))
}

/// Computes the layer in plain Rust; integers, so that sums are exact.
fn expected() -> Vec<f32> {
    let (x, w) = inputs();
    let element =
        |row: usize, column: usize| (0..16).map(|k| x[row * 16 + k] * w[k * 7 + column]).sum::<f32>().max(0.0);
    (0..5).map(|row| (0..7).map(|column| element(row, column)).sum()).collect()
}

/// Creates a device without loaders.
fn closed_device(uri: &str) -> Arc<Device> {
    let options = DeviceOptions { loaders: Some(Vec::new()), ..DeviceOptions::default() };
    DriverRegistry::default().create_device(uri, options).unwrap()
}

#[test]
fn translated_programs_run_linked_kernels_on_every_device() {
    let (x, w) = inputs();
    for uri in ["local-sync", "local-task"] {
        for device in [Device::create(uri).unwrap(), closed_device(uri)] {
            let module = kernels::Module::load(&device).unwrap();
            assert_eq!(module.layer(&x, &w).unwrap().to_vec().unwrap(), expected());
        }
    }
    let module = other::Module::load(&closed_device("local-sync")).unwrap();
    assert_eq!(module.square(&[1.0, -2.0, 3.0, 0.5]).unwrap().to_vec().unwrap(), [1.0, 4.0, 9.0, 0.25]);
}

#[allow(unsafe_code, reason = "declares a function of linked kernels")]
fn library() -> StaticLibrary {
    unsafe extern "C" {
        fn static_kernels_linked_library_query(
            version: u32,
            environment: *const Environment,
        ) -> *const *const LibraryHeader;
    }
    // SAFETY: the function is in the object of kernels that the compiler wrote beside the module.
    unsafe { StaticLibrary::new(static_kernels_linked_library_query) }
}

#[test]
fn interpreted_programs_run_linked_kernels() {
    assert_eq!(library().name().unwrap(), "static_kernels_linked");
    let (x, w) = inputs();
    for uri in ["local-sync", "local-task"] {
        let loader = Arc::new(StaticLibraryLoader::new([library()]));
        let builder = Session::builder().executable_loader(loader).shared_device(closed_device(uri));
        let session = builder.module_static(MODULES[0]).build().unwrap();
        let (x, w) = (Tensor::new(&session, &[5, 16], &x).unwrap(), Tensor::new(&session, &[16, 7], &w).unwrap());
        let result: Tensor<f32> = session.function("layer").unwrap().call((&x, &w)).unwrap();
        assert_eq!(result.to_vec().unwrap(), expected());
    }
}

#[test]
fn libraries_that_are_not_linked_are_errors() {
    let error = Session::builder().module_static(MODULES[0]).build().unwrap_err();
    assert_eq!(error.code(), StatusCode::Incompatible, "{error}");
    // A library that is not the program's.
    let loader = Arc::new(StaticLibraryLoader::new([library()]));
    let error = Session::builder().executable_loader(loader).module_static(MODULES[1]).build().unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    let text = error.to_string();
    assert!(
        text.contains("no static library `square_dispatch_0`") && text.contains("`static_kernels_linked`"),
        "{text}"
    );
}
