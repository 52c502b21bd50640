//! The module of the test model is that of its file, whose results `tests/models` checks.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use incarnate_gguf::{GgufFile, Options, import};

#[test]
fn the_module_of_the_test_model_is_that_of_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/language_model");
    let file = GgufFile::open(&folder.join("model.gguf")).unwrap();
    let text = import(&file, &Options { slots: 2, ..Options::default() }).unwrap();
    let path = folder.join("model.mlir");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == text, "BLESS=1 writes {}", path.display());
}
