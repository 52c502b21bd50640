//! Names of a module as Rust: identifiers, and text in comments and literals.
//!
//! Names in a module are untrusted. Identifiers are ASCII, in the case that Rust's lints require, unique, not keywords, and
//! bounded in length. Other text appears only in doc comments of one line, and escaped in literals.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::VerifiedModule;
use proc_macro2::{Ident, Span};

use crate::kernels::is_variable;

/// The most characters of an identifier, without the suffix that makes it unique.
const IDENTIFIER_LENGTH: usize = 64;
/// The most characters of a text in a comment.
const TEXT_LENGTH: usize = 400;

/// Words that are keywords or reserved in some edition.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "Self",
];

/// The name of a function in Rust.
#[derive(Clone, Debug)]
pub(crate) struct FunctionName {
    /// The identifier: snake case, none of [`RESERVED`].
    pub(crate) ident: Ident,
    /// The lines of its doc comment.
    pub(crate) docs: Vec<String>,
}

/// Identifiers that bodies use; no function has one of these names.
const RESERVED: &[&str] = &["state", "stack", "fuel", "resumed", "saved", "spills", "step", "results", "drop"];

/// Names of the items around functions; the names in bodies are [`RESERVED`].
const USED: &[&str] = &["buffer", "export", "other", "main", "call", "resume", "translated"];

/// The prefix of modules of functions.
const USED_PREFIX: &str = "functions_";

/// The case of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// `like_this`: functions, variables, fields, modules.
    Snake,
    /// `LikeThis`: types.
    Camel,
}

/// The identifiers of one namespace; each is claimed once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    taken: HashSet<String>,
    /// For each stem, the next suffix to try.
    suffixes: HashMap<String, u32>,
}

impl Scope {
    /// Creates a namespace with identifiers that are taken.
    pub(crate) fn with<'a>(taken: impl IntoIterator<Item = &'a str>) -> Scope {
        Scope { taken: taken.into_iter().map(str::to_owned).collect(), suffixes: HashMap::new() }
    }

    /// Claims an identifier for each name, in order. Among equal candidates, a name that already is an identifier keeps it.
    pub(crate) fn claim_all(&mut self, names: &[&str], case: Case, fallback: &str) -> Vec<Ident> {
        self.claim_each(names, case, |_| fallback.to_owned())
    }

    /// As [`Scope::claim_all`], with a fallback for each position.
    pub(crate) fn claim_each(&mut self, names: &[&str], case: Case, fallback: impl Fn(usize) -> String) -> Vec<Ident> {
        let is_one = |name: &str| !name.is_empty() && identifier(name, case, "") == name;
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|index| !names.get(*index).is_some_and(|name| is_one(name)));
        let mut claimed: Vec<(usize, Ident)> = Vec::with_capacity(names.len());
        for index in order {
            claimed.push((index, self.claim(names.get(index).copied().unwrap_or_default(), case, &fallback(index))));
        }
        claimed.sort_by_key(|row| row.0);
        claimed.into_iter().map(|row| row.1).collect()
    }

    /// Claims an identifier derived from `name`, or from `fallback` if no character of the name can be used.
    pub(crate) fn claim(&mut self, name: &str, case: Case, fallback: &str) -> Ident {
        let base = identifier(name, case, fallback);
        let joint = match case {
            Case::Snake if base.ends_with('_') => "",
            Case::Snake => "_",
            // A suffix after a digit would read as one number.
            Case::Camel if base.ends_with(|last: char| last.is_ascii_digit()) => "N",
            Case::Camel => "",
        };
        self.unique(&base, joint)
    }

    /// Claims an identifier: `base`, or with the first number from 2 on behind it that is not taken.
    pub(crate) fn unique(&mut self, base: &str, joint: &str) -> Ident {
        if self.taken.insert(base.to_owned()) {
            return Ident::new(base, Span::call_site());
        }
        let stem = format!("{base}{joint}");
        // All smaller suffixes are taken.
        let next = self.suffixes.entry(stem.clone()).or_insert(2);
        loop {
            let text = format!("{stem}{next}");
            *next += 1;
            if self.taken.insert(text.clone()) {
                return Ident::new(&text, Span::call_site());
            }
        }
    }
}

/// Converts a name to an identifier: ASCII letters, digits and single underscores, beginning with a letter, not a keyword.
pub(crate) fn identifier(name: &str, case: Case, fallback: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut lower, mut length) = (false, false, 0);
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            open = false;
            continue;
        }
        if length >= IDENTIFIER_LENGTH {
            break;
        }
        length += 1;
        // `fooBar` is two words, `FOO` one.
        let begins = !open || c.is_ascii_uppercase() && lower;
        lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        open = true;
        match words.last_mut() {
            Some(word) if !begins => word.push(c.to_ascii_lowercase()),
            _ => words.push(c.to_ascii_lowercase().to_string()),
        }
    }
    if words.first().is_none_or(|word| word.starts_with(|first: char| first.is_ascii_digit())) {
        words.insert(0, fallback.to_ascii_lowercase());
    }
    let text = match case {
        Case::Snake => words.join("_"),
        Case::Camel => words.iter().map(|word| capitalised(word)).collect(),
    };
    if KEYWORDS.contains(&text.as_str()) { format!("{text}_") } else { text }
}

/// The Rust module for a module file of a name, such as `digits` for `digits.vmfb`.
#[must_use]
pub fn module_identifier(file: &std::path::Path) -> String {
    identifier(&file.file_stem().unwrap_or_default().to_string_lossy(), Case::Snake, "module")
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Whether generated code uses a name, as a variable (letters followed by digits, such as `v7`) or for an item.
fn is_used(name: &str) -> bool {
    let letters = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let variable = letters.len() < name.len() && letters.bytes().all(|letter| letter.is_ascii_lowercase());
    variable || USED.contains(&name) || RESERVED.contains(&name) || name.starts_with(USED_PREFIX) || is_variable(name)
}

/// Text on one line of a comment or message. Control characters, changes of the writing direction and invisible characters are
/// escaped, and very long text is truncated.
pub(crate) fn line(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == TEXT_LENGTH {
            out.push_str("...");
            break;
        }
        if c.is_control() || !(c.is_ascii() || c.is_alphanumeric()) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    // These would end or begin a block comment.
    out.replace("*/", "* /").replace("/*", "/ *")
}

/// Text of code in a doc comment: as [`line()`], in backticks.
pub(crate) fn code(text: &str) -> String {
    format!("`{}`", line(text).replace('`', "'"))
}

/// The names of a module's functions by ordinal, with their doc comments.
pub(crate) fn functions(module: &VerifiedModule) -> Vec<FunctionName> {
    let mut scope = Scope::default();
    let mut exports = vec![Vec::new(); module.function_count() as usize];
    for export in module.exports() {
        if let Some(names) = exports.get_mut(export.function as usize) {
            names.push(export.local_name);
        }
    }
    let bases = (0..module.function_count()).map(|ordinal| {
        let name = module.function_name(ordinal);
        let base = identifier(&name, Case::Snake, "function");
        if is_used(&base) { format!("function_{base}") } else { name }
    });
    let bases: Vec<String> = bases.collect();
    let bases: Vec<&str> = bases.iter().map(String::as_str).collect();
    let idents = scope.claim_all(&bases, Case::Snake, "function");
    let names = exports.iter().zip(idents).zip(0..).map(|((exports, ident), ordinal)| {
        let name = module.function_name(ordinal);
        let mut docs = vec![code(&format!("@{name}"))];
        let others = exports.iter().filter(|export| **export != name).map(|export| code(&format!("@{export}")));
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            docs.push(String::new());
            docs.push(format!("Also exported as {}.", others.join(", ")));
        }
        FunctionName { ident, docs }
    });
    names.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, snake, camel) in [
            ("simple_mul", "simple_mul", "SimpleMul"),
            ("fooBar", "foo_bar", "FooBar"),
            ("FOO", "foo", "Foo"),
            ("$async", "async_", "Async"),
            ("self", "self_", "Self_"),
            ("gen", "gen_", "Gen"),
            ("_", "x", "X"),
            ("", "x", "X"),
            ("9lives", "x_9lives", "X9lives"),
            ("a__b--c", "a_b_c", "ABC"),
            ("\"; panic!(); \"", "panic", "Panic"),
            ("*/ fn main() {} /*", "fn_main", "FnMain"),
            ("line\nbreak", "line_break", "LineBreak"),
            ("straße", "stra_e", "StraE"),
            ("\u{202e}evil", "evil", "Evil"),
            ("日本", "x", "X"),
        ] {
            assert_eq!(identifier(name, Case::Snake, "x"), snake, "{name:?}");
            assert_eq!(identifier(name, Case::Camel, "x"), camel, "{name:?}");
        }
        assert!(identifier(&"long".repeat(1000), Case::Snake, "x").len() <= IDENTIFIER_LENGTH);
    }

    #[test]
    fn identifiers_of_a_scope_are_distinct() {
        let mut scope = Scope::with(["load"]);
        let mut claim = |name| scope.claim(name, Case::Snake, "x").to_string();
        let names = ["a.b", "a_b", "a-b", "load", "a_b_2", "", "x", "type", "type_", "a b"].map(&mut claim);
        assert_eq!(names, ["a_b", "a_b_2", "a_b_3", "load_2", "a_b_2_2", "x", "x_2", "type_", "type_2", "a_b_4"]);
        let inputs =
            Scope::default().claim_each(&["a.b", "a_b", "", "0"], Case::Snake, |index| format!("input{index}"));
        assert_eq!(inputs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a_b_2", "a_b", "input2", "input3_0"]);
        let idents = Scope::default().claim_all(&["fooBar", "foo-bar", "foo_bar"], Case::Snake, "x");
        assert_eq!(idents.iter().map(ToString::to_string).collect::<Vec<_>>(), ["foo_bar_2", "foo_bar_3", "foo_bar"]);
        let mut scope = Scope::default();
        let types = ["a1", "A1", "a12", "b", "B"].map(|name| scope.claim(name, Case::Camel, "x").to_string());
        assert_eq!(types, ["A1", "A1N2", "A12", "B", "B2"]);
    }

    #[test]
    fn text_stays_on_its_line() {
        for (text, wanted) in [
            ("tensor<4xf32>", "tensor<4xf32>"),
            ("a\nb\r\0", "a\\u{a}b\\u{d}\\u{0}"),
            ("*/ /* //", "* / / * //"),
            ("\u{202e}x\u{200b}", "\\u{202e}x\\u{200b}"),
            ("é", "é"),
            ("\u{2028}", "\\u{2028}"),
        ] {
            assert_eq!(line(text), wanted);
        }
        assert_eq!(line(&"x".repeat(1000)).len(), TEXT_LENGTH + 3);
        assert_eq!(code("a`b"), "`a'b`");
        // Replacements create no further sequences to replace.
        assert!(!line("*/*/*/*").contains("*/") && !line("/*/*/").contains("/*"));
    }

    #[test]
    fn function_names_do_not_clash_with_variables() {
        assert!(is_used("v7") && is_used("input0") && is_used("step") && !is_used("v") && !is_used("a_1"));
    }
}
