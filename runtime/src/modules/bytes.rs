//! Bytes that programs pass: texts, constants, files.

use alloc::string::String;
#[cfg(feature = "std")]
use alloc::vec::Vec;

use crate::vm::Buffer;
#[cfg(feature = "std")]
use crate::vm::{Ledger, array};
#[cfg(feature = "std")]
use crate::{Error, Result};

#[cfg(feature = "std")]
/// Calls `use_bytes` with a range of a byte buffer: borrowed if the buffer is immutable, otherwise a copy, which is charged to
/// the ledger meanwhile.
pub(super) fn with_bytes<T>(
    buffer: &Buffer,
    offset: u64,
    length: u64,
    ledger: &Ledger,
    use_bytes: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    let end = offset.checked_add(length).filter(|end| *end <= buffer.length());
    let (Some(_), Ok(start), Ok(count)) = (end, usize::try_from(offset), usize::try_from(length)) else {
        return Err(Error::out_of_range(alloc::format!(
            "range of {length} bytes at offset {offset} leaves the source of {} bytes",
            buffer.length()
        )));
    };
    match buffer.as_bytes().and_then(|bytes| bytes.get(start..)?.get(..count)) {
        Some(bytes) => use_bytes(bytes),
        None => {
            let _charge = ledger.charge(length)?;
            let mut bytes = array::filled(count, 0)?;
            buffer.read(offset, &mut bytes)?;
            use_bytes(&bytes)
        }
    }
}

/// Most bytes of a program's message in an error or a trace.
const MESSAGE_LIMIT: u64 = 4096;

/// Returns the text of a program's message, for errors and traces. A longer text than 4 KiB ends with `...`.
#[cold]
pub(super) fn message_text(message: &Buffer) -> String {
    let shown = message.length().min(MESSAGE_LIMIT);
    #[expect(clippy::disallowed_methods, reason = "at most `MESSAGE_LIMIT` bytes")]
    let mut bytes = alloc::vec![0; shown as usize];
    // The range is within the buffer.
    let _ = message.read(0, &mut bytes);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if shown < message.length() {
        text.push_str("...");
    }
    text
}

/// The most specialization constants of an executable.
#[cfg(feature = "std")]
const MAXIMUM_CONSTANTS: usize = 1 << 16;

/// Decodes the specialization constants of an executable: 32-bit words, little-endian.
#[cfg(feature = "std")]
pub(super) fn constant_words(constants: Option<&Buffer>, ledger: &Ledger) -> Result<Vec<u32>> {
    let Some(constants) = constants else { return Ok(Vec::new()) };
    with_bytes(constants, 0, constants.length(), ledger, |bytes| match bytes.as_chunks::<4>() {
        (words, _) if words.len() > MAXIMUM_CONSTANTS => Err(Error::resource_exhausted(alloc::format!(
            "{} specialization constants exceed the limit of {MAXIMUM_CONSTANTS}",
            words.len()
        ))),
        (words, []) => Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect()),
        (_, _) => Err(Error::invalid_argument(alloc::format!(
            "specialization constants of {} bytes are not 32-bit words",
            bytes.len()
        ))),
    })
}
