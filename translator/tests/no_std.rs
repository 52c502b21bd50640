//! Code for programs without `std`. `examples/bare-metal` compiles and runs such code.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use incarnate_bytecode::{Contents, StatusCode, VerifiedModule};
use incarnate_translator::{Constants, LoopOutcome, Options, generate};

fn module(path: &str) -> Arc<VerifiedModule> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(path);
    VerifiedModule::load(Arc::new(Contents::from_vec(std::fs::read(path).unwrap()))).unwrap()
}

#[test]
fn the_interface_names_no_device() {
    let output = generate(&module("digit/inline-static.vmfb"), &Options::no_std()).unwrap();
    let text = String::from_utf8(output.files("digit").unwrap().remove(0).contents).unwrap();
    assert!(text.contains("use ::incarnate_runtime::support::{\n    Arc, InlineNative, "), "{text}");
    assert!(text.contains("pub fn load() -> Result<Module>") && text.contains("&[InlineNative::DIRECT]"), "{text}");
    assert!(!text.contains("Device") && !text.contains("::incarnate::"), "{text}");
}

#[test]
fn nests_run_in_order() {
    let module = module("digit/inline-static.vmfb");
    let in_order = |options: &Options| {
        let output = generate(&module, options).unwrap();
        let texts: Vec<String> = output.loops().iter().map(ToString::to_string).collect();
        assert!(
            output.loops().iter().all(|remark| matches!(remark.outcome, LoopOutcome::Scheduled { .. })),
            "{texts:?}"
        );
        texts.iter().all(|text| text.contains("in order: the target is scalar"))
    };
    assert!(in_order(&Options::no_std()));
    assert!(!in_order(&Options::default()));
}

#[test]
fn modules_that_need_a_device_are_refused() {
    let error = generate(&module("simple_mul/vmvx.vmfb"), &Options::no_std()).unwrap_err();
    assert_eq!(error.code(), StatusCode::Incompatible);
    assert!(
        error.to_string().contains("the module imports @hal.") && error.to_string().contains("inline-static"),
        "{error}"
    );
    let options = Options { constants: Constants::Loaded("file".to_owned()), ..Options::no_std() };
    let error = generate(&module("digit/inline-static.vmfb"), &options).unwrap_err();
    assert!(error.to_string().contains("cannot load constants from a file"), "{error}");
}
