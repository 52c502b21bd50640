//! Files that contain parameters.

use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::bytecode::{Contents, MappedContents};
use crate::hal::{Allocator, Buffer, BufferParameters, File, MemoryAccess};
use crate::mapping::MappedFile;
use crate::vm::{self, Ledger};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// Maps the file; pages are read at their first use.
    #[default]
    Map,
    /// Reads the file into memory at once.
    Read,
    /// Maps the file for reading and writing: programs that write parameters change the file.
    Write,
}

/// A file of parameters, mapped or in memory.
#[derive(Debug)]
pub struct ParameterFile {
    name: String,
    /// The bytes, which serve to parse the archive. Those of a mapped file are copied out, because the file may change.
    contents: Arc<Contents>,
    file: Arc<File>,
}

/// The bytes of a byte buffer that programs write.
struct BufferContents(Arc<vm::Buffer>);

impl MappedContents for BufferContents {
    fn length(&self) -> usize {
        usize::try_from(self.0.length()).unwrap_or(usize::MAX)
    }

    fn read(&self, offset: usize, target: &mut [u8]) -> bool {
        self.0.read(offset as u64, target).is_ok()
    }
}

impl ParameterFile {
    /// Opens a file. [`MappedFile::open`](crate::mapping::MappedFile::open) says what happens to a mapped file that is changed.
    ///
    /// # Errors
    /// Errors of opening, reading and mapping, with the path.
    pub fn open(path: &Path, access: FileAccess) -> Result<Arc<ParameterFile>> {
        let name = path.display().to_string();
        if access == FileAccess::Read {
            return Ok(ParameterFile::from_contents(name, Arc::new(Contents::read(path)?)));
        }
        if access == FileAccess::Map {
            return Ok(ParameterFile::from_contents(name, Arc::new(MappedFile::contents(path)?)));
        }
        let contents = Arc::new(MappedFile::contents(path)?);
        Ok(Arc::new(ParameterFile { name, contents, file: Arc::new(File::map_writable(path)?) }))
    }

    /// Wraps contents that are in memory or mapped already, such as embedded ones; the name is for errors.
    #[must_use]
    pub fn from_contents(name: impl Into<String>, contents: Arc<Contents>) -> Arc<ParameterFile> {
        let file = Arc::new(File::from_contents(contents.clone()));
        Arc::new(ParameterFile { name: name.into(), contents, file })
    }

    /// Wraps a byte buffer of the host, which programs that write parameters change; the name is for errors.
    ///
    /// # Errors
    /// PERMISSION_DENIED if the buffer is read-only.
    pub fn from_vm_buffer(name: impl Into<String>, buffer: Arc<vm::Buffer>) -> Result<Arc<ParameterFile>> {
        let access = MemoryAccess::READ | MemoryAccess::WRITE;
        let file = Arc::new(File::from_vm_buffer(&buffer, 0, buffer.length(), access, Ledger::HOST)?);
        let contents = Arc::new(Contents::mapped(BufferContents(buffer)));
        Ok(Arc::new(ParameterFile { name: name.into(), contents, file }))
    }

    /// Returns the name for errors: the path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.file.byte_length()
    }

    /// Returns the file as queues use it.
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Returns the bytes.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    fn is_writable(&self) -> bool {
        self.file.access().contains(MemoryAccess::WRITE)
    }

    /// Copies a range of the file's current contents.
    pub(super) fn read_bytes(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.file.read_bytes(offset, target).map_err(|error| error.context(format!("reading '{}'", self.name)))
    }

    /// Imports a range as a buffer without a copy; None if the alignment or the access forbid it.
    pub(super) fn import(
        &self,
        allocator: &Allocator,
        offset: u64,
        length: u64,
        parameters: BufferParameters,
        ledger: &Ledger,
    ) -> Result<Option<Arc<Buffer>>> {
        if self.is_writable() {
            // A later write to the file would change the buffer.
            return Ok(None);
        }
        allocator.import_contents_charged(&self.contents, offset, length, parameters, ledger)
    }
}
