//! Imports ONNX models: an import ends in a module or an error of one line.
#![no_main]

use incarnate_onnx::{Model, Options, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let imported = Model::decode(data.to_vec(), "nowhere").and_then(|model| import(&model, &Options::default()));
    if let Err(error) = imported {
        assert_eq!(error.to_string().lines().count(), 1);
    }
});
