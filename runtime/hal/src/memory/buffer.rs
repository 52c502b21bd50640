//! Device buffers: runs of bytes with a type of memory and allowed uses.

#[cfg(test)]
mod tests;

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "std")]
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use super::address::BindingPointer;
use super::constant::Constant;
use super::device_memory::DeviceMemory;
use super::movable::{Access, PinGuard};
use super::parameters::{BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};
use super::storage::Storage;
use crate::vm::{Charge, ConstantBytes, Ledger, Once, SharedCharge, array};
use crate::{Error, Result, ref_object, vm};

/// A buffer (`!hal.buffer`): an allocation, or a span of one. Spans share the allocation and keep it alive.
///
/// Who may touch its bytes when is the program's business, which orders accesses by barriers and fences; the methods here
/// copy in and out and never return a slice of shared memory.
pub struct Buffer {
    /// The address of the first byte if it never changes, or null.
    address: BindingPointer,
    byte_offset: usize,
    byte_length: usize,
    memory_type: MemoryType,
    access: MemoryAccess,
    usage: BufferUsage,
    /// How many owners the allocation has in the program's own accounting; only that of the root counts.
    owners: AtomicU32,
    /// The bytes as a byte buffer of programs, where it is not that of the storage.
    vm_buffer: Once<Arc<vm::Buffer>>,
    /// What the object takes from its program's ledger, unless its memory is charged.
    charge: SharedCharge,
    /// That of the allocation.
    constant: Option<Arc<Constant>>,
    root: Root,
}

/// The bytes of a buffer beside its memory, with the byte buffer that programs may have of it.
pub(crate) const BUFFER_BYTES: u64 = (size_of::<Buffer>() + size_of::<vm::Buffer>()) as u64;

ref_object!(Buffer, "hal.buffer", Buffer::byte_length);

/// Stands for the address of movable memory: no other one is null.
const MOVABLE: BindingPointer = BindingPointer(core::ptr::null_mut());

enum Root {
    Allocation(Storage),
    SpanOf(Arc<Buffer>),
}

impl Buffer {
    /// A buffer that is the whole of a storage. `charge` is none if the memory is charged, or is the host's.
    #[inline(always)]
    pub(crate) fn new(storage: Storage, memory_type: MemoryType, usage: BufferUsage, charge: Charge) -> Buffer {
        let access = if storage.writable() { MemoryAccess::ALL } else { MemoryAccess::READ };
        Buffer {
            address: storage.fixed_address().unwrap_or(MOVABLE),
            byte_offset: 0,
            byte_length: storage.length(),
            memory_type,
            access,
            usage,
            owners: AtomicU32::new(1),
            vm_buffer: Once::default(),
            charge: charge.share(),
            constant: storage.constant().cloned(),
            root: Root::Allocation(storage),
        }
    }

    /// Whether the memory is a pool's, and neither a view, a storage nor a program has a share of it.
    #[cfg(feature = "std")]
    pub(super) fn is_sole(&mut self) -> bool {
        let has_bytes = self.vm_buffer.get().is_some() || *self.owners.get_mut() != 1;
        match &mut self.root {
            Root::Allocation(storage) => !has_bytes && storage.is_sole(),
            Root::SpanOf(_) => false,
        }
    }

    /// Whether the buffer is all of a pool's memory, whose address never changes.
    #[cfg(feature = "std")]
    pub(super) fn is_pooled(&self) -> bool {
        matches!(&self.root, Root::Allocation(storage) if storage.is_pooled())
    }

    /// Marks memory that is not aligned as kernels rely on.
    #[cfg(feature = "std")]
    pub(super) fn unaligned(self) -> Buffer {
        Buffer { access: self.access.union(MemoryAccess::UNALIGNED), ..self }
    }

    #[inline]
    fn root(&self) -> &Buffer {
        match &self.root {
            Root::Allocation(_) => self,
            // Spans of spans are made as spans of the allocation.
            Root::SpanOf(root) => root,
        }
    }

    #[inline]
    pub(super) fn storage(&self) -> Result<&Storage> {
        match &self.root().root {
            Root::Allocation(storage) => Ok(storage),
            Root::SpanOf(_) => Err(Error::internal("span of a span of a buffer")),
        }
    }

    /// Number of bytes.
    #[inline]
    #[must_use]
    pub fn byte_length(&self) -> u64 {
        self.byte_length as u64
    }

    /// Offset in bytes from the start of the allocation.
    #[inline]
    #[must_use]
    pub fn byte_offset(&self) -> u64 {
        self.byte_offset as u64
    }

    /// Number of bytes of the whole allocation.
    #[inline]
    #[must_use]
    pub fn allocation_length(&self) -> u64 {
        self.root().byte_length()
    }

    /// The kind of memory.
    #[inline]
    #[must_use]
    pub fn memory_type(&self) -> MemoryType {
        self.memory_type
    }

    /// What may be done to the bytes; without [`MemoryAccess::WRITE`] every write is refused, and with
    /// [`MemoryAccess::UNALIGNED`] every dispatch.
    #[inline]
    #[must_use]
    pub fn access(&self) -> MemoryAccess {
        self.access
    }

    /// What the buffer may be used for.
    #[inline]
    #[must_use]
    pub fn usage(&self) -> BufferUsage {
        self.usage
    }

    /// Returns true if the memory is a device's that the host cannot access.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn is_remote(&self) -> bool {
        self.address.0.is_null() && self.storage().is_ok_and(|storage| storage.device_memory().is_some())
    }

    /// Returns true if the memory may move while it is not pinned.
    #[cfg(feature = "std")]
    pub(crate) fn is_movable(&self) -> bool {
        self.address.0.is_null()
    }

    /// Takes over the memory of `source`, whose bytes in `range` stay, if no other storage or program has a share of it and
    /// this buffer's memory is not in use. `source` and this are whole allocations.
    ///
    /// # Errors
    /// INTERNAL if the buffer is not within its allocation.
    #[cfg(feature = "std")]
    pub(crate) fn take_over(&self, source: &Buffer, range: Range<usize>) -> Result<bool> {
        let Some(movable) = self.storage()?.as_movable() else { return Ok(false) };
        let memory = source.storage()?.share_sole_block();
        Ok(memory.is_some_and(|memory| movable.take_over(memory, range)))
    }

    /// Pins the bytes for an access. The guard contains the address of the first byte.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if borrowed memory must be copied and there is no memory, FAILED_PRECONDITION if the bytes are gone.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    #[inline(always)]
    pub fn pin(&self, access: Access) -> Result<PinGuard<'_>> {
        match self.fixed_address() {
            Some(address) if self.constant.is_none() => Ok(PinGuard::fixed(address)),
            _ => self.pin_storage(access),
        }
    }

    #[inline(never)]
    fn pin_storage(&self, access: Access) -> Result<PinGuard<'_>> {
        Ok(self.storage()?.pin(access)?.at_offset(self.byte_offset))
    }

    /// Returns the address of the first byte if it needs no pin, because it never changes.
    #[inline]
    #[must_use]
    pub fn fixed_address(&self) -> Option<BindingPointer> {
        if self.address.0.is_null() { None } else { Some(self.address) }
    }

    /// Returns which bytes of a constant these are, for a kernel that only reads them: until something writes to
    /// the allocation, or may write there.
    #[inline]
    #[must_use]
    pub fn constant_bytes(&self) -> Option<ConstantBytes> {
        self.constant.as_ref()?.bytes(self.byte_offset)
    }

    /// Whether the bytes are, or were, those of a constant: where they are not, [`Buffer::constant_bytes`] returns none, and
    /// [`Buffer::mark_written`] does nothing.
    #[inline]
    #[must_use]
    pub fn is_of_constant(&self) -> bool {
        self.constant.is_some()
    }

    /// Must be called before the address is given to someone who may write there, such as a kernel. What orders those writes and reads
    /// by others orders this, too. Memory that must not be written stays as it is.
    #[inline]
    pub fn mark_written(&self) {
        if let Ok(storage) = self.storage() {
            storage.mark_written();
        }
    }

    /// Returns the memory of a device and the offset of the first byte in it; `None` if the memory is the host's.
    #[must_use]
    pub fn device_memory(&self) -> Option<(&dyn DeviceMemory, usize)> {
        Some((self.storage().ok()?.device_memory()?, self.byte_offset))
    }

    /// True where both are views of the same allocation.
    #[must_use]
    pub fn same_allocation(&self, other: &Buffer) -> bool {
        core::ptr::eq(self.root(), other.root())
    }

    /// A number that views of the same allocation share, and no others that live at the same time.
    #[cfg(feature = "std")]
    pub(crate) fn allocation_key(&self) -> usize {
        core::ptr::from_ref(self.root()).addr()
    }

    /// Checks a range of this buffer, where [`WHOLE_BUFFER`] means the rest of it, and gives it in host sizes.
    ///
    /// # Errors
    /// OUT_OF_RANGE where it leaves the buffer.
    #[inline]
    pub fn range(&self, offset: u64, length: u64) -> Result<(usize, usize)> {
        resolve_range(self.byte_length, offset, length)
    }

    /// A view of a range; the buffer itself where that is all of it.
    ///
    /// # Errors
    /// OUT_OF_RANGE where it leaves the buffer.
    pub fn subspan(self: &Arc<Buffer>, offset: u64, length: u64) -> Result<Arc<Buffer>> {
        self.subspan_charged(offset, length, Ledger::HOST)
    }

    /// A view like [`Buffer::subspan`] for a program, charged to its ledger if it is a new object.
    ///
    /// # Errors
    /// OUT_OF_RANGE where it leaves the buffer; RESOURCE_EXHAUSTED if the ledger is used up.
    pub fn subspan_charged(self: &Arc<Buffer>, offset: u64, length: u64, ledger: &Ledger) -> Result<Arc<Buffer>> {
        let (offset, length) = self.range(offset, length)?;
        if offset == 0 && length == self.byte_length {
            return Ok(Arc::clone(self));
        }
        let charge = ledger.charge(BUFFER_BYTES)?;
        let root = match &self.root {
            Root::Allocation(_) => self,
            Root::SpanOf(root) => root,
        };
        Ok(Arc::new(Buffer {
            address: self.fixed_address().map_or(MOVABLE, |address| BindingPointer(address.0.wrapping_add(offset))),
            byte_offset: self.byte_offset + offset,
            byte_length: length,
            memory_type: self.memory_type,
            access: self.access,
            usage: self.usage,
            owners: AtomicU32::new(1),
            vm_buffer: Once::default(),
            charge: charge.share(),
            constant: self.constant.clone(),
            root: Root::SpanOf(Arc::clone(root)),
        }))
    }

    /// Checks that the buffer is at least `minimum_length` bytes of the given memory and allows the given uses, as
    /// `hal.buffer.assert` does.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is too short, PERMISSION_DENIED where memory or uses do not fit.
    #[inline]
    pub fn check(&self, minimum_length: u64, memory_type: MemoryType, usage: BufferUsage) -> Result<()> {
        if self.byte_length() >= minimum_length && self.memory_type.contains(memory_type) && self.usage.contains(usage)
        {
            return Ok(());
        }
        Err(self.check_failure(minimum_length, memory_type, usage))
    }

    #[cold]
    fn check_failure(&self, minimum_length: u64, memory_type: MemoryType, usage: BufferUsage) -> Error {
        if self.byte_length() < minimum_length {
            return Error::invalid_argument(format!(
                "buffer of {} bytes is shorter than the expected minimum of {minimum_length}",
                self.byte_length
            ));
        }
        if !self.memory_type.contains(memory_type) {
            return Error::permission_denied(format!(
                "buffer of memory {} lacks {}",
                self.memory_type.names(),
                memory_type.difference(self.memory_type).names()
            ));
        }
        Error::permission_denied(format!(
            "buffer allows the uses {} and lacks {}",
            self.usage.names(),
            usage.difference(self.usage).names()
        ))
    }

    /// Checks that the buffer may be written.
    ///
    /// # Errors
    /// PERMISSION_DENIED where it is read-only.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        if self.access.contains(MemoryAccess::WRITE) { Ok(()) } else { Err(read_only(self.byte_length)) }
    }

    /// The bytes as programs access them without a device. Who writes to them when is the program's business here, too. The
    /// byte buffer keeps the memory, not this buffer; it is the same one each time.
    ///
    /// # Errors
    /// INTERNAL where the buffer is not within its allocation.
    #[inline]
    pub fn vm_buffer(&self) -> Result<&Arc<vm::Buffer>> {
        if let Root::Allocation(storage) = &self.root
            && let Some(buffer) = storage.vm_buffer()
        {
            return Ok(buffer);
        }
        match self.vm_buffer.get() {
            Some(buffer) => Ok(buffer),
            None => {
                let charge = || self.charge.clone();
                let make = || self.storage()?.make_vm_buffer(self.byte_offset, self.byte_length, charge());
                self.vm_buffer.get_or_try_init(make)
            }
        }
    }

    /// Copies `target.len()` bytes from `offset` on out of the buffer.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range leaves the buffer.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let (offset, _) = self.range(offset, target.len() as u64)?;
        self.storage()?.read(self.byte_offset + offset, target)
    }

    /// Copies all of the buffer out.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the host has no memory for the copy.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        self.read_range(0, WHOLE_BUFFER)
    }

    /// Copies a range out, where [`WHOLE_BUFFER`] means the rest of the buffer.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range leaves the buffer; RESOURCE_EXHAUSTED where the host has no memory for the copy.
    pub fn read_range(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let (offset, length) = self.range(offset, length)?;
        let mut bytes = array::filled(length, 0)?;
        self.read(offset as u64, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes into the buffer at `offset`.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range leaves the buffer, PERMISSION_DENIED where it is read-only.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.check_writable()?;
        let (offset, _) = self.range(offset, source.len() as u64)?;
        self.storage()?.write(self.byte_offset + offset, source)
    }

    /// Repeats the low `pattern_length` bytes of `pattern`, little-endian, over a range.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the pattern's length is not 1, 2, 4 or 8 or does not divide offset and length; OUT_OF_RANGE
    /// where the range leaves the buffer; PERMISSION_DENIED where the buffer is read-only.
    pub fn fill(&self, offset: u64, length: u64, pattern: u64, pattern_length: usize) -> Result<()> {
        self.check_writable()?;
        let (offset, length) = self.range(offset, length)?;
        check_pattern(offset as u64, length as u64, pattern_length)?;
        self.storage()?.fill(self.byte_offset + offset, length, pattern, pattern_length)
    }

    /// Copies a range of `source` into this buffer; the ranges may overlap.
    ///
    /// # Errors
    /// OUT_OF_RANGE where a range leaves its buffer, PERMISSION_DENIED where this buffer is read-only.
    #[inline]
    pub fn copy_from(&self, offset: u64, source: &Buffer, source_offset: u64, length: u64) -> Result<()> {
        self.check_writable()?;
        let (source_offset, length) = source.range(source_offset, length)?;
        let (offset, _) = self.range(offset, length as u64)?;
        self.storage()?.copy(self.byte_offset + offset, source.storage()?, source.byte_offset + source_offset, length)
    }

    /// The bytes themselves, where this is the only share of a buffer that is a whole allocation: no
    /// kernel and no queue can reach them meanwhile.
    #[must_use]
    pub fn exclusive_bytes(self: &mut Arc<Buffer>) -> Option<&mut [u8]> {
        match &mut Arc::get_mut(self)?.root {
            Root::Allocation(storage) => storage.exclusive(),
            Root::SpanOf(_) => None,
        }
    }

    /// Adds an owner to the allocation, in the program's own accounting (`hal.buffer.allocation.preserve`).
    pub fn preserve_allocation(&self) {
        self.root().owners.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes an owner from the allocation; true where it was the last one (`hal.buffer.allocation.discard`).
    #[must_use]
    pub fn discard_allocation(&self) -> bool {
        self.root().owners.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// True where the allocation has one owner (`hal.buffer.allocation.is_terminal`).
    #[must_use]
    pub fn is_terminal_allocation(&self) -> bool {
        self.root().owners.load(Ordering::Acquire) == 1
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("byte_offset", &self.byte_offset)
            .field("byte_length", &self.byte_length)
            .field("memory_type", &self.memory_type)
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}

/// Checks a range against the `available` bytes, where [`WHOLE_BUFFER`] means the rest.
#[inline]
pub fn resolve_range(available: usize, offset: u64, length: u64) -> Result<(usize, usize)> {
    let total = available as u64;
    if offset <= total {
        let rest = total - offset;
        let length = if length == WHOLE_BUFFER { rest } else { length };
        if length <= rest {
            // Both are at most `available`.
            return Ok((offset as usize, length as usize));
        }
    }
    Err(range_failure(available, offset, length))
}

#[cold]
fn range_failure(available: usize, offset: u64, length: u64) -> Error {
    Error::out_of_range(format!("range of {length} bytes at offset {offset} leaves the buffer of {available} bytes"))
}

#[cold]
pub(super) fn read_only(length: usize) -> Error {
    Error::permission_denied(format!("buffer of {length} bytes is read-only and would be written"))
}

/// Checks the pattern of a fill.
pub(crate) fn check_pattern(offset: u64, length: u64, pattern_length: usize) -> Result<()> {
    if !matches!(pattern_length, 1 | 2 | 4 | 8) {
        return Err(Error::invalid_argument(format!("fill pattern of {pattern_length} bytes is not of 1, 2, 4 or 8")));
    }
    let mask = pattern_length as u64 - 1;
    if (offset | length) & mask != 0 {
        return Err(Error::invalid_argument(format!(
            "fill of {length} bytes at offset {offset} is not a multiple of its pattern of {pattern_length} bytes"
        )));
    }
    Ok(())
}
