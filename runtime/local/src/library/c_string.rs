//! C strings in the tables of libraries and plugins.
#![allow(unsafe_code, reason = "reads C strings")]

use alloc::string::String;
use core::ffi::{CStr, c_char};

/// Converts a C string; null becomes empty.
///
/// # Safety
/// `pointer` must be null or point to a NUL-terminated string.
pub(crate) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: not null, so by contract a NUL-terminated string.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
