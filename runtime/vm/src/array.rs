//! Arrays whose length a module chooses: allocated fallibly. `clippy.toml` refuses the standard library's infallible ways.

use alloc::vec::Vec;

use crate::{Error, Result};

/// Creates an empty array with space for `capacity` elements.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the host has no memory.
pub fn with_capacity<T>(capacity: usize) -> Result<Vec<T>> {
    let mut array = Vec::new();
    array.try_reserve_exact(capacity).map_err(|_| no_memory(capacity))?;
    Ok(array)
}

/// Creates an array of `length` copies of a value.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the host has no memory.
pub fn filled<T: Clone>(length: usize, value: T) -> Result<Vec<T>> {
    let mut array = with_capacity(length)?;
    #[expect(clippy::disallowed_methods, reason = "the memory is reserved")]
    array.resize(length, value);
    Ok(array)
}

/// Creates an array of `length` values that a function returns.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the host has no memory.
pub fn filled_with<T>(length: usize, value: impl FnMut() -> T) -> Result<Vec<T>> {
    let mut array = with_capacity(length)?;
    #[expect(clippy::disallowed_methods, reason = "the memory is reserved")]
    array.resize_with(length, value);
    Ok(array)
}

/// Copies elements.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the host has no memory.
pub fn copy_of<T: Clone>(elements: &[T]) -> Result<Vec<T>> {
    let mut array = with_capacity(elements.len())?;
    #[expect(clippy::disallowed_methods, reason = "the memory is reserved")]
    array.extend_from_slice(elements);
    Ok(array)
}

/// Returns the error of an array of `length` elements for which there is no memory.
#[cold]
#[must_use]
pub fn no_memory(length: usize) -> Error {
    Error::resource_exhausted(alloc::format!("the host has no memory for {length} elements"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::StatusCode;

    #[test]
    fn lengths_beyond_memory_are_errors() {
        for error in [
            with_capacity::<u64>(usize::MAX).unwrap_err(),
            filled(usize::MAX, 0u64).unwrap_err(),
            filled_with(isize::MAX as usize, || 0u64).unwrap_err(),
        ] {
            assert_eq!(error.code(), StatusCode::ResourceExhausted);
        }
        assert_eq!(filled(3, 7u8).unwrap(), copy_of(&[7, 7, 7]).unwrap());
        assert!(with_capacity::<u8>(100).unwrap().capacity() >= 100);
    }
}
