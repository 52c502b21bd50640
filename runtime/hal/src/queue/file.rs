//! Files that queues read and write.

use alloc::format;
use alloc::sync::Arc;
use std::path::Path;

use crate::bytecode::Contents;
use crate::memory::buffer::{BUFFER_BYTES, Buffer, resolve_range};
use crate::memory::mapping::WritableMapping;
use crate::memory::parameters::{BufferUsage, MemoryAccess, MemoryType};
use crate::memory::storage::Storage;
use crate::vm::{Charge, Ledger};
use crate::{Error, Result, ref_object, vm};

/// A file (`!hal.file`) in host memory.
#[derive(Debug)]
pub struct File {
    contents: Arc<Buffer>,
    access: MemoryAccess,
}

ref_object!(File, "hal.file");

impl File {
    /// Creates a file over a buffer.
    ///
    /// # Errors
    /// PERMISSION_DENIED for write access to a read-only buffer.
    pub fn from_buffer(contents: Arc<Buffer>, access: MemoryAccess) -> Result<File> {
        if access.contains(MemoryAccess::WRITE) {
            contents.check_writable()?;
        }
        Ok(File { contents, access })
    }

    /// Creates a file over a range of a program's byte buffer, which is charged to the program's ledger.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the range exceeds the buffer; PERMISSION_DENIED for write access to a read-only buffer;
    /// RESOURCE_EXHAUSTED if the ledger is used up.
    pub fn from_vm_buffer(
        source: &Arc<vm::Buffer>,
        offset: u64,
        length: u64,
        access: MemoryAccess,
        ledger: &Ledger,
    ) -> Result<File> {
        let available = usize::try_from(source.length()).unwrap_or(usize::MAX);
        let (offset, length) = resolve_range(available, offset, length)?;
        let storage = Storage::from_vm_buffer(source, offset, length, access.contains(MemoryAccess::WRITE))?;
        // Kernels never access the contents, so their alignment does not matter.
        let charge = ledger.charge(BUFFER_BYTES + size_of::<File>() as u64)?;
        let contents = Buffer::new(storage, MemoryType::HOST_LOCAL, BufferUsage::TRANSFER, charge);
        File::from_buffer(Arc::new(contents), access)
    }

    /// Creates a read-only file over contents that are mapped or in memory.
    #[must_use]
    pub fn from_contents(contents: Arc<Contents>) -> File {
        let length = contents.length();
        let source = vm::Buffer::of_contents(contents, 0..length);
        let storage = source.and_then(|source| Storage::from_vm_buffer(&source, 0, length, false));
        // An owner that returns fewer bytes than a moment before has none.
        let storage = storage.unwrap_or_else(|_| Storage::empty());
        let contents = Buffer::new(storage, MemoryType::HOST_LOCAL, BufferUsage::TRANSFER, Charge::none());
        File { contents: Arc::new(contents), access: MemoryAccess::READ }
    }

    /// Maps a file for reading and writing in place. Its length must not change while the mapping lives.
    ///
    /// # Errors
    /// Errors of opening and mapping, with the path.
    pub fn map_writable(path: &Path) -> Result<File> {
        let storage = Storage::from_mapping(WritableMapping::open(path)?, Charge::none());
        let contents = Buffer::new(storage, MemoryType::HOST_LOCAL, BufferUsage::TRANSFER, Charge::none());
        File::from_buffer(Arc::new(contents), MemoryAccess::READ | MemoryAccess::WRITE)
    }

    /// Returns the allowed access.
    #[must_use]
    pub fn access(&self) -> MemoryAccess {
        self.access
    }

    /// Returns the number of bytes.
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

    /// Copies bytes from the file.
    ///
    /// # Errors
    /// PERMISSION_DENIED if the file is not readable; OUT_OF_RANGE if the range exceeds it.
    pub fn read_bytes(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.check(MemoryAccess::READ)?;
        self.contents.read(offset, target)
    }

    /// Copies a range of the file into a buffer.
    ///
    /// # Errors
    /// PERMISSION_DENIED if the file is not readable or the buffer not writable; OUT_OF_RANGE if a range exceeds the
    /// file or the buffer.
    pub fn read(&self, offset: u64, target: &Buffer, target_offset: u64, length: u64) -> Result<()> {
        self.check(MemoryAccess::READ)?;
        target.copy_from(target_offset, &self.contents, offset, length)
    }

    /// Copies a range of a buffer into the file.
    ///
    /// # Errors
    /// PERMISSION_DENIED if the file is not writable or the buffer not readable; OUT_OF_RANGE if a range exceeds the
    /// file or the buffer.
    pub fn write(&self, offset: u64, source: &Buffer, source_offset: u64, length: u64) -> Result<()> {
        self.check(MemoryAccess::WRITE)?;
        self.contents.copy_from(offset, source, source_offset, length)
    }
}
