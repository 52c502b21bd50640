//! Builders of untrusted modules, and the provided native modules.

use super::*;
use crate::StatusCode;
use crate::hal::local::loaders::EmbeddedElfLoader;

fn model(name: &str) -> SessionBuilder {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/simple_mul");
    Session::builder().device("local-sync").module_file(format!("{folder}/{name}.vmfb"))
}

#[test]
fn untrusted_modules_have_limits_and_no_machine_code() {
    let session = model("vmvx").untrusted().build().unwrap();
    let limits = session.context().limits();
    assert_eq!((limits.fuel, limits.machine_code), (Some(Limits::PORTABLE_FUEL), false));
    assert_eq!(limits.ledger.byte_limit(), Limits::PORTABLE_BYTES);
    let product: crate::session::Tensor<f32> = {
        let numbers = session.tensor([1.0f32, 2.0, 3.0, 4.0]).unwrap();
        session.function("simple_mul").unwrap().call((&numbers, &numbers)).unwrap()
    };
    assert_eq!(product.to_vec().unwrap(), [1.0, 4.0, 9.0, 16.0]);
    // Explicit limits are kept, in whatever order.
    let fuel = || Limits { fuel: Some(7), ..Limits::default() };
    for builder in [model("vmvx").limits(fuel()).untrusted(), model("vmvx").untrusted().limits(fuel())] {
        let (limits, kernel_limits) = { builder }.resolved_limits().unwrap();
        assert_eq!((limits.fuel, limits.machine_code, kernel_limits.machine_code), (Some(7), false, false));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn machine_code_is_refused_on_every_device() {
    use crate::hal::local::loaders::VmvxLoader;

    let device = Device::create("local-sync").unwrap();
    let own_loaders: Vec<Arc<dyn ExecutableLoader>> =
        vec![Arc::new(VmvxLoader::default()), Arc::new(EmbeddedElfLoader)];
    let options = DeviceOptions { loaders: Some(own_loaders), ..DeviceOptions::default() };
    let trusting = || Limits { machine_code: true, ..Limits::portable() };
    for (name, builder) in [
        ("a device of the session", model("llvm-cpu").untrusted()),
        ("a shared device", model("llvm-cpu").shared_device(device).untrusted()),
        ("a device that has a loader of its own", model("llvm-cpu").device_options(options).untrusted()),
        ("the limits alone", model("llvm-cpu").limits(Limits::portable())),
        ("the limits of kernels alone", model("llvm-cpu").kernel_limits(Limits::portable())),
        ("limits that permit machine code", model("llvm-cpu").limits(trusting()).untrusted()),
    ] {
        let Err(error) = builder.build() else { unreachable!("{name} is refused") };
        assert_eq!(error.code(), StatusCode::PermissionDenied, "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains("machine code (embedded-elf"), "{name}: {text}");
        assert!(text.contains("--untrusted") && text.contains("SessionBuilder::untrusted"), "{name}: {text}");
        assert!(text.contains("--target=portable") && text.lines().count() == 1, "{name}: {text}");
        assert!(text.contains("untrusted=True") && text.contains("target=\"portable\""), "{name}: {text}");
    }
    assert!(model("llvm-cpu").build().is_ok());
}

#[test]
fn a_loader_of_machine_code_is_refused_as_the_program_s() {
    let with_loader = || model("vmvx").executable_loader(Arc::<EmbeddedElfLoader>::default());
    for builder in [with_loader().untrusted(), with_loader().limits(Limits::portable())] {
        let error = builder.build().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.code(), StatusCode::PermissionDenied, "{text}");
        assert!(text.contains("the program's executable loader embedded-elf runs machine code"), "{text}");
        assert!(text.contains("remove the loader") && !text.contains("compile the model"), "{text}");
    }
}

#[test]
fn the_provided_modules_are_listed() {
    let names: Vec<&str> = natives::ALL.iter().map(|native| native.name).collect();
    let listed: Vec<&str> = crate::modules::imports::PROVIDED.iter().map(|row| row.0).collect();
    assert_eq!(names, listed);
}
