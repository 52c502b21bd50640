//! Words and aliases of locations in MLIR text.

use std::collections::HashMap;

use super::header::{Cursor, Function, is_word};

/// The locations that the text defines by aliases, such as `#loc1 = loc("x")`: the text within the parentheses by alias.
pub(super) type Aliases<'t> = HashMap<&'t [u8], &'t [u8]>;

/// Calls a function with each word of a text outside of strings and comments, and with the position behind it.
pub(super) fn words<'t>(text: &'t [u8], mut each: impl FnMut(&'t [u8], Cursor<'t>)) {
    let mut cursor = Cursor::new(text, 0);
    while let Some(byte) = cursor.peek() {
        match byte {
            b'"' => {
                // Text of another form: what follows may be part of a string.
                if cursor.string().is_none() {
                    return;
                }
            }
            b'/' => cursor.comment(),
            _ if is_word(byte) => {
                let word = cursor.word();
                each(word, cursor.clone());
            }
            _ => cursor.advance(1),
        }
    }
}

/// Finds the aliases of locations, if a function uses some.
pub(super) fn aliases<'t>(text: &'t [u8], functions: &[Function<'_>]) -> Aliases<'t> {
    let values = || functions.iter().flat_map(|function| function.arguments.iter().chain(&function.results));
    if !values().any(|value| value.location.is_some_and(|location| location.starts_with(b"#"))) {
        return Aliases::new();
    }
    let lines = text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"#loc"));
    let alias = |line: &'t [u8]| {
        let mut cursor = Cursor::new(line, 1);
        let name = line.get(..cursor.word().len() + 1)?;
        cursor.expect(b"=")?;
        Some((name, cursor.location()?))
    };
    lines.filter_map(alias).collect()
}
