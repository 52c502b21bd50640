//! Pieces of source text that know where they are.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use super::super::quoting::{is_symbol_character, unquoted};
use crate::{Error, Result};

/// A part of one line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) text: &'a str,
    /// Counted from 1.
    pub(crate) line: usize,
    /// Bytes of the line in front of the text.
    pub(crate) column: usize,
}

impl<'a> Span<'a> {
    /// The part from a byte index on; empty if that is no boundary.
    fn from(self, index: usize) -> Span<'a> {
        Span { text: self.text.get(index..).unwrap_or_default(), column: self.column + index, ..self }
    }

    fn until(self, index: usize) -> Span<'a> {
        Span { text: self.text.get(..index).unwrap_or_default(), ..self }
    }

    pub(crate) fn trim(self) -> Span<'a> {
        let start = self.text.len() - self.text.trim_start().len();
        Span { text: self.text.trim(), column: self.column + start, ..self }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// An error at the span's first character.
    #[cold]
    pub(crate) fn error(self, message: impl Display) -> Error {
        Error::invalid_argument(format!("line {}, column {}: {message}", self.line, self.column + 1))
    }

    /// What follows a prefix, trimmed.
    pub(crate) fn strip_prefix(self, prefix: &str) -> Option<Span<'a>> {
        self.text.starts_with(prefix).then(|| self.from(prefix.len()).trim())
    }

    pub(crate) fn expect_prefix(self, prefix: &str) -> Result<Span<'a>> {
        self.strip_prefix(prefix).ok_or_else(|| self.error(format!("expected `{prefix}`")))
    }

    /// Fails unless nothing is left.
    pub(crate) fn expect_end(self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.error(format!("unexpected `{}`", self.text))) }
    }

    /// The word up to the first white space, and the rest, trimmed.
    pub(crate) fn word(self) -> (Span<'a>, Span<'a>) {
        let end = self.text.find(char::is_whitespace).unwrap_or(self.text.len());
        (self.until(end), self.from(end).trim())
    }

    /// Both sides of the first `separator` outside of quotes and brackets, trimmed.
    pub(crate) fn split(self, separator: &str) -> Option<(Span<'a>, Span<'a>)> {
        let (mut depth, mut quoted) = (0usize, false);
        for (index, character) in self.text.char_indices() {
            let rest = &self.text[index..];
            if !quoted && depth == 0 && rest.starts_with(separator) {
                return Some((self.until(index).trim(), self.from(index + separator.len()).trim()));
            }
            match character {
                '"' => quoted = !quoted,
                '(' | '[' | '{' if !quoted => depth += 1,
                ')' | ']' | '}' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    }

    /// The items between commas; none of an empty text.
    pub(crate) fn items(self) -> Vec<Span<'a>> {
        let mut items = Vec::new();
        let mut rest = self.trim();
        if rest.is_empty() {
            return items;
        }
        while let Some((item, behind)) = rest.split(",") {
            items.push(item);
            rest = behind;
        }
        items.push(rest);
        items
    }

    /// What stands between an opening bracket at the beginning and the next closing one, and what follows it.
    pub(crate) fn bracketed(self, open: char, close: char) -> Result<(Span<'a>, Span<'a>)> {
        let Some(inside) = self.text.strip_prefix(open) else {
            return Err(self.error(format!("expected `{open}`")));
        };
        match inside.find(close) {
            Some(end) => {
                let start = open.len_utf8();
                Ok((self.from(start).until(end).trim(), self.from(start + end + close.len_utf8()).trim()))
            }
            None => Err(self.error(format!("`{open}` without `{close}`"))),
        }
    }

    /// A quoted text's bytes, and what follows it.
    pub(crate) fn string(self) -> Result<(Vec<u8>, Span<'a>)> {
        let Some(inside) = self.text.strip_prefix('"') else {
            return Err(self.error("expected a text in quotes"));
        };
        match inside.find('"') {
            Some(end) => Ok((unquoted(&inside[..end]), self.from(end + 2).trim())),
            None => Err(self.error("quotes are not closed")),
        }
    }

    /// The same, of a text that must be UTF-8.
    pub(crate) fn utf8_string(self) -> Result<(String, Span<'a>)> {
        let (bytes, rest) = self.string()?;
        let text = String::from_utf8(bytes).map_err(|_| self.error("the text is not UTF-8"))?;
        Ok((text, rest))
    }

    /// A symbol's name, without its `@`, and what follows it.
    pub(crate) fn symbol(self) -> Result<(String, Span<'a>)> {
        let Some(inside) = self.text.strip_prefix('@') else {
            return Err(self.error("expected a symbol, which begins with `@`"));
        };
        if inside.starts_with('"') {
            return self.from(1).utf8_string();
        }
        let (name, rest) = self.from(1).name();
        if name.is_empty() {
            return Err(self.error("expected a symbol, which begins with `@`"));
        }
        Ok((name.text.into(), rest))
    }

    /// The longest run of symbol characters, and what follows it.
    pub(crate) fn name(self) -> (Span<'a>, Span<'a>) {
        let end = self.text.find(|character| !is_symbol_character(character)).unwrap_or(self.text.len());
        (self.until(end), self.from(end).trim())
    }

    /// An unsigned number, decimal or with `0x`.
    pub(crate) fn number<T: TryFrom<u64>>(self) -> Result<T> {
        let parsed = match self.text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => self.text.parse(),
        };
        let parsed = parsed.ok().filter(|_| !self.text.starts_with('+'));
        parsed
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.error(format!("`{}` is not a number from 0 to {} bits", self.text, 8 * size_of::<T>())))
    }
}

/// The line without a comment, which `//` or `#` begins outside of quotes.
pub(crate) fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (index, character) in line.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..index],
            '/' if !quoted && line[index..].starts_with("//") => return &line[..index],
            _ => {}
        }
    }
    line
}
