//! The modules of the test model are those of its file, whose results `tests/models` checks.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use incarnate_gguf::{GgufFile, Options, import};

#[test]
fn the_modules_of_the_test_model_are_those_of_its_file() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let file = GgufFile::open(&models.join("language_model/model.gguf")).unwrap();
    for (folder, is_portable) in [("language_model", true), ("language_model_native", false)] {
        let text = import(&file, &Options { slots: 2, is_portable, ..Options::default() }).unwrap();
        let path = models.join(folder).join("model.mlir");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap_or_default() == text, "BLESS=1 writes {}", path.display());
    }
}
