//! Text of modules on its way to a reader.

use core::fmt::{self, Write};

/// Displays text with escapes for each character that acts: `\n`, `\r`, `\t`, and `\u{1b}` for others. The result is one line,
/// and it is the same if it is escaped again.
///
/// The author of a module chooses its names, attributes and messages. A terminal executes control characters, a line feed
/// begins a line that another program may take for output of this one, and format characters hide or reorder what
/// stands beside them.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return write_escaped(f, self.0, |_| false);
        }
        let mut text = alloc::string::String::new();
        write_escaped(&mut text, self.0, |_| false)?;
        f.pad(&text)
    }
}

/// Displays text as [`Escaped`] does, but keeps line feeds and tabs: for text whose lines the program itself wrote.
#[derive(Clone, Copy, Debug)]
pub struct EscapedLines<'a>(pub &'a str);

impl fmt::Display for EscapedLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, |character| matches!(character, '\n' | '\t'))
    }
}

fn write_escaped(out: &mut dyn Write, text: &str, kept: impl Fn(char) -> bool) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(|character| acts(character) && !kept(character)) {
        let (plain, behind) = rest.split_at(at);
        out.write_str(plain)?;
        let mut characters = behind.chars();
        match characters.next() {
            Some('\n') => out.write_str("\\n")?,
            Some('\r') => out.write_str("\\r")?,
            Some('\t') => out.write_str("\\t")?,
            // As `char::escape_unicode` writes it, whose iterator is much code.
            Some(character) => write!(out, "\\u{{{:x}}}", u32::from(character))?,
            None => {}
        }
        rest = characters.as_str();
    }
    out.write_str(rest)
}

/// Returns text of a file for a message: on one line, escaped as Rust escapes it, and cut behind so many characters.
#[must_use]
pub fn shown(text: &str, characters: usize) -> alloc::string::String {
    match text.char_indices().nth(characters).and_then(|(end, _)| text.get(..end)) {
        Some(start) => alloc::format!("{}...", start.escape_debug()),
        None => alloc::string::ToString::to_string(&text.escape_debug()),
    }
}

/// Writes bytes in quotes. What cannot stand there becomes a backslash and two hexadecimal digits for each byte, as in MLIR's strings:
/// quotes, backslashes, characters that act on a terminal, and what is not UTF-8.
pub(crate) fn write_quoted(out: &mut dyn Write, bytes: &[u8]) -> fmt::Result {
    out.write_str("\"")?;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if matches!(character, '"' | '\\') || acts(character) {
                let mut encoded = [0; 4];
                write_bytes(out, character.encode_utf8(&mut encoded).as_bytes())?;
            } else {
                out.write_char(character)?;
            }
        }
        write_bytes(out, chunk.invalid())?;
    }
    out.write_str("\"")
}

fn write_bytes(out: &mut dyn Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "\\{byte:02X}"))
}

/// Returns true for characters that act on what displays them: control characters, line and paragraph separators, and
/// format characters (Unicode 16.0's categories Cc, Zl, Zp and Cf), which include all that change the writing direction.
#[must_use]
pub const fn acts(character: char) -> bool {
    // Most text is ASCII.
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    matches!(
        character,
        '\u{80}'..='\u{9F}'
            | '\u{AD}'
            | '\u{600}'..='\u{605}'
            | '\u{61C}'
            | '\u{6DD}'
            | '\u{70F}'
            | '\u{890}'..='\u{891}'
            | '\u{8E2}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{110BD}'
            | '\u{110CD}'
            | '\u{13430}'..='\u{1343F}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0001}'
            | '\u{E0020}'..='\u{E007F}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    #[test]
    fn characters_that_act_are_escaped() {
        let text = "a\u{1b}[31m\r\n\t\0\u{7f}\u{9b}\u{202e}\u{2066}\u{2028}\u{feff}é\u{301}漢\\ \"'";
        let escaped = Escaped(text).to_string();
        assert_eq!(
            escaped,
            "a\\u{1b}[31m\\r\\n\\t\\u{0}\\u{7f}\\u{9b}\\u{202e}\\u{2066}\\u{2028}\\u{feff}é\u{301}漢\\ \"'"
        );
        assert_eq!(Escaped(&escaped).to_string(), escaped);
        assert_eq!(EscapedLines("a\n\tb\r\u{1b}").to_string(), "a\n\tb\\r\\u{1b}");
        assert_eq!(alloc::format!("{:>5}|{:<4}|{:.1}", Escaped("\n"), Escaped("a"), Escaped("bc")), "   \\n|a   |b");
    }

    /// The standard library's `escape_debug` knows the categories of all characters.
    #[test]
    fn every_character_of_the_categories_acts() {
        for character in ('\0'..=char::MAX).filter(|character| acts(*character)) {
            let debug: String = character.escape_debug().collect();
            assert!(debug.starts_with('\\'), "{debug}");
            assert!(!Escaped(&character.to_string()).to_string().chars().any(acts));
        }
        assert!(('\0'..=char::MAX).filter(|character| character.is_control()).all(acts));
        for bidirectional in ['\u{61C}', '\u{200E}', '\u{200F}'] {
            assert!(acts(bidirectional));
        }
        assert!(('\u{202A}'..='\u{202E}').chain('\u{2066}'..='\u{2069}').all(acts));
    }
}
