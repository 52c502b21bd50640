//! The compiled models in the user's cache.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use incarnate_bytecode::{Error, Result};

use super::source::hash_of;
use super::with_path;

/// Returns Incarnate's folder in the user's cache.
///
/// # Errors
/// FAILED_PRECONDITION if the environment does not name it.
pub fn cache_folder() -> Result<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = |folder: &str| Some(absolute("HOME")?.join(folder));
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("LOCALAPPDATA")).or_else(|| home(".cache"));
    let none = || Error::failed_precondition("the user's cache folder is unknown: set XDG_CACHE_HOME");
    Ok(base.ok_or_else(none)?.join("incarnate"))
}

/// The folder of compiled models: one folder for each key, with one module.
#[derive(Debug)]
pub(super) struct Cache(PathBuf);

impl Cache {
    pub(super) fn open() -> Result<Cache> {
        let root = cache_folder()?.join("models");
        with_path(fs::create_dir_all(&root), "creating", &root)?;
        Ok(Cache(root))
    }

    fn path(&self, key: &str, name: &str) -> PathBuf {
        self.0.join(key).join(format!("{name}.vmfb"))
    }

    /// Returns the module of a key, if it is there.
    pub(super) fn find(&self, key: &str, name: &str) -> Option<PathBuf> {
        Some(self.path(key, name)).filter(|path| path.is_file())
    }

    /// Moves a module from a scratch folder into the cache.
    pub(super) fn keep(&self, module: &Path, key: &str, name: &str) -> Result<PathBuf> {
        let path = self.path(key, name);
        let folder = self.0.join(key);
        with_path(fs::create_dir_all(&folder), "creating", &folder)?;
        // A rename within a file system is atomic: another process finds all of the file or none.
        with_path(fs::rename(module, &path), "writing", &path)?;
        Ok(path)
    }

    /// Creates an empty folder that is removed when the value is dropped.
    pub(super) fn scratch(&self) -> Result<Scratch> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let path = self.0.join(format!(".{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        with_path(fs::create_dir_all(&path), "creating", &path)?;
        Ok(Scratch(path))
    }
}

/// A temporary folder.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed only takes space.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns 128 bits in hexadecimal that stand for the contents of a model and other inputs of its compilation.
pub(super) fn key(model: &Path, others: &[&str]) -> Result<String> {
    Ok(format!("{:032x}", hash_of(model, &[others, &[env!("CARGO_PKG_VERSION")]].concat())?))
}
