//! Symbols and strings of the text forms.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::escaped::write_quoted;

/// Whether a character can stand in a symbol that is not quoted.
pub(super) const fn is_symbol_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '.')
}

/// A symbol with its `@`: quoted if a character asks for it.
pub(super) fn symbol(name: &str) -> String {
    match !name.is_empty() && name.chars().all(is_symbol_character) {
        true => format!("@{name}"),
        false => format!("@{}", quoted(name.as_bytes())),
    }
}

/// Bytes in quotes, as [`write_quoted`] writes them.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_quoted(&mut text, bytes);
    text
}

/// The bytes that the inside of a quoted text stands for.
pub(super) fn unquoted(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut result = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let escape = (byte == b'\\').then(|| text.get(index + 1..index + 3)).flatten();
        match escape.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            Some(digits) => {
                result.push(u8::from_str_radix(digits, 16).unwrap_or_default());
                index += 3;
            }
            None => {
                result.push(byte);
                index += 1;
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escaped::acts;

    #[test]
    fn quoting_is_undone() {
        let cases: [&[u8]; 10] = [
            b"",
            b"plain",
            b"a \"b\" c",
            b"back\\slash",
            b"\\41",
            b"\\4",
            b"line\nend\0",
            b"\xFF\xFEab",
            b"\\\xC3\xA9\\22",
            "\u{1b}[2J\r\u{9b}\u{202e}\u{2028}\u{e0041}".as_bytes(),
        ];
        for bytes in cases {
            let text = quoted(bytes);
            let inside = &text[1..text.len() - 1];
            assert!(!inside.contains('"') && !inside.contains(acts), "{text}");
            assert_eq!(unquoted(inside), bytes, "{text}");
        }
        assert_eq!(quoted(b"a \"b\" \\c"), "\"a \\22b\\22 \\5Cc\"");
    }
}
