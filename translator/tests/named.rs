//! The names of inputs and outputs: in the signatures of functions and in their typed methods.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use incarnate_bytecode::{Contents, Signature, VerifiedModule, recovered_declarations};
use incarnate_translator::{Options, generate};

fn module() -> Arc<VerifiedModule> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/named/model.vmfb");
    VerifiedModule::load(Arc::new(Contents::from_vec(std::fs::read(path).unwrap()))).unwrap()
}

#[test]
fn signatures_have_the_names_of_the_model() {
    let module = module();
    let recovered = recovered_declarations(&module);
    let signature = |name: &str| {
        let export = module.exports().find(|export| export.local_name == name).unwrap();
        Signature::of(&module, &recovered, export.function).unwrap().to_string()
    };
    assert_eq!(
        signature("classify"),
        "(batch.features: tensor<4xf32>, state.steps: tensor<i32>) -> (a.b: tensor<4xf32>, a_b: tensor<4xf32>, state.steps: \
         tensor<i32>)"
    );
    // The module has the compiler's declaration, too.
    assert_eq!(signature("scale"), "(values: tensor<4xf32>, factor: tensor<f32>) -> (scaled: tensor<4xf32>)");
}

#[test]
fn a_dictionary_becomes_a_struct() {
    let output = generate(&module(), &Options::default()).unwrap();
    let text = String::from_utf8(output.files("named").unwrap().remove(0).contents).unwrap();
    let fields: Vec<&str> =
        text.split("pub struct ClassifyResults {").nth(1).unwrap().split('}').next().unwrap().lines().collect();
    let fields: Vec<&str> = fields.into_iter().map(str::trim).filter(|line| line.starts_with("pub ")).collect();
    assert_eq!(fields, ["pub a_b_2: Tensor<f32>,", "pub a_b: Tensor<f32>,", "pub state_steps: Tensor<i32>,"]);
    for wanted in [
        "batch_features: impl IntoInput<'a, f32>,",
        "state_steps: impl IntoInput<'a, i32>,",
        "values: impl IntoInput<'a, f32>,",
        "factor: impl IntoInput<'a, f32>,",
        "`sync func @scale(%values: tensor<4xf32>, %factor: tensor<f32>) -> (%scaled: tensor<4xf32>)`",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in {text}");
    }
}
