//! The folders of cargo projects.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write, stderr};
use std::path::{Path, PathBuf};

use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::{Result, ResultExt};
use incarnate_translator::compiler::cache_folder;
use tempfile::TempDir;

/// The folder of a project, with a folder `src`. It is locked against other processes while this value lives.
#[derive(Debug)]
pub(in super::super) struct ProjectFolder {
    path: PathBuf,
    /// The open lock file.
    _lock: File,
    /// A folder that is not in the cache.
    _temporary: Option<TempDir>,
}

impl ProjectFolder {
    /// Opens the folder of the projects of a kind with equal options in the user's cache, and waits for other processes that use it.
    /// Where there is no cache, or none that can be written, the folder is a temporary one, with a note for the user.
    ///
    /// # Errors
    /// Errors of creating a temporary folder.
    pub(in super::super) fn open(kind: &str, options: &impl Hash) -> Result<ProjectFolder> {
        let mut hasher = DefaultHasher::new();
        (options, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        let name = format!("{:016x}", hasher.finish());
        let in_cache = cache_folder().map(|cache| cache.join(kind).join(name));
        in_cache.and_then(|path| ProjectFolder::create(path, None)).or_else(|error| {
            // Without standard error, the note is lost and the program is not.
            let text = format!("compiled dependencies of programs are not kept: {error}");
            let _ = writeln!(stderr(), "note: {}", Escaped(&text));
            let folder = std::env::temp_dir();
            let temporary = tempfile::Builder::new().prefix("incarnate-").tempdir_in(&folder).context(|| {
                format!("creating a folder in the folder of temporary files (TMPDIR) '{}'", folder.display())
            })?;
            ProjectFolder::create(temporary.path().to_owned(), Some(temporary))
        })
    }

    fn create(path: PathBuf, temporary: Option<TempDir>) -> Result<ProjectFolder> {
        let lock = fs::create_dir_all(path.join("src")).and_then(|()| {
            let lock = File::create(path.join("lock"))?;
            wait_for(&lock)?;
            Ok(lock)
        });
        let lock = lock.context(|| format!("creating the project '{}'", path.display()))?;
        Ok(ProjectFolder { path, _lock: lock, _temporary: temporary })
    }

    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file unless it is unchanged, because cargo compares modification times.
    ///
    /// # Errors
    /// Errors of writing it.
    pub(in super::super) fn replace(&self, file: &str, contents: &[u8]) -> Result<()> {
        let path = self.path.join(file);
        if fs::read(&path).is_ok_and(|found| found == contents) {
            return Ok(());
        }
        let written = File::create(&path).and_then(|mut file| file.write_all(contents));
        written.context(|| format!("writing to '{}'", path.display()))
    }
}

/// Waits until no other process holds the lock.
#[cfg(unix)]
fn wait_for(lock: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(lock, rustix::fs::FlockOperation::LockExclusive)?)
}

/// Two concurrent builds of programs exclude each other here.
#[cfg(not(unix))]
fn wait_for(_: &File) -> io::Result<()> {
    Ok(())
}
