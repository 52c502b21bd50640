//! Converts module files of IREE's first bytecode format to module files of today.
//!
//! Compilers of March 2020 (IREE commit 2bbabc307d) wrote FlatBuffers with the file identifier `BMOD`. [`convert`] reads such a
//! file by its own schema and instruction set, replaces each instruction by those of today that do the same, and verifies the
//! result. The page [BMOD files](https://github.com/incarnate-rs/incarnate/blob/main/docs/bmod.md) has the table of instructions.
#![forbid(unsafe_code)]

mod instruction;
mod isa;
mod lower;
mod schema;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use incarnate_bytecode::{Contents, Error, Result, VerifiedModule};

use lower::Lowered;
use source::Source;

/// The file identifier, and where it stands: the FlatBuffer has no size prefix.
const IDENTIFIER: (std::ops::Range<usize>, &[u8]) = (4..8, b"BMOD");

/// Converts a `BMOD` file to a module file of today (`.vmfb`), which is verified.
///
/// The converted file has at most a fixed multiple of the bytes of the original. An error at an instruction names the offset of the
/// instruction in the original function: `BMOD+0x6`.
///
/// # Errors
/// - `INVALID_ARGUMENT`, `OUT_OF_RANGE`: the file is no `BMOD` file, or is broken: its FlatBuffer, its tables, an instruction.
/// - `UNIMPLEMENTED`: a constant is compressed.
/// - `RESOURCE_EXHAUSTED`: tables share more bytes than the limits allow, or the module does not fit into a FlatBuffer.
///
/// ```no_run
/// let converted = incarnate_bmod::convert(&std::fs::read("old.bmod")?)?;
/// std::fs::write("new.vmfb", converted)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn convert(file: &[u8]) -> Result<Vec<u8>> {
    let (range, identifier) = IDENTIFIER;
    if file.get(range) != Some(identifier) {
        return Err(Error::invalid_argument("the file is not a BMOD file; a .vmfb file needs no conversion"));
    }
    let source = Source::read(file)?;
    let lowered = lower::lower(&source)?;
    let converted = lowered.module.write()?;
    match VerifiedModule::load(Arc::new(Contents::copy_from(&converted))) {
        Ok(_) => Ok(converted),
        Err(error) => Err(located(error, &source, &lowered)),
    }
}

/// Adds to an error of the verifier where the instruction is in the original file.
fn located(error: Error, source: &Source, lowered: &Lowered) -> Error {
    let original = error.locations().first().and_then(|location| {
        let function = source.function_named(location.function.as_deref()?)?;
        lowered.original_offset(function, location.offset?.try_into().ok()?)
    });
    match original {
        Some(offset) => error.context(format!("BMOD+0x{offset:X}")),
        None => error,
    }
}
