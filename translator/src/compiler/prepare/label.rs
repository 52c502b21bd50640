//! Names of values from what a framework says of them.

use super::header::{Cursor, Value, unescaped};
use super::scan::Aliases;

/// The name of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    None,
    /// The model names it to the compiler.
    Given(String),
    /// A name, and the text that it is made of.
    Found {
        name: String,
        source: String,
    },
}

/// What JAX calls the value that a function returns.
const RESULT: &str = "result";

impl Label {
    pub(super) fn of_argument(value: &Value<'_>, aliases: &Aliases<'_>) -> Label {
        if let Some(given) = &value.given {
            return Label::Given(given.clone());
        }
        let described = value.info.clone().or_else(|| located(value.location?, aliases));
        let described = described.map(|text| Label::found(name_of(&components(&text)), text));
        described.filter(|label| *label != Label::None).unwrap_or_else(|| {
            let variable = String::from_utf8_lossy(value.variable).into_owned();
            if is_generated(&variable) { Label::None } else { Label::found(name_of(&[&variable]), variable) }
        })
    }

    pub(super) fn of_result(value: &Value<'_>, aliases: &Aliases<'_>) -> Label {
        if let Some(given) = &value.given {
            return Label::Given(given.clone());
        }
        let Some(text) = value.info.clone().or_else(|| located(value.location?, aliases)) else { return Label::None };
        let all = components(&text);
        let name = match all.as_slice() {
            [RESULT] => return Label::None,
            // An element of a tuple.
            [RESULT, index, rest @ ..] if index.bytes().all(|byte| byte.is_ascii_digit()) => {
                let first = format!("output{index}");
                name_of(&[&[first.as_str()], rest].concat())
            }
            [RESULT, rest @ ..] => name_of(rest),
            all => name_of(all),
        };
        Label::found(name, text)
    }

    fn found(name: Option<String>, source: String) -> Label {
        name.map_or(Label::None, |name| Label::Found { name, source })
    }

    /// Returns the text that the name is made of, if the name was found.
    pub(super) fn source(&self) -> Option<&str> {
        match self {
            Label::Found { source, .. } => Some(source),
            Label::None | Label::Given(_) => None,
        }
    }
}

/// Returns the name that a location consists of: `"x"` or `"x"(...)`, but not `"file.py":3:4`.
fn located(location: &[u8], aliases: &Aliases<'_>) -> Option<String> {
    let location = aliases.get(location).copied().unwrap_or(location);
    let mut cursor = Cursor::new(location, 0);
    let name = unescaped(cursor.string()?).into_owned();
    (cursor.expect(b":").is_none() && !is_path(&name)).then_some(name)
}

/// Returns true for the path of a file or of an operation. The keys of a structure, in brackets, may have any characters.
fn is_path(text: &str) -> bool {
    let mut rest = text;
    loop {
        let (outside, key) = rest.split_once('[').unwrap_or((rest, ""));
        if outside.contains(['/', '(']) {
            return true;
        }
        if key.is_empty() {
            return false;
        }
        rest = key_of(key).1;
    }
}

/// Returns true for the names of variables that MLIR's printer generates.
fn is_generated(variable: &str) -> bool {
    let stem = variable.trim_end_matches(|last: char| last.is_ascii_digit() || last == '_');
    matches!(stem, "" | "arg")
}

/// Splits what Python calls an element of a structure: `result['a'][0].b` into `result`, `a`, `0`, `b`.
fn components(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (component, after) = match rest.strip_prefix('[') {
            Some(key) => key_of(key),
            None => {
                let attribute = rest.strip_prefix('.').unwrap_or(rest);
                attribute.split_at(attribute.find(['.', '[']).unwrap_or(attribute.len()))
            }
        };
        if !component.is_empty() {
            all.push(component);
        }
        rest = after;
    }
    all
}

/// Splits a key from what follows its bracket: `'a']`, `0]`, or `<flat index 0>]` of a class that JAX knows no names of.
fn key_of(text: &str) -> (&str, &str) {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let (key, rest) = match quote {
        None => text.split_once(']').unwrap_or((text, "")),
        Some(quote) => {
            let inner = &text[quote.len_utf8()..];
            let mut is_escaped = false;
            let end = inner.find(|c| {
                let is_end = c == quote && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            let (key, rest) = inner.split_at(end.unwrap_or(inner.len()));
            (key, rest.split_once(']').map_or("", |(_, rest)| rest))
        }
    };
    (key.trim_start_matches("<flat index ").trim_end_matches('>'), rest)
}

/// Joins components with dots. Characters that cannot be part of a name in a declaration become underscores.
fn name_of(components: &[&str]) -> Option<String> {
    /// The most characters of a name.
    const LENGTH: usize = 200;
    let part = |text: &&str| -> String {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        text.chars().map(|c| if is_part(c) { c } else { '_' }).collect()
    };
    let name = components.iter().map(part).collect::<Vec<_>>().join(".");
    let name: String = name.trim_matches('.').chars().take(LENGTH).collect();
    name.contains(char::is_alphanumeric).then_some(name)
}
