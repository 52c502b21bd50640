//! Files that queues read from and write to.

use alloc::format;
use alloc::sync::Arc;
use std::path::Path;

use super::buffer::{Buffer, resolve_range};
use super::memory::{BufferUsage, MemoryAccess, MemoryType};
use super::storage::Storage;
use crate::bytecode::Contents;
use crate::mapping::WritableMapping;
use crate::{Error, Result, ref_object, vm};

/// A file (`!hal.file`) in memory of the host.
#[derive(Debug)]
pub struct File {
    contents: Arc<Buffer>,
    access: MemoryAccess,
}

ref_object!(File, "hal.file");

impl File {
    /// A file whose contents are a buffer's.
    ///
    /// # Errors
    /// PERMISSION_DENIED where write access to a read-only buffer is asked for.
    pub fn from_buffer(contents: Arc<Buffer>, access: MemoryAccess) -> Result<File> {
        if access.contains(MemoryAccess::WRITE) {
            contents.check_writable()?;
        }
        Ok(File { contents, access })
    }

    /// A file whose contents are a range of a program's byte buffer.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range leaves the buffer; PERMISSION_DENIED where write access to a read-only buffer is asked
    /// for.
    pub fn from_vm_buffer(source: &Arc<vm::Buffer>, offset: u64, length: u64, access: MemoryAccess) -> Result<File> {
        let available = usize::try_from(source.length()).unwrap_or(usize::MAX);
        let (offset, length) = resolve_range(available, offset, length)?;
        let storage = Storage::from_vm_buffer(source, offset, length, access.contains(MemoryAccess::WRITE))?;
        // No kernel sees the contents, so that their alignment does not matter.
        let contents = Buffer::new(storage, MemoryType::HOST_LOCAL, BufferUsage::TRANSFER);
        File::from_buffer(Arc::new(contents), access)
    }

    /// A file whose contents are those of a file that was mapped or read, for reading only.
    #[must_use]
    pub fn from_contents(contents: Arc<Contents>) -> File {
        let contents = Buffer::new(Storage::from_owner(contents), MemoryType::HOST_LOCAL, BufferUsage::TRANSFER);
        File { contents: Arc::new(contents), access: MemoryAccess::READ }
    }

    /// Maps a file that is read and written in place. Its length must not change while this lives.
    ///
    /// # Errors
    /// What opening and mapping give, with the path.
    pub fn map_writable(path: &Path) -> Result<File> {
        let storage = Storage::from_mapping(WritableMapping::open(path)?);
        let contents = Buffer::new(storage, MemoryType::HOST_LOCAL, BufferUsage::TRANSFER);
        File::from_buffer(Arc::new(contents), MemoryAccess::READ | MemoryAccess::WRITE)
    }

    /// What may be done with the file.
    #[must_use]
    pub fn access(&self) -> MemoryAccess {
        self.access
    }

    /// Number of bytes.
    #[must_use]
    pub fn byte_length(&self) -> u64 {
        self.contents.byte_length()
    }

    fn check(&self, access: MemoryAccess) -> Result<()> {
        if self.access.intersects(access | MemoryAccess::ANY) {
            return Ok(());
        }
        Err(Error::permission_denied(format!("file of {} bytes does not allow {access:?}", self.byte_length())))
    }

    /// Copies bytes out of the file.
    ///
    /// # Errors
    /// PERMISSION_DENIED where the file may not be read, OUT_OF_RANGE where the range leaves it.
    pub fn read_bytes(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.check(MemoryAccess::READ)?;
        self.contents.read(offset, target)
    }

    /// Copies a range of the file into a buffer.
    ///
    /// # Errors
    /// PERMISSION_DENIED where the file may not be read or the buffer not be written, OUT_OF_RANGE where a range leaves
    /// the file or the buffer.
    pub fn read(&self, offset: u64, target: &Buffer, target_offset: u64, length: u64) -> Result<()> {
        self.check(MemoryAccess::READ)?;
        target.copy_from(target_offset, &self.contents, offset, length)
    }

    /// Copies a range of a buffer into the file.
    ///
    /// # Errors
    /// As [`File::read`], the other way round.
    pub fn write(&self, offset: u64, source: &Buffer, source_offset: u64, length: u64) -> Result<()> {
        self.check(MemoryAccess::WRITE)?;
        self.contents.copy_from(offset, source, source_offset, length)
    }
}
