//! The body of a function.

use incarnate_runtime::{Error, Result};

use super::{Analysis, Emitted};

/// Emits a function.
pub(super) fn emit(analysis: &Analysis<'_>, ordinal: u32) -> Result<Emitted> {
    match analysis.bodies.get(ordinal as usize) {
        Some(_) => Ok(Emitted { items: Vec::new() }),
        None => Err(Error::out_of_range("no such function")),
    }
}
