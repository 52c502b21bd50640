//! The header of a function in MLIR text: `func.func public @main(%x: tensor<4xf32> {a} loc("x")) -> (tensor<4xf32> {b})`.

use std::borrow::Cow;

/// What a function of the model has that a declaration of its own is part of.
const DECLARATION: &[u8] = incarnate_bytecode::DECLARATION.as_bytes();
/// The attribute that the compiler takes names from.
pub(super) const NAME: &str = "iree.abi.name";
/// Attributes of JAX that describe an argument and a result.
const INFO: [&str; 2] = ["jax.arg_info", "jax.result_info"];

/// The attribute of the arguments of JAX that are extents of others.
const DIMENSION: &[u8] = b"jax.global_constant";

/// The header of a function.
#[derive(Debug)]
pub(super) struct Function<'t> {
    /// The name, without quotes.
    pub(super) name: &'t [u8],
    pub(super) is_public: bool,
    pub(super) arguments: Vec<Value<'t>>,
    pub(super) results: Vec<Value<'t>>,
    /// The model declares it.
    pub(super) is_declared: bool,
}

/// An argument or a result.
#[derive(Debug, Default)]
pub(super) struct Value<'t> {
    /// The name in the text, without `%`.
    pub(super) variable: &'t [u8],
    /// What the model calls it to the compiler.
    pub(super) given: Option<String>,
    /// What JAX says of it.
    pub(super) info: Option<String>,
    /// The text within the parentheses of its location.
    pub(super) location: Option<&'t [u8]>,
    pub(super) attributes: Attributes,
    /// It is an extent of other arguments.
    pub(super) is_dimension: bool,
    /// Where a further attribute belongs.
    pub(super) insert_at: usize,
}

/// Which attributes a value has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Attributes {
    #[default]
    None,
    /// Braces with nothing between them.
    Empty,
    Some,
}

/// Returns true for the characters of keywords and of names of operations.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')
}

impl<'t> Function<'t> {
    /// Reads what follows `func.func`; `None` for a function of another form.
    pub(super) fn parse(cursor: &mut Cursor<'t>) -> Option<Function<'t>> {
        cursor.trivia();
        let is_public = matches!(cursor.word(), b"" | b"public");
        cursor.expect(b"@")?;
        let name = match cursor.peek()? {
            b'"' => cursor.string()?,
            _ => cursor.name(),
        };
        cursor.expect(b"(")?;
        let arguments = cursor.list(|cursor| cursor.value(true))?;
        let mut results = Vec::new();
        if cursor.expect(b"->").is_some() && cursor.expect(b"(").is_some() {
            results = cursor.list(|cursor| cursor.value(false))?;
        }
        let mut is_declared = false;
        // A single result without parentheses cannot have attributes: its type is skipped.
        if cursor.word_before_brace()? == b"attributes" {
            cursor.expect(b"{")?;
            let inner = cursor.nested(b"}")?;
            is_declared = inner.windows(DECLARATION.len()).any(|window| window == DECLARATION);
        }
        Some(Function { name, is_public, arguments, results, is_declared })
    }
}

/// A position in MLIR text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t [u8], at: usize) -> Cursor<'t> {
        Cursor { text, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'t [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.at += count;
    }

    /// Steps over the bytes of a class.
    fn take(&mut self, is_one: impl Fn(u8) -> bool) -> &'t [u8] {
        let start = self.at;
        while self.peek().is_some_and(&is_one) {
            self.at += 1;
        }
        self.since(start)
    }

    pub(super) fn word(&mut self) -> &'t [u8] {
        self.take(is_word)
    }

    /// Steps over the name of a variable or of a symbol.
    fn name(&mut self) -> &'t [u8] {
        self.take(|byte| is_word(byte) || byte == b'-')
    }

    /// Reads the name of a value with its `%`, and the number of a result behind `#`.
    pub(super) fn operand(&mut self) -> Option<&'t str> {
        self.trivia();
        let start = self.at;
        self.expect(b"%")?;
        self.take(|byte| is_word(byte) || matches!(byte, b'-' | b'#'));
        core::str::from_utf8(self.since(start)).ok()
    }

    /// Returns the name, with its `%`, of the result of the operation that begins at a position.
    pub(super) fn result_before(&self, begin: usize) -> Option<&'t str> {
        let before = self.text.get(..begin)?.trim_ascii_end().strip_suffix(b"=")?.trim_ascii_end();
        let length = before.iter().rev().take_while(|byte| is_word(**byte) || **byte == b'-').count();
        let start = (before.len() - length).checked_sub(1)?;
        before.get(start..).filter(|name| name.first() == Some(&b'%')).and_then(|name| core::str::from_utf8(name).ok())
    }

    /// Reads the type of a tensor.
    pub(super) fn tensor(&mut self) -> Option<&'t [u8]> {
        self.trivia();
        let start = self.at;
        self.expect(b"tensor<")?;
        self.nested(b">")?;
        self.at += 1;
        Some(self.since(start))
    }

    /// Steps over a slash, and over the comment that it begins.
    pub(super) fn comment(&mut self) {
        if self.rest().starts_with(b"//") {
            self.take(|byte| byte != b'\n');
        } else {
            self.at += 1;
        }
    }

    /// Steps over spaces and comments.
    pub(super) fn trivia(&mut self) {
        loop {
            self.take(|byte| byte.is_ascii_whitespace());
            if !self.rest().starts_with(b"//") {
                return;
            }
            self.comment();
        }
    }

    /// Steps over spaces and a token; `None` if it does not follow.
    pub(super) fn expect(&mut self, token: &[u8]) -> Option<()> {
        self.trivia();
        self.rest().starts_with(token).then(|| self.at += token.len())
    }

    /// Steps over a string; returns the text between its quotes.
    pub(super) fn string(&mut self) -> Option<&'t [u8]> {
        self.expect(b"\"")?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                // A string ends on its line.
                b'\n' => return None,
                _ => self.at += 1,
            }
        }
        let inner = self.since(start);
        self.at += 1;
        Some(inner)
    }

    /// Steps over text with balanced brackets up to one of some bytes outside of them; returns the text before that.
    pub(super) fn nested(&mut self, ends: &[u8]) -> Option<&'t [u8]> {
        let (start, mut depth) = (self.at, 0_usize);
        loop {
            let byte = self.peek()?;
            if depth == 0 && ends.contains(&byte) {
                return Some(self.since(start));
            }
            match byte {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'/' => {
                    self.comment();
                    continue;
                }
                // The head of an arrow closes nothing.
                b'-' if self.rest().starts_with(b"->") => self.at += 1,
                b'(' | b'[' | b'{' | b'<' => depth += 1,
                b')' | b']' | b'}' | b'>' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Steps over text up to an opening brace outside of brackets; returns the last word before the brace.
    fn word_before_brace(&mut self) -> Option<&'t [u8]> {
        let mut last = &b""[..];
        loop {
            self.trivia();
            if self.peek()? == b'{' {
                return Some(last);
            }
            let text = self.nested(b" \n\t\r{/")?;
            if text.is_empty() {
                // A slash that begins no comment.
                return None;
            }
            last = text.rsplit(|byte| !is_word(*byte) && *byte != b'!').next().unwrap_or_default();
        }
    }

    /// Reads the items of a list whose parenthesis is open, and steps over the one that closes it.
    fn list(&mut self, item: impl Fn(&mut Cursor<'t>) -> Option<Value<'t>>) -> Option<Vec<Value<'t>>> {
        let mut items = Vec::new();
        if self.expect(b")").is_some() {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.expect(b")").is_some() {
                return Some(items);
            }
            self.expect(b",")?;
        }
    }

    /// Reads an argument, `%x: tensor<4xf32> {a = 1} loc("x")`, or a result, which has no name.
    fn value(&mut self, is_argument: bool) -> Option<Value<'t>> {
        let mut value = Value::default();
        if is_argument {
            self.expect(b"%")?;
            value.variable = self.name();
            self.expect(b":")?;
        }
        self.trivia();
        let start = self.at;
        // A type may be a function's, with spaces and comments; a location is no part of it.
        loop {
            // Within the brackets of a type, spaces and braces are parts of it.
            self.nested(b" \n\t\r,){/")?;
            value.insert_at = self.at;
            self.trivia();
            match self.peek()? {
                b',' | b')' | b'{' => break,
                _ if self.is_before_location() => break,
                // A slash that begins no comment.
                _ if self.at == value.insert_at => return None,
                _ => {}
            }
        }
        if value.insert_at == start {
            return None;
        }
        if self.expect(b"{").is_some() {
            value.insert_at = self.at;
            let inner = self.nested(b"}")?;
            self.at += 1;
            value.attributes = if inner.trim_ascii().is_empty() { Attributes::Empty } else { Attributes::Some };
            value.given = attribute(inner, &[NAME]);
            value.info = attribute(inner, &INFO);
            value.is_dimension = inner.windows(DIMENSION.len()).any(|window| window == DIMENSION);
        }
        if self.is_before_location() {
            value.location = Some(self.location()?);
        }
        Some(value)
    }

    fn is_before_location(&self) -> bool {
        let mut ahead = self.clone();
        ahead.trivia();
        ahead.word() == b"loc" && ahead.peek() == Some(b'(')
    }

    /// Steps over `loc(...)`; returns the text within the parentheses.
    pub(super) fn location(&mut self) -> Option<&'t [u8]> {
        self.expect(b"loc(")?;
        let inner = self.nested(b")")?;
        self.at += 1;
        Some(inner.trim_ascii())
    }
}

/// Returns the value of the first string attribute of a dictionary that has one of some names.
pub(super) fn attribute(dictionary: &[u8], names: &[&str]) -> Option<String> {
    let mut cursor = Cursor::new(dictionary, 0);
    loop {
        cursor.trivia();
        let key = match cursor.peek()? {
            b'"' => cursor.string()?,
            _ => cursor.word(),
        };
        if cursor.expect(b"=").is_some() {
            cursor.trivia();
            if names.iter().any(|name| name.as_bytes() == key) && cursor.peek() == Some(b'"') {
                return Some(unescaped(cursor.string()?).into_owned());
            }
        }
        // The last value ends with the dictionary.
        cursor.nested(b",")?;
        cursor.advance(1);
    }
}

/// Returns the text of a string without its escapes: `\"`, `\\`, `\n`, `\t` and two hexadecimal digits.
pub(super) fn unescaped(string: &[u8]) -> Cow<'_, str> {
    let mut bytes = Vec::with_capacity(string.len());
    let mut rest = string;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let code = after.get(..2).and_then(|digits| u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok());
        let (byte, length) = match (code, after.first()) {
            (Some(code), _) => (code, 2),
            (None, Some(b'n')) => (b'\n', 1),
            (None, Some(b't')) => (b'\t', 1),
            (None, Some(other)) => (*other, 1),
            (None, None) => break,
        };
        bytes.push(byte);
        rest = after.get(length..).unwrap_or_default();
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}
