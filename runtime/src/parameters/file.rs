//! Files that parameters lie in.

use std::path::Path;
use std::sync::Arc;

use crate::bytecode::Contents;
use crate::hal::{Allocator, Buffer, BufferParameters, File, MemoryAccess};
use crate::mapping::MappedFile;
use crate::{Error, Result};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// It is mapped, and read where it is used.
    #[default]
    Map,
    /// It is read into memory at once.
    Read,
    /// It is mapped to be read and written: programs that write parameters change the file.
    Write,
}

/// A file, mapped or in memory, that parameters lie in.
#[derive(Debug)]
pub struct ParameterFile {
    name: String,
    /// The bytes as they were when the file was opened; those of a file that is written may change and are only looked at
    /// to find what it holds.
    contents: Arc<Contents>,
    file: Arc<File>,
}

impl ParameterFile {
    /// Opens a file. What mapping demands of it is said at [`MappedFile::open`](crate::mapping::MappedFile::open).
    ///
    /// # Errors
    /// What opening, reading and mapping give, with the path.
    pub fn open(path: &Path, access: FileAccess) -> Result<Arc<ParameterFile>> {
        let name = path.display().to_string();
        if access == FileAccess::Read {
            return Ok(ParameterFile::from_contents(name, Arc::new(Contents::read(path)?)));
        }
        if access == FileAccess::Map {
            return Ok(ParameterFile::from_contents(name, Arc::new(MappedFile::contents(path)?)));
        }
        // Read, not mapped: a mapping that lends slices must not change beneath them.
        let contents = Arc::new(Contents::read(path)?);
        Ok(Arc::new(ParameterFile { name, contents, file: Arc::new(File::map_writable(path)?) }))
    }

    /// A file that is in memory or mapped already, such as one that is part of the program; the name is for errors.
    #[must_use]
    pub fn from_contents(name: impl Into<String>, contents: Arc<Contents>) -> Arc<ParameterFile> {
        let file = Arc::new(File::from_contents(contents.clone()));
        Arc::new(ParameterFile { name: name.into(), contents, file })
    }

    /// Name for errors: the path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.file.byte_length()
    }

    /// The file as queues use it.
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The bytes as they were when the file was opened.
    pub(super) fn bytes(&self) -> &[u8] {
        self.contents.as_bytes()
    }

    fn is_writable(&self) -> bool {
        self.file.access().contains(MemoryAccess::WRITE)
    }

    /// Copies a range out of the file as it is.
    pub(super) fn read_bytes(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        if self.is_writable() {
            return self.file.read_bytes(offset, target);
        }
        let bytes = usize::try_from(offset).ok().and_then(|offset| self.bytes().get(offset..)?.get(..target.len()));
        let bytes = bytes.ok_or_else(|| Error::out_of_range(format!("range leaves '{}'", self.name)))?;
        target.copy_from_slice(bytes);
        Ok(())
    }

    /// A range as a buffer without a copy, where the alignment and the access allow it.
    pub(super) fn import(
        &self,
        allocator: &Allocator,
        offset: u64,
        length: u64,
        parameters: BufferParameters,
    ) -> Result<Option<Arc<Buffer>>> {
        if self.is_writable() {
            // The file may be written after it was loaded, and buffers would change.
            return Ok(None);
        }
        allocator.import_contents(&self.contents, offset, length, parameters)
    }
}
