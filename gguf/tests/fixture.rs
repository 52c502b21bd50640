//! The modules of the test model are those of its file, whose results `tests/models` checks.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use incarnate_bytecode::Contents;
use incarnate_gguf::{Activations, Checkpoint, GgufFile, Options, import};

#[test]
fn the_modules_of_the_test_model_are_those_of_its_file() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let model = Checkpoint::open(&models.join("language_model/model.gguf")).unwrap();
    for (folder, is_portable, activations) in [
        ("language_model", true, Activations::F32),
        ("language_model_integers", true, Activations::I8),
        ("language_model_native", false, Activations::F32),
    ] {
        let options = Options { slots: 2, embeddings: true, is_portable, activations, ..Options::default() };
        let text = import(&model, &options).unwrap();
        let path = models.join(folder).join("model.mlir");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap_or_default() == text, "BLESS=1 writes {}", path.display());
    }
}

#[test]
fn files_that_are_read_in_chunks_have_the_same_header() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/language_model/model.gguf");
    let whole = GgufFile::read(Arc::new(Contents::read(&path).unwrap())).unwrap();
    let chunked = GgufFile::open(&path).unwrap();
    assert_eq!((chunked.tensors(), chunked.header().unwrap()), (whole.tensors(), whole.header().unwrap()));
    assert!(GgufFile::is_model(&path).unwrap());
    // Behind the first chunk, across its end, and before it again.
    for range in [100_000..100_100, 65_500..65_600, 0..4, 300_000..400_000, 10..14] {
        assert_eq!(chunked.contents().bytes(range.clone()).unwrap(), whole.contents().bytes(range).unwrap());
    }
    let end = whole.contents().length();
    assert!(chunked.contents().bytes(end - 4..end + 4).is_err());
    assert_eq!(chunked.contents().bytes(end - 4..end).unwrap(), whole.contents().bytes(end - 4..end).unwrap());
}
