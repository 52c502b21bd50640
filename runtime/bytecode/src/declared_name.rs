//! The names of inputs and outputs as declarations contain them.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::escaped::write_quoted;

/// Returns true for names that a declaration contains without quotes: those of MLIR's values, such as `x`, `layer.0` and `a-b`.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"$._-".contains(&byte))
}

/// Text of a name in a declaration. Names of other characters than letters, digits, `$`, `.`, `_` and `-` are quoted, with the
/// escapes of MLIR's strings.
#[derive(Clone, Copy, Debug)]
pub struct QuotedName<'a>(pub &'a str);

impl fmt::Display for QuotedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain(self.0) {
            return f.write_str(self.0);
        }
        write_quoted(f, self.0.as_bytes())
    }
}

/// Reads a quoted name at the start of a text, without the first quote; returns the name and the rest of the text.
pub(crate) fn unquote(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = end_of_quoted(text)?;
    let (quoted, rest) = (text.get(..end)?, text.get(end + 1..)?);
    if !quoted.contains('\\') {
        return Some((Cow::Borrowed(quoted), rest));
    }
    let mut name = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            name.push(byte);
            continue;
        }
        let first = bytes.next()?;
        match (char::from(first).to_digit(16), first) {
            (Some(high), _) => {
                let low = char::from(bytes.next()?).to_digit(16)?;
                // Two digits are below 256.
                name.push((high * 16 + low) as u8);
            }
            (None, b'"' | b'\\') => name.push(first),
            (None, b'n') => name.push(b'\n'),
            (None, b't') => name.push(b'\t'),
            (None, _) => return None,
        }
    }
    Some((Cow::Owned(String::from_utf8(name).ok()?), rest))
}

/// Returns the position of the quote that ends a text after its first quote.
pub(crate) fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Returns the name of a value that the model does not name, such as `input0`: `kind` is `input` or `output`.
pub(crate) fn generic_name(kind: &str, index: usize) -> String {
    alloc::format!("{kind}{index}")
}

/// Returns a name for each value: the given ones, and `generic` with the position for values without a name and for those whose name
/// an earlier value has.
pub(crate) fn unique(given: Vec<String>, generic: &str) -> Vec<String> {
    let mut taken: BTreeSet<String> = given.iter().filter(|name| !name.is_empty()).cloned().collect();
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let rows = given.into_iter().enumerate();
    rows.map(|(index, given)| {
        if !given.is_empty() && kept.insert(given.clone()) {
            return given;
        }
        let mut name = generic_name(generic, index);
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        name
    })
    .collect()
}
