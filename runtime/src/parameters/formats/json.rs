//! As much of JSON (RFC 8259) as headers of archives need: values are read in order, and what is not wanted is passed over.

use crate::{Error, Result};

/// Most levels of arrays and objects within each other.
const MAXIMUM_DEPTH: u32 = 32;

/// Reads values from text.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Reader<'a> {
        Reader { text, position: 0 }
    }

    /// An error at the place that is read.
    pub(super) fn error(&self, what: &str) -> Error {
        Error::invalid_argument(format!("{what} at byte {} of the JSON text", self.position))
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.position..)?;
        self.position += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.text.as_bytes().get(self.position).copied()
    }

    /// Takes a punctuation mark, if it is next.
    fn takes(&mut self, mark: u8) -> bool {
        let found = self.peek() == Some(mark);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, mark: u8) -> Result<()> {
        if self.takes(mark) { Ok(()) } else { Err(self.error(&format!("no '{}'", char::from(mark)))) }
    }

    /// True where nothing follows but white space.
    pub(super) fn at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Reads an object: `member` is called with each key and reads its value.
    pub(super) fn object(&mut self, mut member: impl FnMut(&mut Reader<'a>, String) -> Result<()>) -> Result<()> {
        self.expect(b'{')?;
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            member(self, key)?;
            if !self.takes(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Reads an array: `element` is called for each and reads it.
    pub(super) fn array(&mut self, mut element: impl FnMut(&mut Reader<'a>) -> Result<()>) -> Result<()> {
        self.expect(b'[')?;
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if !self.takes(b',') {
                return self.expect(b']');
            }
        }
    }

    /// Reads an array of natural numbers.
    pub(super) fn numbers(&mut self) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        self.array(|reader| {
            numbers.push(reader.number()?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Reads a natural number of at most 64 bits.
    pub(super) fn number(&mut self) -> Result<u64> {
        self.peek();
        let rest = self.text.get(self.position..).unwrap_or_default();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest.get(..digits).and_then(|digits| digits.parse().ok());
        let number = number.ok_or_else(|| self.error("no natural number of 64 bits"))?;
        self.position += digits;
        match self.text.as_bytes().get(self.position) {
            Some(b'.' | b'e' | b'E') => Err(self.error("no natural number")),
            _ => Ok(number),
        }
    }

    /// Reads a text.
    pub(super) fn string(&mut self) -> Result<String> {
        self.expect(b'"')?;
        let mut text = String::new();
        loop {
            let rest = self.text.get(self.position..).unwrap_or_default();
            let plain = rest
                .find(|c: char| matches!(c, '"' | '\\') || c < ' ')
                .ok_or_else(|| self.error("no end of a text"))?;
            text.push_str(rest.get(..plain).unwrap_or_default());
            self.position += plain + 1;
            match rest.as_bytes().get(plain) {
                Some(b'"') => return Ok(text),
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.error("a control character")),
            }
        }
    }

    /// The character of an escape, behind the backslash.
    fn escape(&mut self) -> Result<char> {
        let letter = self.text.as_bytes().get(self.position).copied();
        self.position += 1;
        Ok(match letter {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(mark @ (b'"' | b'\\' | b'/')) => char::from(mark),
            Some(b'u') => {
                let first = self.code_unit()?;
                let rest = self.text.get(self.position..).unwrap_or_default();
                let units = if (0xD800..0xDC00).contains(&first) && rest.starts_with("\\u") {
                    self.position += 2;
                    vec![first, self.code_unit()?]
                } else {
                    vec![first]
                };
                match char::decode_utf16(units).collect::<Result<Vec<char>, _>>().as_deref() {
                    Ok([character]) => *character,
                    _ => return Err(self.error("half of a surrogate pair")),
                }
            }
            _ => return Err(self.error("an unknown escape")),
        })
    }

    fn code_unit(&mut self) -> Result<u16> {
        let digits = self
            .text
            .get(self.position..self.position + 4)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        self.position += 4;
        unit.ok_or_else(|| self.error("no four hexadecimal digits"))
    }

    /// Passes over any value.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_within(0)
    }

    fn skip_within(&mut self, depth: u32) -> Result<()> {
        if depth > MAXIMUM_DEPTH {
            return Err(self.error("values nested too deep"));
        }
        match self.peek() {
            Some(b'{') => self.object(|reader, _| reader.skip_within(depth + 1)),
            Some(b'[') => self.array(|reader| reader.skip_within(depth + 1)),
            Some(b'"') => self.string().map(|_| ()),
            _ => {
                let rest = self.text.get(self.position..).unwrap_or_default();
                let length =
                    rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')).count();
                let word = rest.get(..length).unwrap_or_default();
                // Rust takes more spellings of numbers than JSON has, none of which begin so.
                let number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && word.parse::<f64>().is_ok();
                if !number && !matches!(word, "true" | "false" | "null") {
                    return Err(self.error("no value"));
                }
                self.position += length;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn texts_are_unescaped() {
        for (text, expected) in [
            (r#" "" "#, ""),
            (r#""a b""#, "a b"),
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
            (r#""\u00e4\ud83d\ude00ß""#, "ä😀ß"),
        ] {
            assert_eq!(Reader::new(text).string().unwrap(), expected, "{text}");
        }
        for text in
            ["", "\"", r#""\"#, r#""\x""#, r#""\u12""#, r#""\ud83d""#, r#""\ud83dx\ude00""#, "\"\n\"", r#""\u12ä4""#]
        {
            assert!(Reader::new(text).string().is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_passed_over() {
        for text in ["0", "-1.5e+3", "true", "null", "[]", "[1, [2], {\"a\": {}}]", "{\"a\": [\"b\"], \"c\": false}"] {
            let mut reader = Reader::new(text);
            reader.skip().unwrap();
            assert!(reader.at_end(), "{text}");
        }
        let deep = "[".repeat(100_000);
        for text in
            ["", "nul", "nan", "inf", "+1", "[1 2]", "[1,]", "{\"a\" 1}", "{a: 1}", "{\"a\": 1", "[1", deep.as_str()]
        {
            assert!(Reader::new(text).skip().is_err(), "{text}");
        }
        assert_eq!(Reader::new("[1, 23,18446744073709551615]").numbers().unwrap(), [1, 23, u64::MAX]);
        for text in ["[-1]", "[1.5]", "[18446744073709551616]", "[1e3]", "[\"1\"]"] {
            assert!(Reader::new(text).numbers().is_err(), "{text}");
        }
    }
}
