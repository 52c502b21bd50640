//! Files that are written atomically.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use incarnate_runtime::{Error, Result, ResultExt};
use tempfile::{Builder, NamedTempFile};

/// A file that is written under a temporary name in the same folder and renamed when it is complete. Dropping it
/// earlier removes it. A device, a pipe or an open file of this process (`/dev/stdout`) is written directly, as a renamed file
/// would take its place.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    path: PathBuf,
    writer: BufWriter<Destination>,
}

#[derive(Debug)]
enum Destination {
    Temporary(NamedTempFile),
    Direct(File),
}

impl AtomicFile {
    /// Creates the file for `path`; with `append`, copies the contents of the existing one first.
    ///
    /// # Errors
    /// Those of creating the file, with the path.
    pub(crate) fn create(path: &Path, append: bool) -> Result<AtomicFile> {
        let context = || format!("creating '{}'", path.display());
        let path = target_of(path).context(context)?;
        if is_written_directly(&path) {
            let file = open_directly(&path).context(context)?;
            return Ok(AtomicFile { path, writer: BufWriter::new(Destination::Direct(file)) });
        }
        let mut file = temporary_for(&path).context(context)?;
        if append && path.exists() {
            File::open(&path).and_then(|mut present| io::copy(&mut present, &mut file)).context(context)?;
        }
        Ok(AtomicFile { path, writer: BufWriter::new(Destination::Temporary(file)) })
    }

    /// Completes the file by renaming it.
    ///
    /// # Errors
    /// Those of writing the rest and of renaming, with the path.
    pub(crate) fn commit(self) -> Result<()> {
        let file = self.writer.into_inner().map_err(io::IntoInnerError::into_error);
        let complete = |file| match file {
            Destination::Temporary(file) => file.persist(&self.path).map(drop).map_err(|error| error.error),
            Destination::Direct(_) => Ok(()),
        };
        file.and_then(complete).context(|| format!("writing '{}'", self.path.display()))
    }
}

/// Writes a file under a temporary name, which the closure gets, and renames it, even over a running program.
///
/// # Errors
/// Those of creating, writing and renaming, with the path.
#[cfg(feature = "cli")]
pub(crate) fn write<T, E: Into<Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> core::result::Result<T, E>,
) -> Result<T> {
    let written = || -> Result<T> {
        let path = &target_of(path)?;
        if is_written_directly(path) {
            return Err(Error::invalid_argument("this is not a regular file"));
        }
        // Closes the handle: a file that is open for writing cannot be executed.
        let temporary = temporary_for(path)?.into_temp_path();
        let result = write(&temporary).map_err(Into::into)?;
        temporary.persist(path).map_err(|error| error.error)?;
        Ok(result)
    };
    written().context(|| format!("writing '{}'", path.display()))
}

/// The links that Linux follows in a path.
const MOST_LINKS: usize = 40;

/// The folder of the open files of this process, on Linux.
const OPEN_FILES: &str = "/proc/self/fd";

/// Returns the path that a chain of symbolic links leads to, which is replaced instead of the link, whether a file is there or not;
/// that of an open file in [`OPEN_FILES`] is not followed.
///
/// # Errors
/// INVALID_ARGUMENT if a folder is there, or a chain without an end.
fn target_of(path: &Path) -> Result<PathBuf> {
    if path.is_dir() {
        return Err(Error::invalid_argument("this is a folder"));
    }
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(next) if !is_open_file(&path) => path = path.parent().unwrap_or(Path::new("")).join(next),
            _ => return Ok(path),
        }
    }
    Err(Error::invalid_argument("too many symbolic links"))
}

/// Returns true for an entry of [`OPEN_FILES`].
fn is_open_file(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    folder.is_some_and(|folder| std::fs::canonicalize(OPEN_FILES).is_ok_and(|files| folder == files))
}

/// Returns true for a device, a pipe, a socket, an open file of this process.
fn is_written_directly(path: &Path) -> bool {
    is_open_file(path) || std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// Opens what is written directly.
///
/// # Errors
/// Those of opening it.
fn open_directly(path: &Path) -> io::Result<File> {
    if !is_open_file(path) {
        return File::options().write(true).open(path);
    }
    #[cfg(unix)]
    if let Some(file) = standard_stream(path) {
        return file;
    }
    File::options().append(true).open(path)
}

/// Returns standard output or standard error, if that is the open file: at its position, which one that is opened anew does not share.
#[cfg(unix)]
fn standard_stream(path: &Path) -> Option<io::Result<File>> {
    use std::os::fd::AsFd;
    let owned = match path.file_name()?.to_str()? {
        "1" => io::stdout().as_fd().try_clone_to_owned(),
        "2" => io::stderr().as_fd().try_clone_to_owned(),
        _ => return None,
    };
    Some(owned.map(File::from))
}

/// Creates a file that can be renamed to `path`, with the permissions of an ordinary new file.
///
/// # Errors
/// INVALID_ARGUMENT if the path has no file name; errors of creating the file.
fn temporary_for(path: &Path) -> Result<NamedTempFile> {
    if path.file_name().is_none() {
        return Err(Error::invalid_argument("the path has no file name"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    #[cfg_attr(not(unix), allow(unused_mut, reason = "other systems have no such permissions"))]
    let mut builder = Builder::new();
    #[cfg(unix)]
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    Ok(builder.tempfile_in(folder)?)
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Temporary(file) => file.write(bytes),
            Destination::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Temporary(file) => file.flush(),
            Destination::Direct(file) => file.flush(),
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn files_appear_when_they_are_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.bin");
        let mut file = AtomicFile::create(&path, false).unwrap();
        file.write_all(b"one").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        let mut file = AtomicFile::create(&path, true).unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        file.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"onetwo");
        let mut file = AtomicFile::create(&path, false).unwrap();
        file.write_all(b"three").unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"onetwo");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(AtomicFile::create(directory.path(), false).unwrap_err().to_string().contains("this is a folder"));
        directory.close().unwrap();
        assert!(AtomicFile::create(&path, false).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_stay() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("out.bin"), directory.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        symlink("out.bin", &link).unwrap();
        let mut file = AtomicFile::create(&link, false).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert!(link.is_symlink() && std::fs::read(&path).unwrap() == b"new");
        assert!(is_written_directly(Path::new("/dev/null")) && !is_written_directly(&path));
        let null = directory.path().join("null");
        symlink("/dev/null", &null).unwrap();
        let mut file = AtomicFile::create(&null, false).unwrap();
        file.write_all(b"lost").unwrap();
        file.commit().unwrap();
        assert!(null.is_symlink() && std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
        // A link to where nothing is yet.
        let (new, early) = (directory.path().join("new.bin"), directory.path().join("early"));
        symlink("new.bin", &early).unwrap();
        AtomicFile::create(&early, false).unwrap().commit().unwrap();
        assert!(early.is_symlink() && new.is_file());
        let circle = directory.path().join("circle");
        symlink("circle", &circle).unwrap();
        assert!(AtomicFile::create(&circle, false).unwrap_err().to_string().contains("too many symbolic links"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn open_files_of_the_process_are_not_replaced() {
        use std::os::fd::AsRawFd;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.bin");
        std::fs::write(&path, "before ").unwrap();
        let open = File::options().append(true).open(&path).unwrap();
        let name = PathBuf::from(format!("/dev/fd/{}", open.as_raw_fd()));
        let mut file = AtomicFile::create(&name, false).unwrap();
        file.write_all(b"after").unwrap();
        file.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before after");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        #[cfg(feature = "cli")]
        assert!(write(&name, |_| Ok::<_, Error>(())).unwrap_err().to_string().contains("not a regular file"));
        assert!(is_open_file(&target_of(Path::new("/dev/stdout")).unwrap()));
    }
}
