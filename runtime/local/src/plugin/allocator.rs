//! The allocator of plugins: the program's allocator behind the ABI's one function.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr;
use std::alloc;

use super::abi::{PluginAllocator, PluginStatus};
use crate::StatusCode;

/// Alignment of allocations, that of C's `max_align_t`. A header of the same size contains the length.
const ALIGNMENT: usize = 16;

const MALLOC: c_int = 0;
const CALLOC: c_int = 1;
const REALLOC: c_int = 2;
const FREE: c_int = 3;

/// The allocator table.
pub(super) const ALLOCATOR: PluginAllocator = PluginAllocator { allocator: ptr::null_mut(), control };

fn status(code: StatusCode) -> PluginStatus {
    ptr::without_provenance_mut(code as usize)
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(ALIGNMENT)?, ALIGNMENT).ok()
}

/// Allocates zeroed bytes; returns null if memory is short.
fn allocate(size: usize) -> *mut u8 {
    let Some(layout) = layout(size) else { return ptr::null_mut() };
    // SAFETY: the size is not zero.
    let block = unsafe { alloc::alloc_zeroed(layout) };
    if block.is_null() {
        return block;
    }
    // SAFETY: the block begins with as many bytes as its alignment is, in which a size fits.
    unsafe {
        block.cast::<usize>().write(size);
        block.add(ALIGNMENT)
    }
}

/// Returns the size of an allocation.
///
/// # Safety
/// `pointer` must be a result of `allocate`.
unsafe fn size_of_allocation(pointer: *mut u8) -> usize {
    // SAFETY: by contract, the size stands there.
    unsafe { pointer.sub(ALIGNMENT).cast::<usize>().read() }
}

/// # Safety
/// `pointer` must be a result of `allocate`, and is not used afterwards.
unsafe fn free(pointer: *mut u8) {
    // SAFETY: by contract.
    let size = unsafe { size_of_allocation(pointer) };
    if let Some(layout) = layout(size) {
        // SAFETY: this is the layout that the block was allocated with.
        unsafe { alloc::dealloc(pointer.sub(ALIGNMENT), layout) };
    }
}

/// Implements [`AllocatorFunction`](super::abi::AllocatorFunction).
///
/// # Safety
/// `parameters` and `pointer` must be as the ABI defines them for the command.
unsafe extern "C" fn control(
    _allocator: *mut c_void,
    command: c_int,
    parameters: *const c_void,
    pointer: *mut *mut c_void,
) -> PluginStatus {
    if pointer.is_null() || (command != FREE && parameters.is_null()) {
        return status(StatusCode::InvalidArgument);
    }
    // SAFETY: not null, so by contract a pointer; for FREE and REALLOC it is null or what this function gave.
    let slot = unsafe { &mut *pointer };
    let old = slot.cast::<u8>();
    if command == FREE {
        if !old.is_null() {
            // SAFETY: by contract what `allocate` gave.
            unsafe { free(old) };
        }
        return ptr::null_mut();
    }
    // SAFETY: not null (checked above), so by contract the size.
    let size = unsafe { parameters.cast::<usize>().read() };
    let new = match command {
        MALLOC | CALLOC | REALLOC => allocate(size),
        _ => return status(StatusCode::Unimplemented),
    };
    if new.is_null() {
        return status(StatusCode::ResourceExhausted);
    }
    if command == REALLOC && !old.is_null() {
        // SAFETY: both blocks have that many bytes, and are two.
        unsafe {
            ptr::copy_nonoverlapping(old, new, size_of_allocation(old).min(size));
            free(old);
        }
    }
    *slot = new.cast();
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(command: c_int, size: usize, pointer: &mut *mut c_void) -> usize {
        // SAFETY: the parameters are what the ABI says, and the pointer is null or what the allocator gave.
        unsafe { control(ptr::null_mut(), command, (&raw const size).cast(), pointer) }.addr()
    }

    #[test]
    fn memory_is_zeroed_cached_and_returned() {
        let mut pointer = ptr::null_mut();
        assert_eq!(call(CALLOC, 100, &mut pointer), 0);
        assert_eq!(pointer.addr() % ALIGNMENT, 0);
        // SAFETY: 100 bytes have been allocated.
        let bytes = unsafe { core::slice::from_raw_parts_mut(pointer.cast::<u8>(), 100) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes.fill(7);
        assert_eq!(call(REALLOC, 200, &mut pointer), 0);
        // SAFETY: 200 bytes have been allocated.
        let bytes = unsafe { core::slice::from_raw_parts(pointer.cast::<u8>(), 200) };
        assert!(bytes[..100].iter().all(|byte| *byte == 7));
        assert_eq!(call(FREE, 0, &mut pointer), 0);
        let mut fresh = ptr::null_mut();
        assert_eq!(call(REALLOC, 8, &mut fresh), 0);
        assert_eq!(call(FREE, 0, &mut fresh), 0);
        assert_eq!(call(MALLOC, usize::MAX - 1, &mut fresh), StatusCode::ResourceExhausted as usize);
        assert_eq!(call(9, 8, &mut fresh), StatusCode::Unimplemented as usize);
    }
}
