//! Calling conventions: how many values of which kind a function takes and returns.
//!
//! The text form is IREE's: a version digit (`0`), the arguments, `_`, the results. Each value is a letter:
//!
//! | letter | value |
//! |---|---|
//! | `i`, `f` | 32 bits, integer or float |
//! | `I`, `F` | 64 bits, integer or float |
//! | `r` | reference |
//! | `v` | nothing; stands alone where there are no arguments or no results |
//! | `C` ... `D` | a span: what lies between, any number of times |
//!
//! A convention without `_` has no results; an empty or absent one has neither arguments nor results.

use alloc::format;
use alloc::string::String;

use crate::{Error, Escaped, Result};

/// One letter of a calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConventionItem {
    /// 32-bit integer, `i`.
    I32,
    /// 64-bit integer, `I`.
    I64,
    /// 32-bit float, `f`.
    F32,
    /// 64-bit float, `F`.
    F64,
    /// Reference, `r`.
    Ref,
    /// Begin of a span, `C`.
    SpanStart,
    /// End of a span, `D`.
    SpanEnd,
}

impl ConventionItem {
    /// The item of a letter, if there is one. `v` has none.
    #[inline]
    #[must_use]
    pub const fn from_letter(letter: u8) -> Option<ConventionItem> {
        Some(match letter {
            b'i' => ConventionItem::I32,
            b'I' => ConventionItem::I64,
            b'f' => ConventionItem::F32,
            b'F' => ConventionItem::F64,
            b'r' => ConventionItem::Ref,
            b'C' => ConventionItem::SpanStart,
            b'D' => ConventionItem::SpanEnd,
            _ => return None,
        })
    }
}

/// A well-formed calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct CallingConvention<'a> {
    arguments: &'a str,
    results: &'a str,
}

impl<'a> CallingConvention<'a> {
    /// Checks a text form: the version, that every letter is known, that spans are closed and not empty.
    ///
    /// Fails with `UNIMPLEMENTED` on another version than 0, else with `INVALID_ARGUMENT`.
    pub fn parse(text: &'a str) -> Result<CallingConvention<'a>> {
        let (arguments, results) = count_letters(text.as_bytes())?;
        let side = |start: usize, count: usize| text.get(start..start + count).unwrap_or_default();
        Ok(CallingConvention { arguments: side(1, arguments), results: side(text.len() - results, results) })
    }

    /// Creates a convention from the two sides of a parsed one.
    pub(super) const fn from_parsed(arguments: &'a str, results: &'a str) -> CallingConvention<'a> {
        CallingConvention { arguments, results }
    }

    /// The letters of the arguments; empty where there are none.
    #[must_use]
    pub fn argument_letters(self) -> &'a str {
        self.arguments
    }

    /// The letters of the results; empty where there are none.
    #[must_use]
    pub fn result_letters(self) -> &'a str {
        self.results
    }

    /// The arguments, in order.
    pub fn arguments(self) -> impl Iterator<Item = ConventionItem> + Clone + 'a {
        self.arguments.bytes().filter_map(ConventionItem::from_letter)
    }

    /// The results, in order.
    pub fn results(self) -> impl Iterator<Item = ConventionItem> + Clone + 'a {
        self.results.bytes().filter_map(ConventionItem::from_letter)
    }

    /// Numbers of 32-bit and of reference registers that the arguments take in the callee's frame: they fill either file
    /// from register 0 on, 64-bit values at even registers. Spans do not count: only imports have them.
    #[must_use]
    pub fn argument_registers(self) -> (usize, usize) {
        let (mut values, mut refs) = (0usize, 0);
        for item in self.arguments() {
            match item {
                ConventionItem::I32 | ConventionItem::F32 => values += 1,
                ConventionItem::I64 | ConventionItem::F64 => values = values.next_multiple_of(2) + 2,
                ConventionItem::Ref => refs += 1,
                ConventionItem::SpanStart | ConventionItem::SpanEnd => {}
            }
        }
        (values, refs)
    }

    /// Whether an argument is a span.
    #[must_use]
    pub fn is_variadic(self) -> bool {
        self.arguments.bytes().any(|letter| letter == b'C')
    }
}

/// What a letter is in a calling convention, as far as its form goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LetterClass {
    Value,
    SpanStart,
    SpanEnd,
    Other,
}

/// Classes by letter.
static LETTER_CLASSES: [LetterClass; 256] = {
    let mut table = [LetterClass::Other; 256];
    let mut letter = 0;
    while letter < table.len() {
        table[letter] = match ConventionItem::from_letter(letter as u8) {
            None => LetterClass::Other,
            Some(ConventionItem::SpanStart) => LetterClass::SpanStart,
            Some(ConventionItem::SpanEnd) => LetterClass::SpanEnd,
            Some(_) => LetterClass::Value,
        };
        letter += 1;
    }
    table
};

/// Checks a text form as [`CallingConvention::parse`] does. Returns the numbers of letters of the arguments, which stand behind
/// the version, and of the results, which stand at the end; neither counts a lone `v`.
#[inline]
pub(super) fn count_letters(text: &[u8]) -> Result<(usize, usize)> {
    let body = match text {
        [] => return Ok((0, 0)),
        [b'0', body @ ..] => body,
        _ => return Err(unknown_version(text)),
    };
    // Position by position: the text is too short for a search to pay.
    let end = body.iter().position(|&letter| letter == b'_').unwrap_or(body.len());
    let (arguments, results) = (body.get(..end).unwrap_or_default(), body.get(end + 1..).unwrap_or_default());
    Ok((check(text, arguments)?, check(text, results)?))
}

/// Checks the letters of one side; returns their number without a lone `v`.
#[inline]
fn check(text: &[u8], letters: &[u8]) -> Result<usize> {
    if letters == b"v" {
        return Ok(0);
    }
    let mut depth = 0usize;
    let mut previous = 0;
    for &letter in letters {
        match LETTER_CLASSES[usize::from(letter)] {
            LetterClass::Value => {}
            LetterClass::SpanStart => depth += 1,
            LetterClass::SpanEnd if depth == 0 => return Err(malformed(text, "`D` without `C`".into())),
            LetterClass::SpanEnd if previous == b'C' => return Err(malformed(text, "a span of nothing".into())),
            LetterClass::SpanEnd => depth -= 1,
            LetterClass::Other => return Err(malformed(text, format!("`{}` is no type", letter.escape_ascii()))),
        }
        previous = letter;
    }
    if depth != 0 {
        return Err(malformed(text, "`C` without `D`".into()));
    }
    Ok(letters.len())
}

#[cold]
fn unknown_version(text: &[u8]) -> Error {
    let text = String::from_utf8_lossy(text);
    let version = text.chars().next().unwrap_or_default();
    Error::unimplemented(format!("calling convention `{text}` has version `{version}`, not `0`"))
}

#[cold]
fn malformed(text: &[u8], why: String) -> Error {
    let text = String::from_utf8_lossy(text);
    Error::invalid_argument(format!("malformed calling convention `{}`: {why}", Escaped(&text)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn well_formed_conventions_are_divided() {
        for (text, arguments, results) in [
            ("", "", ""),
            ("0", "", ""),
            ("0v_v", "", ""),
            ("0v", "", ""),
            ("0rIi_r", "rIi", "r"),
            ("0rC", "", ""),
            ("0rCiDCrIID_v", "rCiDCrIID", ""),
            ("0CiCiDD_fF", "CiCiDD", "fF"),
        ] {
            match CallingConvention::parse(text) {
                Ok(convention) => {
                    assert_eq!((convention.argument_letters(), convention.result_letters()), (arguments, results));
                }
                Err(_) => assert_eq!(text, "0rC"),
            }
        }
        assert_eq!(CallingConvention::parse("0iIriF_I").unwrap().argument_registers(), (8, 1));
        let convention = CallingConvention::parse("0iCrID_F").unwrap();
        assert!(convention.is_variadic());
        assert_eq!(convention.arguments().count(), 5);
        assert_eq!(convention.results().collect::<Vec<_>>(), [ConventionItem::F64]);
    }

    #[test]
    fn malformed_conventions_are_refused() {
        for (text, message) in [
            ("1v_v", "version `1`"),
            ("éi", "version"),
            ("0ix_v", "`x` is no type"),
            ("0iv_v", "`v` is no type"),
            ("0_i_i", "`_` is no type"),
            ("0D_v", "`D` without `C`"),
            ("0Ci_v", "`C` without `D`"),
            ("0CD_v", "a span of nothing"),
        ] {
            let error = CallingConvention::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
