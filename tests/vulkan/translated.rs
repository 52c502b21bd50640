//! Modules that are compiled for Vulkan and translated: as any other, on the device that a name creates.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, reason = "tests")]

use incarnate::{Device, Tensor};

incarnate::include_module!(descriptors = "vulkan/modules/simple_mul.descriptor.vmfb");
incarnate::include_module!(addresses = "vulkan/modules/simple_mul.bda.vmfb");

#[test]
fn translated_modules_run_unchanged() {
    let device = match Device::create("vulkan") {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    let values = |from: f32| vec![from, from + 1.0, from + 2.0, from + 3.0];
    let module = descriptors::Module::load(&device).unwrap();
    let product: Tensor<f32> = module.simple_mul(values(1.0), vec![2.5; 4]).unwrap();
    assert_eq!(product.to_vec().unwrap(), [2.5, 5.0, 7.5, 10.0]);
    let module = addresses::Module::load(&device).unwrap();
    for round in 0..20 {
        let factor = round as f32;
        let product: Tensor<f32> = module.simple_mul(values(0.0), vec![factor; 4]).unwrap();
        let expected: Vec<f32> = values(0.0).iter().map(|value| value * factor).collect();
        assert_eq!(product.to_vec().unwrap(), expected);
    }
}
