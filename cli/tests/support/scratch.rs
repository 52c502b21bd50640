//! Temporary folders.

use std::path::PathBuf;

/// A temporary folder for one test, removed when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Creates the folder, whose name begins with that of the test.
    pub(crate) fn new(name: &str) -> Scratch {
        let folder = tempfile::Builder::new().prefix(&format!("incarnate-cli-{name}-")).tempdir().expect("a folder");
        Scratch(folder.keep())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
