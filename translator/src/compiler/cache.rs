//! The compiled models in the user's cache.
//!
//! An entry is the file `models/KEY/CHECKSUM/NAME.vmfb`. The key stands for all inputs of the compilation, and the checksum for the
//! contents of the module, so that a damaged entry is none. Both are [hashes](Hash). Entries appear by a rename of a folder whose name
//! no other process has. Process ids are not unique: containers that share a cache may each have a process of the same id.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use incarnate_bytecode::{Error, Result};
use tempfile::{Builder, TempDir};

use super::hash::Hash;
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

/// The prefix of the names of scratch folders.
const SCRATCH: &str = ".scratch-";
/// The age of a scratch folder whose process has ended: no compilation takes a day.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder of compiled models. It need not exist.
#[derive(Debug)]
pub(super) struct Cache(PathBuf);

impl Cache {
    /// Returns the cache in [`cache_folder`].
    pub(super) fn open() -> Result<Cache> {
        Ok(Cache(cache_folder()?.join("models")))
    }

    /// Returns the module of a key, if it is there as it was written. Removes entries that have changed.
    pub(super) fn find(&self, key: &str, name: &str) -> Option<PathBuf> {
        let mut entries: Vec<PathBuf> = fs::read_dir(self.0.join(key)).ok()?.flatten().map(|row| row.path()).collect();
        // The compiler may write different bytes in each of two concurrent runs; the same ones are taken every time.
        entries.sort();
        entries.into_iter().find_map(|entry| {
            let module = entry.join(file_name(name));
            let found = Hash::of_file(&module);
            if found.as_ref().is_ok_and(|hash| entry.ends_with(hash)) {
                return Some(module);
            }
            let is_damaged = match found {
                Ok(_) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
            if is_damaged {
                // In a cache that cannot be written, the entry stays and is a miss again.
                let _ = fs::remove_dir_all(&entry);
            }
            None
        })
    }

    /// Moves a module from a scratch folder of the cache to the entry of a key. After an error it is where it was.
    pub(super) fn keep(&self, scratch: &Scratch, module: &Path, key: &str, name: &str) -> Result<PathBuf> {
        let sum = with_path(Hash::of_file(module), "reading", module)?;
        let complete = scratch.path(&sum);
        with_path(fs::create_dir(&complete), "creating", &complete)?;
        let within = complete.join(file_name(name));
        with_path(fs::rename(module, &within), "writing", &within)?;
        let published = self.publish(&complete, key, name, &sum);
        if published.is_err() {
            // Should this fail, too, the caller does not find the module and says so.
            let _ = fs::rename(&within, module);
        }
        published
    }

    /// Renames a complete entry to its place.
    fn publish(&self, complete: &Path, key: &str, name: &str, sum: &str) -> Result<PathBuf> {
        let folder = self.0.join(key);
        with_path(fs::create_dir_all(&folder), "creating", &folder)?;
        let entry = folder.join(sum);
        // A rename within a file system is atomic: another process finds all of the entry or none of it.
        if let Err(error) = fs::rename(complete, &entry) {
            // Another process has written the same bytes meanwhile, or an entry is damaged, which `find` removes.
            if let Some(module) = self.find(key, name) {
                return Ok(module);
            }
            with_path(fs::rename(complete, &entry).map_err(|_| error), "writing", &entry)?;
        }
        Ok(entry.join(file_name(name)))
    }

    /// Removes scratch folders that no compilation has written to for a long time. Those that cannot be removed stay.
    fn remove_abandoned(&self) {
        let is_abandoned = |entry: &fs::DirEntry| {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|time| time.elapsed().ok());
            entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes())
                && age.is_some_and(|age| age > ABANDONED)
        };
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten().filter(is_abandoned) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }

    /// Returns an error if files in the cache cannot be written.
    pub(super) fn probe(&self) -> Result<()> {
        with_path(probe(&self.0), "writing to", &self.0)
    }

    /// Creates an empty folder in the cache. Removes those of processes that were ended.
    pub(super) fn scratch(&self) -> Result<Scratch> {
        with_path(fs::create_dir_all(&self.0), "creating", &self.0)?;
        self.remove_abandoned();
        let mut builder = Builder::new();
        builder.prefix(SCRATCH);
        // What is moved out of it has the permissions of an ordinary new folder.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        Ok(Scratch(with_path(builder.tempdir_in(&self.0), "writing to", &self.0)?))
    }
}

fn file_name(name: &str) -> String {
    format!("{name}.vmfb")
}

/// Writes to a file in a folder, and removes it. A file system without space may still create empty files.
pub(super) fn probe(folder: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&[0; 1 << 16])?;
    file.flush()
}

/// A folder that no other process has, and that is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Scratch(TempDir);

impl Scratch {
    /// Creates an empty folder among the temporary files of the system.
    pub(super) fn temporary() -> Result<Scratch> {
        let folder = env::temp_dir();
        let created = Builder::new().prefix("incarnate-").tempdir_in(&folder);
        Ok(Scratch(with_path(created, "creating a folder in the folder of temporary files (TMPDIR)", &folder)?))
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn cache() -> (TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache(folder.path().join("models"));
        (folder, cache)
    }

    fn keep(cache: &Cache, scratch: &Scratch, contents: &str, key: &str) -> PathBuf {
        let module = scratch.path("model.vmfb");
        fs::write(&module, contents).unwrap();
        cache.keep(scratch, &module, key, "net").unwrap()
    }

    fn contents(cache: &Cache, key: &str) -> Option<String> {
        cache.find(key, "net").map(|path| fs::read_to_string(path).unwrap())
    }

    /// Two processes of one id, each in a namespace of its own, are here two values of one process.
    #[test]
    fn concurrent_compilations_have_folders_of_their_own() {
        let (_folder, cache) = cache();
        let (first, second) = (cache.scratch().unwrap(), cache.scratch().unwrap());
        assert_ne!(first.folder(), second.folder());
        fs::write(first.path("model.vmfb"), "one").unwrap();
        fs::write(second.path("model.vmfb"), "two").unwrap();
        for (scratch, key) in [(&first, "a"), (&second, "b")] {
            cache.keep(scratch, &scratch.path("model.vmfb"), key, "net").unwrap();
        }
        assert_eq!((contents(&cache, "a").as_deref(), contents(&cache, "b").as_deref()), (Some("one"), Some("two")));
        drop((first, second));
        assert_eq!(fs::read_dir(&cache.0).unwrap().count(), 2);
    }

    #[test]
    fn damaged_entries_are_misses_and_are_replaced() {
        let (_folder, cache) = cache();
        let path = keep(&cache, &cache.scratch().unwrap(), "module", "key");
        assert_eq!(cache.find("key", "net"), Some(path.clone()));
        for damaged in ["modulf", "modul", ""] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.find("key", "net"), None, "{damaged}");
            assert_eq!(keep(&cache, &cache.scratch().unwrap(), "module", "key"), path);
            assert_eq!(contents(&cache, "key").as_deref(), Some("module"));
        }
        // One that is damaged between the search and the end of the compilation.
        fs::write(&path, "other").unwrap();
        keep(&cache, &cache.scratch().unwrap(), "module", "key");
        assert_eq!(contents(&cache, "key").as_deref(), Some("module"));
        // One whose module is gone.
        fs::remove_file(&path).unwrap();
        assert_eq!(cache.find("key", "net"), None);
        keep(&cache, &cache.scratch().unwrap(), "module", "key");
        assert_eq!(contents(&cache, "key").as_deref(), Some("module"));
    }

    #[test]
    #[cfg(unix)]
    fn folders_of_ended_processes_are_removed() {
        let (_folder, cache) = cache();
        let (ended, running) = (cache.scratch().unwrap(), cache.scratch().unwrap());
        let entry = keep(&cache, &running, "module", "key");
        for folder in [ended.folder(), &cache.0.join("key")] {
            let old = std::time::SystemTime::now() - 2 * ABANDONED;
            fs::File::open(folder).unwrap().set_modified(old).unwrap();
        }
        let new = cache.scratch().unwrap();
        assert_eq!([&ended, &running, &new].map(|scratch| scratch.folder().exists()), [false, true, true]);
        assert!(entry.exists());
    }

    #[test]
    fn folders_that_cannot_be_written_are_found() {
        let (folder, cache) = cache();
        assert!(probe(folder.path()).is_ok() && cache.probe().is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn of_two_concurrent_results_one_is_kept() {
        let (_folder, cache) = cache();
        let (first, second) = (cache.scratch().unwrap(), cache.scratch().unwrap());
        assert_eq!(keep(&cache, &first, "module", "key"), keep(&cache, &second, "module", "key"));
        keep(&cache, &cache.scratch().unwrap(), "other bytes", "key");
        assert!(["module", "other bytes"].contains(&contents(&cache, "key").unwrap().as_str()));
        assert_eq!(contents(&cache, "key"), contents(&cache, "key"));
    }
}
