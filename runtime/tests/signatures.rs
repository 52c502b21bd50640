//! Signatures that are recovered from the bodies of functions, against those that the same modules declare.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::bytecode::index_map::IndexMap;
use incarnate_runtime::bytecode::{
    Contents, DECLARATION, Signature, ValueInfo, ValueType, VerifiedModule, recovered_declarations,
};

/// A key of the same length, which nothing reads.
const OTHER_KEY: &str = "iree.abi.DECLARATION";

fn modules() -> Vec<PathBuf> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let folders = std::fs::read_dir(models).unwrap().filter_map(|entry| std::fs::read_dir(entry.unwrap().path()).ok());
    let files = folders.flatten().map(|entry| entry.unwrap().path());
    let mut modules: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|ext| ext == "vmfb")).collect();
    modules.sort();
    modules
}

fn load(bytes: Vec<u8>) -> Arc<VerifiedModule> {
    VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).unwrap()
}

/// Returns the module with its declarations under a key that nothing reads.
fn stripped(bytes: &[u8]) -> Arc<VerifiedModule> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(DECLARATION.len()) {
        if &bytes[at..at + DECLARATION.len()] == DECLARATION.as_bytes() {
            bytes[at..at + OTHER_KEY.len()].copy_from_slice(OTHER_KEY.as_bytes());
        }
    }
    load(bytes)
}

/// The number of values of each kind of agreement.
#[derive(Debug, Default)]
struct Counts {
    tensors: usize,
    numbers: usize,
    /// Tensors that the model declares as views of an unknown type.
    refined: usize,
    /// Tensors that functions do not read, and views that the model declares as such.
    views: usize,
}

fn compare(counts: &mut Counts, declared: &ValueInfo, recovered: &ValueInfo, what: &str) {
    match (declared.value_type(), recovered.value_type()) {
        (ValueType::Tensor { .. }, ValueType::Tensor { .. }) => {
            assert_eq!(declared.value_type(), recovered.value_type(), "{what}");
            counts.tensors += 1;
        }
        (ValueType::Tensor { .. } | ValueType::BufferView, ValueType::BufferView) => counts.views += 1,
        (ValueType::BufferView, ValueType::Tensor { .. }) => counts.refined += 1,
        // The calling convention has no Booleans.
        (ValueType::Bool, ValueType::I32) => counts.numbers += 1,
        (declared, recovered) => {
            assert_eq!(declared, recovered, "{what}");
            counts.numbers += 1;
        }
    }
}

#[test]
fn recovered_signatures_are_the_declared_ones() {
    let mut counts = Counts::default();
    let mut views = Vec::new();
    for path in modules() {
        let bytes = std::fs::read(&path).unwrap();
        let (declaring, stripped) = (load(bytes.clone()), stripped(&bytes));
        let recovered = recovered_declarations(&stripped);
        for export in declaring.exports() {
            let Some(text) = Signature::declared(&declaring, export.function) else { continue };
            assert_eq!(Signature::declared(&stripped, export.function), None);
            let declared = Signature::of(&declaring, &IndexMap::default(), export.function).unwrap();
            let signature = Signature::of(&stripped, &recovered, export.function).unwrap();
            let what = format!("{}: {text} and {signature}", path.display());
            let before = counts.views;
            assert_eq!(declared.inputs.len(), signature.inputs.len(), "{what}");
            let pairs = declared.inputs.iter().zip(&signature.inputs);
            pairs.chain(declared.outputs.iter().zip(&signature.outputs)).for_each(|(declared, recovered)| {
                compare(&mut counts, declared, recovered, &what);
            });
            if counts.views > before {
                views.push(what);
            }
        }
    }
    // They only return their arguments, or the model declares a view.
    let returned = ["@same(", "@echo(", "@scatter("];
    assert!(views.iter().all(|what| returned.iter().any(|name| what.contains(name))), "{views:#?}");
    assert!(counts.tensors > 300 && counts.numbers > 100 && counts.refined > 0, "{counts:?}");
}

/// A module that the model declares has the compiler's declaration, too.
#[test]
fn declarations_of_models_count_in_sessions() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../translator/tests/named/model.vmfb");
    let session = incarnate_runtime::session::Session::load("local-sync", path).unwrap();
    let function = session.function("scale").unwrap();
    let names: Vec<String> = function.inputs().iter().map(|value| value.name().to_owned()).collect();
    assert_eq!(names, ["values", "factor"]);
    assert!(function.declaration().is_some_and(|text| text.contains("%values")));
}
