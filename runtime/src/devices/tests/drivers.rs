//! Drivers: the URIs of devices, and what the devices answer.

use super::{device, executable};
use crate::StatusCode;
use crate::hal::local::Loaders;
use crate::hal::{Device, DeviceOptions, DriverRegistry};

#[test]
fn devices_are_made_by_address_and_answer_queries() {
    let registry = DriverRegistry::default();
    assert_eq!(registry.device_uris().first().unwrap(), "local-sync://");
    // Shortcuts around the registry know which driver is the first.
    assert_eq!(registry.driver("").unwrap().name(), crate::devices::local::DEFAULT_DRIVER);
    assert_eq!(crate::devices::default_device(DeviceOptions::default()).id(), crate::devices::local::DEFAULT_DRIVER);
    for uri in ["", "local-sync", "local-sync://", "local-sync://0", "local-task://?workers=2"] {
        let (made, expected) =
            (Device::create(uri).unwrap(), registry.create_device(uri, DeviceOptions::default()).unwrap());
        assert_eq!((made.id(), made.concurrency()), (expected.id(), expected.concurrency()), "{uri}");
    }
    for uri in ["", "local-sync", "local-sync://", "local-sync://0"] {
        assert_eq!(registry.create_device(uri, DeviceOptions::default()).unwrap().id(), "local-sync", "{uri}");
    }
    for (uri, code) in [
        ("remote", StatusCode::NotFound),
        ("local-sync://7", StatusCode::NotFound),
        ("local-sync://?speed=11", StatusCode::InvalidArgument),
    ] {
        assert_eq!(registry.create_device(uri, DeviceOptions::default()).unwrap_err().code(), code, "{uri}");
    }
    let device = device();
    assert_eq!(device.query(&Loaders::default(), "hal.device.id", "local*"), Some(1));
    assert_eq!(device.query(&Loaders::default(), "hal.device.id", "vulkan*"), Some(0));
    assert_eq!(device.query(&Loaders::default(), "hal.executable.format", "test-format"), Some(1));
    assert_eq!(device.query(&Loaders::default(), "hal.executable.format", "other"), Some(0));
    assert_eq!(device.query(&Loaders::default(), "hal.dispatch", "concurrency"), Some(1));
    assert_eq!(device.query(&Loaders::default(), "hal.device", "concurrency"), Some(1));
    let task = registry.create_device("local-task://?workers=3", DeviceOptions::default()).unwrap();
    assert_eq!(task.query(&Loaders::default(), "hal.dispatch", "concurrency"), Some(3));
    assert_eq!(task.query(&Loaders::default(), "hal.device", "concurrency"), Some(1));
    assert_eq!(device.query(&Loaders::default(), "hal.dispatch", "colour"), None);
    let error =
        device.create_executable(&Loaders::all(), "other", &[], None, &[], crate::vm::Ledger::HOST).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(executable(&device).lookup("nothing").is_err());
}

#[test]
fn addresses_have_parameters() {
    let registry = DriverRegistry::default();
    let device = registry.create_device("local-task://default?workers=3&spin_us=0&pin=1", DeviceOptions::default());
    assert_eq!(device.unwrap().concurrency(), 3);
    for uri in ["local-task?workers=0", "local-task?workers=x", "local-task?workers=5000", "local-task?colour=1"] {
        let error = registry.create_device(uri, DeviceOptions::default()).unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument, "{uri}");
    }
    assert_eq!(
        registry.create_device("local-task://7", DeviceOptions::default()).unwrap_err().code(),
        StatusCode::NotFound
    );
}
