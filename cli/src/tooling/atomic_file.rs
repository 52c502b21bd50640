//! Files that appear whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use incarnate_runtime::{Error, Result, ResultExt};

/// A file that is written under another name in the same folder and takes its own when it is complete; dropped before,
/// it leaves nothing.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl AtomicFile {
    /// Begins the file at `path`, with what is there already where `append` is set.
    ///
    /// # Errors
    /// What creating it gives, with the path.
    pub(crate) fn create(path: &Path, append: bool) -> Result<AtomicFile> {
        let context = || format!("creating '{}'", path.display());
        let name = path.file_name().ok_or_else(|| Error::invalid_argument("it names no file")).context(context)?;
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}", std::process::id()));
        let temporary = path.with_file_name(temporary_name);
        if append && path.exists() {
            std::fs::copy(path, &temporary).context(context)?;
        } else {
            File::create(&temporary).context(context)?;
        }
        let file = OpenOptions::new().append(true).open(&temporary).context(context)?;
        Ok(AtomicFile { path: path.to_owned(), temporary, writer: Some(BufWriter::new(file)) })
    }

    /// Completes the file: from here on it has its name.
    ///
    /// # Errors
    /// What writing the rest or renaming gives, with the path.
    pub(crate) fn commit(mut self) -> Result<()> {
        let flushed = self.writer.take().map_or(Ok(()), |mut writer| writer.flush());
        flushed
            .and_then(|()| std::fs::rename(&self.temporary, &self.path))
            .context(|| format!("writing '{}'", self.path.display()))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // After a commit there is nothing of this name; a failure to remove leaves a file that nobody reads.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn files_appear_when_they_are_complete() {
        let directory = std::env::temp_dir().join(format!("incarnate-atomic-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("out.bin");
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
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(AtomicFile::create(&path, false).is_err());
    }
}
