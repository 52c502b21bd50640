//! The worked example of ARCHITECTURE.md is generated code.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_translator::{Options, generate};

/// The heading of the example, and the fences around it.
const HEADING: &str = "## A translated module\n";
const FENCES: (&str, &str) = ("```rust\n", "```\n");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The source of `tests/models/recursion`.
fn example() -> String {
    let bytes = std::fs::read(root().join("tests/models/recursion/vm.vmfb")).expect("the model");
    let module = VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).expect("a valid module");
    let files = generate(&module, &Options::default()).and_then(|output| output.files("recursion")).expect("source");
    assert_eq!(files.len(), 1, "neither constants nor chunks");
    String::from_utf8(files[0].contents.clone()).expect("text")
}

/// `BLESS=1 cargo test -p incarnate-translator --test worked_example` rewrites it.
#[test]
fn the_worked_example_is_what_is_generated() {
    let path = root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).expect("ARCHITECTURE.md");
    let section = text.find(HEADING).expect("the section");
    let begin = section + text[section..].find(FENCES.0).expect("the example") + FENCES.0.len();
    let end = begin + text[begin..].find(FENCES.1).expect("its end");
    let example = example();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{}{example}{}", &text[..begin], &text[end..])).expect("ARCHITECTURE.md");
        return;
    }
    assert_eq!(&text[begin..end], example, "BLESS=1 rewrites the example");
}
