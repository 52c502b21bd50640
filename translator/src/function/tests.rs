//! Every function of the models is Rust that parses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use quote::format_ident;

use super::*;

fn modules() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let mut found = Vec::new();
    for model in std::fs::read_dir(folder).unwrap() {
        let Ok(files) = std::fs::read_dir(model.unwrap().path()) else { continue };
        found.extend(
            files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "vmfb")),
        );
    }
    found.sort();
    assert!(found.len() > 10);
    found
}

fn names(module: &VerifiedModule) -> Vec<FunctionName> {
    (0..module.function_count())
        .map(|ordinal| FunctionName {
            ident: format_ident!("function_{}", ordinal),
            docs: vec![format!("`@{}`", module.function_name(ordinal))],
        })
        .collect()
}

fn emitted(module: &VerifiedModule) -> String {
    let analysis = Analysis::new(module, names(module), false).unwrap();
    let mut text = String::new();
    for ordinal in 0..module.function_count() {
        for item in emit(&analysis, ordinal).unwrap().items {
            let file = syn::parse2(item.clone()).unwrap_or_else(|error| panic!("{error}\n{item}"));
            text.push_str(&prettyplease::unparse(&file));
        }
    }
    text
}

#[test]
fn functions_of_models_are_rust() {
    for path in modules() {
        let contents = Arc::new(Contents::from_vec(std::fs::read(&path).unwrap()));
        let module = VerifiedModule::load(contents).unwrap();
        let text = emitted(&module);
        assert!(text.contains("pub fn"), "{}", path.display());
        if let Ok(name) = std::env::var("SHOW")
            && path.to_string_lossy().contains(&name)
        {
            println!("// {}\n{text}", path.display());
        }
    }
}
