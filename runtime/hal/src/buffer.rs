//! Device buffers: runs of bytes with a type of memory and allowed uses.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "std")]
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use super::memory::{BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};
use super::movable::{Access, PinGuard};
use super::storage::{BindingPointer, Storage};
use crate::vm::Once;
use crate::{Error, Result, ref_object, vm};

/// A buffer (`!hal.buffer`): an allocation, or a span of one. Spans share the allocation and keep it alive.
///
/// Who may touch its bytes when is the program's business, which orders accesses by barriers and fences; the methods here
/// copy in and out and never lend a slice of shared memory.
pub struct Buffer {
    /// The address of the first byte if it never changes.
    address: Option<BindingPointer>,
    byte_offset: usize,
    byte_length: usize,
    memory_type: MemoryType,
    access: MemoryAccess,
    usage: BufferUsage,
    /// How many owners the allocation has in the program's own accounting; only that of the root counts.
    owners: AtomicU32,
    /// The bytes as a byte buffer of programs, where it is not that of the storage.
    vm_buffer: Once<Arc<vm::Buffer>>,
    root: Root,
}

ref_object!(Buffer, "hal.buffer");

enum Root {
    Allocation(Storage),
    SpanOf(Arc<Buffer>),
}

impl Buffer {
    /// A buffer that is the whole of a storage.
    #[inline(always)]
    pub(super) fn new(storage: Storage, memory_type: MemoryType, usage: BufferUsage) -> Buffer {
        let access = if storage.writable() { MemoryAccess::ALL } else { MemoryAccess::READ };
        Buffer {
            address: storage.fixed_address(),
            byte_offset: 0,
            byte_length: storage.length(),
            memory_type,
            access,
            usage,
            owners: AtomicU32::new(1),
            vm_buffer: Once::default(),
            root: Root::Allocation(storage),
        }
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

    /// What may be done to the bytes; without [`MemoryAccess::WRITE`] every write is refused.
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

    /// Returns true if the memory may move while it is not pinned.
    #[cfg(feature = "std")]
    pub(super) fn is_movable(&self) -> bool {
        self.address.is_none()
    }

    /// Takes over the memory of `source`, whose bytes in `range` stay, if no other storage or program has a share of it and
    /// this buffer's memory is not in use. `source` and this are whole allocations.
    ///
    /// # Errors
    /// INTERNAL if the buffer is not within its allocation.
    #[cfg(feature = "std")]
    pub(super) fn take_over(&self, source: &Buffer, range: Range<usize>) -> Result<bool> {
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
        match self.address {
            Some(address) => Ok(PinGuard::fixed(address)),
            None => self.pin_movable(access),
        }
    }

    #[inline(never)]
    fn pin_movable(&self, access: Access) -> Result<PinGuard<'_>> {
        Ok(self.storage()?.pin(access)?.at_offset(self.byte_offset))
    }

    /// Pins the bytes like [`Buffer::pin`] for as long as `pins` is kept. Returns the address of the first byte, and whether
    /// the memory is borrowed.
    ///
    /// # Errors
    /// Those of [`Buffer::pin`].
    #[cfg(feature = "std")]
    #[inline(always)]
    pub fn pin_in<'a>(
        &'a self,
        access: Access,
        pins: &mut impl Extend<PinGuard<'a>>,
    ) -> Result<(BindingPointer, bool)> {
        if let Some(address) = self.address {
            return Ok((address, false));
        }
        let pin = self.pin_movable(access)?;
        let pinned = (pin.address(), pin.is_borrowed());
        if !pin.is_fixed() {
            pins.extend(Some(pin));
        }
        Ok(pinned)
    }

    /// True where both are views of the same allocation.
    #[must_use]
    pub fn same_allocation(&self, other: &Buffer) -> bool {
        core::ptr::eq(self.root(), other.root())
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
        let (offset, length) = self.range(offset, length)?;
        if offset == 0 && length == self.byte_length {
            return Ok(Arc::clone(self));
        }
        let root = match &self.root {
            Root::Allocation(_) => self,
            Root::SpanOf(root) => root,
        };
        Ok(Arc::new(Buffer {
            address: self.address.map(|address| BindingPointer(address.0.wrapping_add(offset))),
            byte_offset: self.byte_offset + offset,
            byte_length: length,
            memory_type: self.memory_type,
            access: self.access,
            usage: self.usage,
            owners: AtomicU32::new(1),
            vm_buffer: Once::default(),
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
                names(&self.memory_type),
                names(&memory_type.difference(self.memory_type))
            ));
        }
        Error::permission_denied(format!(
            "buffer allows the uses {} and lacks {}",
            names(&self.usage),
            names(&usage.difference(self.usage))
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
                self.vm_buffer.get_or_try_init(|| self.storage()?.make_vm_buffer(self.byte_offset, self.byte_length))
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
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.byte_length).map_err(|_| {
            Error::resource_exhausted(format!("the host has no memory for a copy of {} bytes", self.byte_length))
        })?;
        bytes.resize(self.byte_length, 0);
        self.read(0, &mut bytes)?;
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

    /// The bytes themselves, where this is the only share of a buffer that is a whole allocation: nobody else, neither a
    /// kernel nor a queue, can reach them meanwhile.
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
pub(super) fn check_pattern(offset: u64, length: u64, pattern_length: usize) -> Result<()> {
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

/// Names of flags, or their number where none has a name.
fn names<F: bitflags::Flags<Bits = u32>>(flags: &F) -> String {
    let names: Vec<&str> = flags.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() { format!("0x{:X}", flags.bits()) } else { names.join("|") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::allocator::Allocator;
    use super::super::memory::BufferParameters;
    use super::*;
    use crate::StatusCode;

    #[derive(Debug)]
    #[repr(align(64))]
    struct Aligned<const N: usize>([u8; N]);

    impl<const N: usize> AsRef<[u8]> for Aligned<N> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    fn buffer(length: u64) -> Arc<Buffer> {
        Allocator::new().allocate(BufferParameters::DEVICE, length).unwrap()
    }

    #[test]
    fn spans_share_the_allocation() {
        let whole = buffer(64);
        whole.fill(0, WHOLE_BUFFER, 0, 1).unwrap();
        let span = whole.subspan(16, 32).unwrap();
        let inner = span.subspan(8, WHOLE_BUFFER).unwrap();
        assert_eq!((inner.byte_offset(), inner.byte_length()), (24, 24));
        inner.write(0, &[1, 2, 3]).unwrap();
        assert_eq!(&whole.to_vec().unwrap()[23..28], &[0, 1, 2, 3, 0]);
        assert!(inner.same_allocation(&whole));
        assert!(Arc::ptr_eq(&span.subspan(0, 32).unwrap(), &span));
        drop((whole, span));
        assert_eq!(inner.to_vec().unwrap()[..3], [1, 2, 3]);
    }

    #[test]
    fn ranges_are_checked() {
        let buffer = buffer(16);
        assert_eq!(buffer.range(4, WHOLE_BUFFER).unwrap(), (4, 12));
        assert_eq!(buffer.range(16, 0).unwrap(), (16, 0));
        for (offset, length) in [(17, 0), (17, WHOLE_BUFFER), (0, 17), (8, 9), (u64::MAX, 1), (1, u64::MAX - 1)] {
            assert_eq!(buffer.range(offset, length).unwrap_err().code(), StatusCode::OutOfRange, "{offset} {length}");
        }
        assert!(buffer.write(15, &[0; 2]).is_err());
        assert!(buffer.read(15, &mut [0; 2]).is_err());
        assert!(buffer.subspan(4, 13).is_err());
    }

    #[test]
    fn fills_repeat_their_pattern() {
        for (pattern, length, expected) in [
            (0x11u64, 1, [0x11u8; 8]),
            (0x2211, 2, [0x11, 0x22, 0x11, 0x22, 0x11, 0x22, 0x11, 0x22]),
            (0x4433_2211, 4, [0x11, 0x22, 0x33, 0x44, 0x11, 0x22, 0x33, 0x44]),
            (0x8877_6655_4433_2211, 8, [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]),
        ] {
            let buffer = buffer(24);
            buffer.fill(0, WHOLE_BUFFER, 0, 8).unwrap();
            buffer.fill(8, 8, pattern, length).unwrap();
            let bytes = buffer.to_vec().unwrap();
            assert_eq!(bytes[8..16], expected);
            assert!(bytes[..8].iter().chain(&bytes[16..]).all(|byte| *byte == 0));
        }
        assert!(buffer(8).fill(0, 8, 0, 3).is_err());
        assert!(buffer(8).fill(2, 4, 0, 4).is_err());
        assert!(buffer(8).fill(0, 6, 1, 4).is_err());
    }

    #[test]
    fn copies_may_overlap() {
        let buffer = buffer(8);
        buffer.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        buffer.copy_from(2, &buffer, 0, 6).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn read_only_memory_is_never_written() {
        let allocator = Allocator::new();
        let storage = Storage::from_owner(Arc::new(Aligned([1u8, 2, 3, 4])));
        let constants = allocator.wrap_aligned(storage, BufferParameters::DEVICE).unwrap();
        assert_eq!(constants.to_vec().unwrap(), [1, 2, 3, 4]);
        let span = constants.subspan(1, 2).unwrap();
        assert_eq!(span.write(0, &[9]).unwrap_err().code(), StatusCode::PermissionDenied);
        assert_eq!(span.fill(0, 1, 0, 1).unwrap_err().code(), StatusCode::PermissionDenied);
        assert_eq!(span.copy_from(0, &buffer(8), 0, 1).unwrap_err().code(), StatusCode::PermissionDenied);
        assert_eq!(span.to_vec().unwrap(), [2, 3]);
    }

    #[test]
    fn memory_is_imported_in_place_where_it_is_aligned() {
        let allocator = Allocator::new();
        let owner = Arc::new(Aligned([5u8; 256]));
        let constants = allocator.import_or_copy(Arc::clone(&owner), BufferParameters::DEVICE).unwrap();
        assert_eq!(constants.pin(Access::Read).unwrap().address().0.cast_const(), owner.0.as_ptr());
        assert_eq!((constants.to_vec().unwrap(), allocator.statistics().allocated), (vec![5; 256], 0));
        // Machine code may write to what it gets.
        let pin = constants.pin(Access::Kernel).unwrap();
        assert!(pin.is_fixed() && pin.address().0.cast_const() != owner.0.as_ptr());
        drop(pin);
        constants.write(1, &[6]).unwrap();
        assert_eq!((constants.to_vec().unwrap()[..3].to_vec(), owner.0), (vec![5, 6, 5], [5; 256]));
        assert_eq!(allocator.statistics().allocated, 256);
        let odd: Arc<Vec<u8>> = Arc::new(vec![6u8; 100]);
        let shifted = allocator.import_or_copy(odd, BufferParameters::DEVICE).unwrap();
        assert_eq!(shifted.to_vec().unwrap(), [6; 100]);
        assert_eq!(shifted.pin(Access::Read).unwrap().address().0.align_offset(64), 0);
    }

    #[test]
    fn checks_name_what_is_missing() {
        let buffer = buffer(16);
        let transfer = BufferUsage::TRANSFER;
        buffer.check(16, MemoryType::DEVICE_VISIBLE, transfer).unwrap();
        assert_eq!(
            buffer.check(17, MemoryType::DEVICE_VISIBLE, transfer).unwrap_err().code(),
            StatusCode::InvalidArgument
        );
        let error = buffer.check(1, MemoryType::DEVICE_VISIBLE, BufferUsage::SHARING_EXPORT).unwrap_err();
        assert_eq!(error.code(), StatusCode::PermissionDenied);
        assert!(error.message().contains("SHARING_EXPORT"), "{error}");
        let error = buffer.check(1, MemoryType::HOST_CACHED, transfer).unwrap_err();
        assert!(error.message().contains("HOST_CACHED"), "{error}");
    }

    #[test]
    fn zero_length_buffers_work() {
        let buffer = buffer(0);
        assert_eq!(buffer.to_vec().unwrap(), [0u8; 0]);
        buffer.fill(0, WHOLE_BUFFER, 0, 4).unwrap();
        buffer.write(0, &[]).unwrap();
        assert_eq!(buffer.pin(Access::Read).unwrap().address().0.addr() % 64, 0);
    }

    #[test]
    fn allocations_count_their_owners() {
        let whole = buffer(8);
        let span = whole.subspan(4, 4).unwrap();
        assert!(span.is_terminal_allocation());
        span.preserve_allocation();
        assert!(!whole.is_terminal_allocation());
        assert!(!whole.discard_allocation());
        assert!(span.discard_allocation());
    }

    #[test]
    fn byte_buffers_of_programs_keep_the_memory_and_are_made_once() {
        let allocator = Allocator::new();
        let allocate = || allocator.allocate(BufferParameters::DEVICE, 16).unwrap();
        let mut whole = allocate();
        let span = whole.subspan(4, 8).unwrap();
        let (bytes, part) = (Arc::clone(whole.vm_buffer().unwrap()), Arc::clone(span.vm_buffer().unwrap()));
        assert!(Arc::ptr_eq(&bytes, whole.vm_buffer().unwrap()) && Arc::ptr_eq(&part, span.vm_buffer().unwrap()));
        drop(span);
        // A program that holds the bytes can write to them.
        assert!(whole.exclusive_bytes().is_none());
        drop(bytes);
        assert!(whole.exclusive_bytes().is_none());
        drop(whole);
        part.store::<u32>(1, 7).unwrap();
        assert_eq!(allocator.statistics().live, 16);
        let other = allocate();
        assert_ne!(other.pin(Access::Read).unwrap().address().0.addr() + 4, part.as_ptr().addr());
        assert_eq!((part.load::<u32>(1).unwrap(), allocator.statistics().live), (7, 32));
        drop((part, other));
        assert_eq!((allocator.statistics().live, allocator.statistics().cached), (0, 128));
        // What is reused has the length that is asked for.
        let shorter = allocator.allocate(BufferParameters::DEVICE, 3).unwrap();
        assert_eq!((shorter.vm_buffer().unwrap().length(), allocator.statistics().system_allocations), (3, 2));
        drop(shorter);
        allocator.trim();
        assert_eq!(allocator.statistics().cached, 0);
        let nothing = allocator.allocate(BufferParameters::DEVICE, 0).unwrap();
        assert_eq!(nothing.vm_buffer().unwrap().length(), 0);
    }

    #[test]
    fn bytes_are_lent_to_the_only_holder() {
        let mut buffer = buffer(4);
        buffer.exclusive_bytes().unwrap().copy_from_slice(&[1, 2, 3, 4]);
        let other = Arc::clone(&buffer);
        assert!(buffer.exclusive_bytes().is_none());
        assert_eq!(other.to_vec().unwrap(), [1, 2, 3, 4]);
    }
}
