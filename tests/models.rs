//! Every case of every model of tests/models, through the library, on every device.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use incarnate_runtime::hal::DriverRegistry;
use support::cases::{self, Case};
use support::compare::{self, Output};
use support::parallel;
use support::program::{Instance, Machine};
use support::value::{Tensor, Value};

/// Describes the error in a case on a module and a device, if there is one.
fn fault(case: &Case, module: &Path, device: &str) -> Option<String> {
    let files = case.modules.iter().map(AsRef::as_ref).chain([module]);
    let instance = match Instance::load(files, &case.machine(device)) {
        Ok(instance) => instance,
        Err(error) => return Some(format!("loading: {error}")),
    };
    for (number, call) in case.calls.iter().enumerate() {
        let fault = match (instance.call(&call.function, &call.inputs), &call.fails) {
            (Ok(outputs), None) => compare::mismatch(call, &outputs),
            (Ok(_), Some(status)) => Some(format!("succeeded, {status} expected")),
            (Err(error), Some(status)) if error.code().name() == status => None,
            (Err(error), Some(status)) => Some(format!("{error}, where {status} is expected")),
            (Err(error), None) => Some(error.to_string()),
        };
        if let Some(fault) = fault {
            return Some(format!("call {number}, @{}: {fault}", call.function));
        }
    }
    None
}

#[test]
fn every_case_matches_on_every_device() {
    let devices = DriverRegistry::default().device_uris();
    assert!(devices.iter().any(|uri| uri.starts_with("local-sync")), "{devices:?}");
    let models = cases::models();
    let (mut skipped, mut runs) = (0, Vec::new());
    for (model, device) in models.iter().flat_map(|model| devices.iter().map(move |device| (model, device))) {
        assert!(model.variants.len() + model.others > 0 && !model.cases.is_empty(), "{}", model.folder.display());
        skipped += model.others * model.cases.len();
        runs.extend(model.runs().map(|(variant, case)| (variant, case, device)));
    }
    let faults = Mutex::new(Vec::new());
    parallel::for_each(&runs, |(variant, case, device)| {
        if let Some(fault) = fault(case, variant, device) {
            let fault = format!("{} [{}] on {device}: {fault}", variant.display(), case.name);
            faults.lock().expect("the faults").push(fault);
        }
    });
    let faults = faults.into_inner().expect("the faults");
    let passed = runs.len() - faults.len();
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), faults.len() + passed, faults.join("\n"));
    assert!(passed >= 40 * devices.len(), "only {passed} cases were found");
    println!("{passed} cases passed, {skipped} are for other processors");
}

/// The model that was trained on real images classifies the test images as well as in training.
#[test]
fn digits_are_recognised() {
    let folder = cases::root().join("digits");
    let promised = fs::read_to_string(folder.join("accuracy.txt")).expect("accuracy.txt");
    let promised: f64 = promised.trim().parse().expect("a number");
    let images = Value::Tensor(Tensor::read_npy(&folder.join("test_images.in0.npy")));
    let labels = Tensor::read_npy(&folder.join("labels.npy")).integers();
    let digits = cases::models().into_iter().find(|model| model.folder == folder).expect("digits");
    for variant in &digits.variants {
        let model = Instance::load([variant.as_path()].into_iter(), &Machine::of("local-sync")).expect("the model");
        let outputs = model.call("classify", std::slice::from_ref(&images)).expect("results");
        let [_, Output::Tensor(digits)] = outputs.as_slice() else { panic!("{outputs:?}") };
        let digits = digits.integers();
        assert_eq!((digits.len(), labels.len()), (360, 360));
        let right = digits.iter().zip(&labels).filter(|(digit, label)| digit == label).count();
        let accuracy = right as f64 / labels.len() as f64;
        assert!(
            accuracy >= promised - 1e-6 && promised > 0.9,
            "{}: {accuracy}, {promised} promised",
            variant.display()
        );
    }
}

/// The comparison must be able to detect errors.
#[test]
fn wrong_expectations_are_noticed() {
    let model = cases::models().into_iter().find(|model| model.folder.ends_with("simple_mul")).expect("simple_mul");
    let mut cases = model.cases;
    let case = cases.iter_mut().find(|case| case.name == "text").expect("the case");
    assert_eq!(fault(case, &model.variants[0], "local-sync"), None);
    let Value::Tensor(expected) = &mut case.calls[0].expected[0] else { panic!("an array") };
    expected.bytes[14] ^= 0x40;
    let fault = fault(case, &model.variants[0], "local-sync").expect("a fault");
    assert!(fault.contains("result 0: element 3: 8, "), "{fault}");
}
