//! Limits of what a module file may ask for.

use alloc::format;

use crate::{Error, Result};

/// Bytes of primitive globals that a module may ask for. Compilers keep scalars there, a few bytes each.
pub(crate) const GLOBAL_BYTES_LIMIT: u32 = 16 << 20;
/// Number of reference globals that a module may ask for.
pub(crate) const GLOBAL_REF_LIMIT: u32 = 1 << 20;

/// A number that a module asks for, if it is within its limit.
pub(crate) fn limited(value: u32, limit: u32, what: &str) -> Result<u32> {
    if value <= limit {
        return Ok(value);
    }
    let value = value as i32;
    Err(Error::out_of_range(format!("the module asks for {value} {what}; the limit is {limit}")))
}
