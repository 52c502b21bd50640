//! Limits of what a module file may ask for.

use alloc::format;

use crate::{Error, Result};

/// Bytes of primitive globals that a module may ask for. Compilers keep scalars there, a few bytes each.
const GLOBAL_BYTES_LIMIT: u32 = 16 << 20;
/// Number of reference globals that a module may ask for.
const GLOBAL_REF_LIMIT: u32 = 1 << 20;

/// Checks the bytes of primitive globals and the number of reference globals that a module asks for.
pub(super) fn globals(bytes: u32, refs: u32) -> Result<(u32, u32)> {
    Ok((limited(bytes, GLOBAL_BYTES_LIMIT, "bytes of globals")?, limited(refs, GLOBAL_REF_LIMIT, "reference globals")?))
}

fn limited(value: u32, limit: u32, what: &str) -> Result<u32> {
    if value <= limit {
        return Ok(value);
    }
    let value = value as i32;
    Err(Error::out_of_range(format!("the module asks for {value} {what}; the limit is {limit}")))
}
