//! Buffers that own their memory.

use alloc::alloc::{alloc, alloc_zeroed};
use alloc::sync::Arc;
use core::alloc::Layout;
use core::ptr::NonNull;

use super::{Buffer, MAX_ALIGNMENT, MIN_ALIGNMENT, Storage};
use crate::ledger::{Charge, Ledger};
use crate::{Error, Result};

/// Alignments up to this one are found within a few bytes more than there are to be: glibc takes 450 instructions to allocate memory of an
/// alignment above its own, and 80 for other memory.
const MAX_SLACK: usize = 64;

impl Buffer {
    /// A mutable buffer of zeros. `alignment` is a power of two in bytes; 0 stands for the default.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an alignment that is no power of two or above 4096, RESOURCE_EXHAUSTED where memory or the
    /// ledger is used up.
    pub fn zeroed(length: u64, alignment: u32, ledger: Option<&Ledger>) -> Result<Arc<Buffer>> {
        // SAFETY: the allocator clears the memory.
        unsafe { Buffer::allocate(length, alignment, ledger, alloc_zeroed) }
    }

    /// As [`Buffer::zeroed`], of memory that is not cleared.
    ///
    /// # Errors
    /// Those of [`Buffer::zeroed`].
    ///
    /// # Safety
    /// Nothing depends on a byte that has not been written. Nests may load such bytes between the elements that they use.
    pub unsafe fn uncleared(length: u64, alignment: u32, ledger: Option<&Ledger>) -> Result<Arc<Buffer>> {
        // SAFETY: promised by the caller.
        let buffer = unsafe { Buffer::allocate(length, alignment, ledger, alloc) };
        if cfg!(debug_assertions)
            && let Ok(buffer) = &buffer
        {
            // Tests see numbers that no program expects.
            buffer.fill(0, length, u8::MAX)?;
        }
        buffer
    }

    /// # Safety
    /// As for [`Buffer::uncleared`], unless the allocator clears the memory.
    unsafe fn allocate(
        length: u64,
        alignment: u32,
        ledger: Option<&Ledger>,
        allocator: unsafe fn(Layout) -> *mut u8,
    ) -> Result<Arc<Buffer>> {
        let alignment = match alignment as usize {
            0 => MIN_ALIGNMENT,
            a if a.is_power_of_two() && a <= MAX_ALIGNMENT => a.max(MIN_ALIGNMENT),
            a => {
                return Err(Error::invalid_argument(alloc::format!(
                    "buffer alignment {a} is not a power of two up to 4096"
                )));
            }
        };
        let exhausted = || Error::resource_exhausted(alloc::format!("no memory for a buffer of {length} bytes"));
        let size = usize::try_from(length).map_err(|_| exhausted())?;
        let (slack, allocated) = match alignment {
            ..=MAX_SLACK => (alignment - MIN_ALIGNMENT, MIN_ALIGNMENT),
            _ => (0, alignment),
        };
        let bytes = size.max(1).checked_add(slack).ok_or_else(exhausted)?;
        let layout = Layout::from_size_align(bytes, allocated).map_err(|_| exhausted())?;
        let charge = ledger.map_or(Ok(Charge::none()), |ledger| ledger.charge(length))?;
        // SAFETY: the layout's size is at least 1.
        let allocation = NonNull::new(unsafe { allocator(layout) }).ok_or_else(exhausted)?;
        let offset = allocation.addr().get().wrapping_neg() % alignment;
        // SAFETY: the address is a multiple of what was allocated for, so the next multiple of the alignment is within the slack, and as many
        // bytes as the length are behind it.
        let data = unsafe { allocation.add(offset) };
        let storage = Storage::Owned { allocation, layout, _charge: charge };
        Ok(Arc::new(Buffer { data, length: size, mutable: true, storage }))
    }
}
