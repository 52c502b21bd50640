//! Names and strings in the text.

use core::fmt::Write as _;

/// Writes text as a string of MLIR, in quotes.
#[must_use]
pub(crate) fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | 0..=31 | 127.. => {
                let _ = write!(quoted, "\\{byte:02X}");
            }
            _ => quoted.push(char::from(byte)),
        }
    }
    quoted.push('"');
    quoted
}

/// Writes a name as a symbol, `@name`: in quotes where it has other characters than identifiers have.
#[must_use]
pub fn symbol(name: &str) -> String {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    if name.starts_with(is_first) && name.chars().all(is_rest) {
        format!("@{name}")
    } else {
        format!("@{}", string(name))
    }
}
