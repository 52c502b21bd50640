//! The allocator of a device: pooled memory, and external host memory that is used in place.

use alloc::format;
use alloc::sync::Arc;

use super::buffer::{BUFFER_BYTES, Buffer, resolve_range};
use super::device_memory::DeviceAllocator;
#[cfg(feature = "std")]
use super::device_memory::HostMemory;
use super::movable::{Access, Borrowed, Movable};
use super::parameters::{BufferParameters, BufferUsage, MemoryType};
pub use super::pool::AllocatorStatistics;
use super::pool::{MINIMUM_ALIGNMENT, Pool};
use super::promise::InputsOnlyRead;
use super::storage::Storage;
#[cfg(feature = "std")]
use crate::bytecode::Contents;
#[cfg(feature = "std")]
use crate::memory::mapping::MappedFile;
use crate::vm::{Charge, Ledger};
use crate::{Error, Result, ref_object, vm};

/// Allocates buffers (`!hal.allocator`). Memory of dropped buffers is cached and reused; see [`Allocator::trim`].
#[derive(Debug)]
pub struct Allocator {
    pool: Arc<Pool>,
    /// Allocates the device's own memory; `None` if it is the host's.
    device: Option<Arc<dyn DeviceAllocator>>,
}

ref_object!(Allocator, "hal.allocator");

/// The usage that every buffer of host memory supports in addition to the requested one.
const HOST_USAGE: BufferUsage = BufferUsage::TRANSFER
    .union(BufferUsage::MAPPING_SCOPED)
    .union(BufferUsage::MAPPING_PERSISTENT)
    .union(BufferUsage::MAPPING_ACCESS_RANDOM);

/// The longest constants, in bytes, that are copied on import if they are not in a mapped file.
pub const COPIED_CONSTANTS: usize = 64 << 10;

/// The length in bytes from which results of computations can take over other memory. A pin of such a buffer costs two
/// read-modify-writes, some 15 ns, and a copy of half of it some 200 ns.
#[cfg(feature = "std")]
pub(super) const EXCHANGEABLE_FROM: u64 = 16 << 10;

/// The type of allocated memory. All memory is the host's. `OPTIMAL` leaves the choice to the allocator, so an allocated buffer
/// does not have it.
#[inline(always)]
fn memory_type(parameters: BufferParameters) -> MemoryType {
    parameters.memory_type.union(MemoryType::HOST_VISIBLE).difference(MemoryType::OPTIMAL)
}

/// Marks memory that has the bytes of a constant from an offset on, if it does. Layouts that kernels keep are not charged, so that a
/// program with limits has none.
fn of_constant(storage: Storage, source: &Arc<vm::Buffer>, offset: usize, ledger: &Ledger) -> Storage {
    if ledger.is_limited() { storage } else { storage.of_constant(source, offset) }
}

impl Default for Allocator {
    fn default() -> Allocator {
        Allocator::new()
    }
}

impl Allocator {
    /// Creates an allocator that only the system's memory limits.
    #[must_use]
    pub fn new() -> Allocator {
        Allocator::with_limit(u64::MAX)
    }

    /// Creates an allocator whose live buffers take at most `limit` bytes, except for imported memory.
    #[must_use]
    pub fn with_limit(limit: u64) -> Allocator {
        Allocator { pool: Pool::new(limit, BUFFER_BYTES), device: None }
    }

    /// Creates an allocator of a device's own memory. Host memory that is imported is copied.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    pub(crate) fn with_device(device: Arc<dyn DeviceAllocator>) -> Allocator {
        // Host memory for nothing but copies that calls borrow.
        Allocator { pool: Pool::new(u64::MAX, BUFFER_BYTES), device: Some(device) }
    }

    /// Allocates a buffer of `length` bytes, aligned to 64 bytes or, if large, to a page. Fresh memory is zero; reused
    /// memory has arbitrary contents.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the limit or the system's memory is exhausted.
    pub fn allocate(&self, parameters: BufferParameters, length: u64) -> Result<Arc<Buffer>> {
        self.allocate_charged(parameters, length, Ledger::HOST)
    }

    /// Allocates a buffer like [`Allocator::allocate`], which is charged to the ledger of the program that creates it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the ledger, the limit or the system's memory is exhausted.
    pub fn allocate_charged(&self, parameters: BufferParameters, length: u64, ledger: &Ledger) -> Result<Arc<Buffer>> {
        if length == 0 {
            // Only memory of the pool has a charge of its own.
            return Ok(self.wrap(Storage::empty(), parameters, ledger.charge(BUFFER_BYTES)?));
        }
        if let Some(device) = &self.device {
            return allocate_on(device, parameters, length, ledger);
        }
        Ok(self.wrap(Storage::allocate(&self.pool, length, ledger)?, parameters, Charge::none()))
    }

    /// Allocates a buffer for results of computations: a large one may take over the memory of another buffer instead of a
    /// copy, and takes memory when it is first used, unless a limit counts it.
    ///
    /// # Errors
    /// Those of [`Allocator::allocate_charged`].
    #[cfg(feature = "std")]
    #[inline]
    pub fn allocate_transient(
        &self,
        parameters: BufferParameters,
        length: u64,
        ledger: &Ledger,
    ) -> Result<Arc<Buffer>> {
        if length < EXCHANGEABLE_FROM || self.device.is_some() {
            self.allocate_charged(parameters, length, ledger)
        } else {
            self.allocate_exchangeable(parameters, length, ledger)
        }
    }

    #[cfg(feature = "std")]
    #[inline(never)]
    fn allocate_exchangeable(&self, parameters: BufferParameters, length: u64, ledger: &Ledger) -> Result<Arc<Buffer>> {
        let pool = || Arc::clone(&self.pool);
        let movable = match isize::try_from(length) {
            Ok(length) if !ledger.is_limited() && !self.pool.is_limited() => {
                Movable::reserved(length.unsigned_abs(), pool())
            }
            _ => Movable::exchangeable(Storage::allocate(&self.pool, length, ledger)?, pool()),
        };
        // An exchange returns a charge while both buffers live, which then share a block: the object has a charge, too.
        Ok(self.wrap(Storage::movable(movable), parameters, ledger.charge(BUFFER_BYTES)?))
    }

    /// Creates a buffer over external host memory, in place; the buffer keeps the owner alive.
    ///
    /// Copy on write: the memory is copied before a transfer writes to the buffer, before a program accesses its bytes,
    /// and before it is passed to a kernel that is not known to only read it, as no machine code is.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the memory is not aligned to [`MINIMUM_ALIGNMENT`] bytes, which kernels rely on.
    pub fn import<T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        parameters: BufferParameters,
    ) -> Result<Arc<Buffer>> {
        self.wrap_borrowed(Borrowed { memory: Storage::from_owner(owner), is_only_read: false }, parameters)
    }

    /// Creates a read-only buffer over external host memory, in place. The caller promises that machine code only reads
    /// it.
    ///
    /// # Errors
    /// Those of [`Allocator::import`].
    pub fn import_read_only<T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        parameters: BufferParameters,
        _: InputsOnlyRead,
    ) -> Result<Arc<Buffer>> {
        if self.device.is_some() {
            return self.copy_in(&Storage::from_owner(owner), parameters, Ledger::HOST);
        }
        self.wrap_aligned(Storage::from_owner(owner), parameters, Charge::none())
    }

    /// Creates a buffer over a range of a program's byte buffer, in place. It is read-only if the parameters declare
    /// the contents immutable.
    ///
    /// Constants of a module are writable in spite of that declaration, because compiler 3.13 emits programs that sort
    /// or scatter within a constant. Constants in a mapped file are mapped once more, copy on write. Of constants in
    /// memory up to [`COPIED_CONSTANTS`] bytes are copied; longer ones are used in place and read-only.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the range exceeds the source or is not aligned to [`MINIMUM_ALIGNMENT`] bytes; PERMISSION_DENIED
    /// if a read-only source is imported for writing; UNAVAILABLE if the source may be written and the device has memory of its own.
    pub fn import_vm_buffer(
        &self,
        source: &Arc<vm::Buffer>,
        offset: u64,
        length: u64,
        parameters: BufferParameters,
    ) -> Result<Arc<Buffer>> {
        self.import_vm_buffer_charged(source, offset, length, parameters, Ledger::HOST)
    }

    /// Creates a buffer like [`Allocator::import_vm_buffer`] for a program. Copies, and pages that may be copied, are charged to
    /// its ledger.
    ///
    /// # Errors
    /// Those of [`Allocator::import_vm_buffer`]; RESOURCE_EXHAUSTED if the ledger is used up.
    pub fn import_vm_buffer_charged(
        &self,
        source: &Arc<vm::Buffer>,
        offset: u64,
        length: u64,
        parameters: BufferParameters,
        ledger: &Ledger,
    ) -> Result<Arc<Buffer>> {
        let available = usize::try_from(source.length()).unwrap_or(usize::MAX);
        let (offset, length) = resolve_range(available, offset, length)?;
        let immutable = parameters.usage.contains(BufferUsage::SHARING_IMMUTABLE);
        if !source.is_mutable() && !immutable {
            return Err(Error::permission_denied("a read-only source can be imported for constant uses only"));
        }
        if self.device.is_some() {
            if !immutable {
                return Err(Error::unavailable("memory of the host can be imported for constant uses only"));
            }
            #[cfg(feature = "std")]
            if let Some(buffer) = self.import_constant(source, offset, length, parameters, ledger)? {
                return Ok(buffer);
            }
            return self.copy_in(&Storage::from_vm_buffer(source, offset, length, false)?, parameters, ledger);
        }
        let charge = ledger.charge(BUFFER_BYTES)?;
        let storage = match self.copied_on_write(source, offset, length, ledger)? {
            Some(storage) => storage,
            None => Storage::from_vm_buffer(source, offset, length, !immutable)?,
        };
        self.wrap_aligned(of_constant(storage, source, offset, ledger), parameters, charge)
    }

    /// Creates a buffer over a program's byte buffer, in place and of whatever alignment, for transfers and mapping alone: its usage
    /// does not allow dispatches, which refuse its memory
    /// ([`MemoryAccess::UNALIGNED`](crate::MemoryAccess::UNALIGNED)) however it is bound.
    #[cfg(feature = "std")]
    pub fn import_for_transfers(&self, source: &Arc<vm::Buffer>, parameters: BufferParameters) -> Result<Arc<Buffer>> {
        let length = usize::try_from(source.length()).unwrap_or(usize::MAX);
        let storage = Storage::from_vm_buffer(source, 0, length, true)?;
        let usage = parameters.usage.difference(BufferUsage::DISPATCH);
        let buffer = Buffer::new(storage, memory_type(parameters), usage.union(HOST_USAGE), Charge::none());
        Ok(Arc::new(buffer.unaligned()))
    }

    /// Creates a buffer over a range of a file's bytes without a copy. Returns `None` if the range is not aligned to
    /// [`MINIMUM_ALIGNMENT`] bytes, is writable and not in a mapped file, or if the device has memory of its own and cannot use that of a mapped file.
    ///
    /// Writes to the buffer do not reach the file: pages of a mapped file are copied on write, and charged to the ledger from the
    /// start.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the range exceeds the file; RESOURCE_EXHAUSTED if the ledger is used up.
    #[cfg(feature = "std")]
    pub fn import_contents_charged(
        &self,
        contents: &Arc<Contents>,
        offset: u64,
        length: u64,
        parameters: BufferParameters,
        ledger: &Ledger,
    ) -> Result<Option<Arc<Buffer>>> {
        let (start, length) = resolve_range(contents.length(), offset, length)?;
        let source = vm::Buffer::of_contents(Arc::clone(contents), start..start + length)?;
        if self.device.is_some() {
            return self.import_constant(&source, 0, length, parameters, ledger);
        }
        if length == 0 || !source.as_ptr().addr().is_multiple_of(MINIMUM_ALIGNMENT) {
            return Ok(None);
        }
        let charge = ledger.charge(BUFFER_BYTES)?;
        if let Some(file) = MappedFile::of(contents) {
            let pages = ledger.charge(length as u64)?;
            if let Ok(mapping) = file.private(start..start + length) {
                let storage = of_constant(Storage::from_mapping(mapping, pages), &source, 0, ledger);
                return self.wrap_aligned(storage, parameters, charge).map(Some);
            }
        }
        if !parameters.usage.contains(BufferUsage::SHARING_IMMUTABLE) {
            return Ok(None);
        }
        let storage = of_constant(Storage::from_vm_buffer(&source, 0, length, false)?, &source, 0, ledger);
        self.wrap_aligned(storage, parameters, charge).map(Some)
    }

    /// Returns private memory for a range of a module's constants; `None` if the source is no constant, or is to be
    /// used in place.
    fn copied_on_write(
        &self,
        source: &Arc<vm::Buffer>,
        offset: usize,
        length: usize,
        ledger: &Ledger,
    ) -> Result<Option<Storage>> {
        let Some(contents) = source.contents().filter(|_| length > 0) else { return Ok(None) };
        #[cfg(feature = "std")]
        if let Some(file) = MappedFile::of(contents) {
            let start = file.position(source.as_ptr()) + offset;
            let pages = ledger.charge(length as u64)?;
            // If the system refuses another mapping, the constant is used in place.
            let mapping = file.private(start..start + length).ok();
            return Ok(mapping.map(|mapping| Storage::from_mapping(mapping, pages)));
        }
        let _ = contents;
        if length > COPIED_CONSTANTS {
            return Ok(None);
        }
        let storage = Storage::allocate(&self.pool, length as u64, ledger)?;
        storage.copy(0, &Storage::from_vm_buffer(source, offset, length, false)?, 0, length)?;
        Ok(Some(storage))
    }

    /// Creates a buffer like [`Allocator::import`] if the memory is aligned, otherwise a buffer of a copy.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is no memory for a copy.
    pub fn import_or_copy<T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        parameters: BufferParameters,
    ) -> Result<Arc<Buffer>> {
        let bytes: &[u8] = (*owner).as_ref();
        if bytes.as_ptr().align_offset(MINIMUM_ALIGNMENT) == 0 {
            return self.import(owner, parameters);
        }
        let buffer = self.allocate(parameters, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// Creates a buffer over borrowed memory.
    ///
    /// # Errors
    /// Those of [`Allocator::import`].
    pub(super) fn wrap_borrowed(&self, borrowed: Borrowed, parameters: BufferParameters) -> Result<Arc<Buffer>> {
        if self.device.is_some() {
            return self.copy_in(&borrowed.memory, parameters, Ledger::HOST);
        }
        let movable = Movable::borrow(borrowed, Arc::clone(&self.pool));
        self.wrap_aligned(Storage::movable(movable), parameters, Charge::none())
    }

    /// Returns a buffer over a constant in a mapped file, which is mapped once more, copy on write, if the device can use that in place.
    #[cfg(feature = "std")]
    #[cold]
    fn import_constant(
        &self,
        source: &vm::Buffer,
        offset: usize,
        length: usize,
        parameters: BufferParameters,
        ledger: &Ledger,
    ) -> Result<Option<Arc<Buffer>>> {
        let Some(device) = &self.device else { return Ok(None) };
        let Some(file) = source.contents().and_then(|contents| MappedFile::of(contents)) else { return Ok(None) };
        if length == 0 {
            return Ok(None);
        }
        let start = file.position(source.as_ptr()) + offset;
        let charges = (ledger.charge(length as u64)?, ledger.charge(BUFFER_BYTES)?);
        // If the system refuses another mapping, the constant is copied.
        let Ok(mapping) = file.private(start..start + length) else { return Ok(None) };
        let (pages, charge) = charges;
        let imported = Arc::clone(device).import(HostMemory::of_mapping(mapping, pages));
        let buffer = imported.map(|(memory, memory_type)| {
            let usage = parameters.usage.union(HOST_USAGE);
            Arc::new(Buffer::new(Storage::from_device(memory), memory_type, usage, charge))
        });
        Ok(buffer)
    }

    /// Allocates a buffer of the device and copies host memory to it.
    fn copy_in(&self, memory: &Storage, parameters: BufferParameters, ledger: &Ledger) -> Result<Arc<Buffer>> {
        let buffer = self.allocate_charged(parameters, memory.length() as u64, ledger)?;
        buffer.storage()?.copy(0, memory, 0, memory.length())?;
        Ok(buffer)
    }

    pub(super) fn wrap_aligned(
        &self,
        storage: Storage,
        parameters: BufferParameters,
        charge: Charge,
    ) -> Result<Arc<Buffer>> {
        let address = storage.pin(Access::Read)?.address().0;
        if storage.length() > 0 && address.align_offset(MINIMUM_ALIGNMENT) != 0 {
            // Errors reach others than this process: they name no address, nor a part of one.
            return Err(Error::out_of_range(format!(
                "memory that is not aligned to {MINIMUM_ALIGNMENT} bytes cannot be used in place"
            )));
        }
        Ok(self.wrap(storage, parameters, charge))
    }

    #[inline(always)]
    fn wrap(&self, storage: Storage, parameters: BufferParameters, charge: Charge) -> Arc<Buffer> {
        let memory_type = memory_type(parameters);
        vm::arc_of(|| Buffer::new(storage, memory_type, parameters.usage.union(HOST_USAGE), charge))
    }

    /// Returns cached memory to the system.
    pub fn trim(&self) {
        self.pool.trim();
        if let Some(device) = &self.device {
            device.trim();
        }
    }

    /// Returns the numbers of live and allocated bytes.
    #[must_use]
    pub fn statistics(&self) -> AllocatorStatistics {
        self.device.as_ref().map_or_else(|| self.pool.statistics(), |device| device.statistics())
    }
}

/// Allocates a buffer in the memory of a device.
#[cold]
fn allocate_on(
    device: &Arc<dyn DeviceAllocator>,
    parameters: BufferParameters,
    length: u64,
    ledger: &Ledger,
) -> Result<Arc<Buffer>> {
    let charge = ledger.charge(length.saturating_add(BUFFER_BYTES))?;
    let size = usize::try_from(length)
        .map_err(|_| Error::resource_exhausted(format!("buffer of {length} bytes exceeds the address space")))?;
    let (memory, memory_type) = Arc::clone(device).allocate(parameters, size)?;
    let uses = if memory.host_address().is_some() { HOST_USAGE } else { BufferUsage::TRANSFER };
    let usage = parameters.usage.union(uses);
    Ok(vm::arc_of(|| Buffer::new(Storage::from_device(memory), memory_type, usage, charge)))
}
