//! Common functions of the benchmarks: finding and opening the test models.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has no caller to tell")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::bytecode::{Archive, Contents, Module, VerifiedModule};

/// Returns a folder of tests/models.
pub(crate) fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models")
}

/// Reads a module file.
pub(crate) fn read(path: &Path) -> Arc<Contents> {
    Arc::new(Contents::from_vec(fs::read(path).unwrap()))
}

/// Opens and verifies a module.
pub(crate) fn verify(contents: &Arc<Contents>) -> Arc<VerifiedModule> {
    Module::parse(Archive::new(contents.clone()).unwrap()).unwrap().verify().unwrap()
}
