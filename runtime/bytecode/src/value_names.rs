//! The names of inputs and outputs as users write them.
//!
//! The name of a value is the model's, whatever characters it has, and no two inputs or outputs of a function have one name. A user
//! may write the name itself, or its [identifier](identifier_of) where that is the identifier of one value only.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::declared_name::unique;
use crate::{Error, Result, ValueInfo};

/// Returns a name as an identifier: with underscores for all characters but ASCII letters and digits, and none at the ends. It may be
/// empty, and several names may have one identifier.
#[must_use]
pub fn identifier_of(name: &str) -> String {
    let text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    text.trim_matches('_').into()
}

/// Returns an identifier for each value, no two of which are equal: that of the name, if the name is an identifier itself or no other
/// value has the same one; else `generic` and the position.
#[must_use]
pub fn identifiers(values: &[ValueInfo], generic: &str) -> Vec<String> {
    let own: Vec<String> = values.iter().map(|value| identifier_of(value.name())).collect();
    let is_exact =
        |index: usize| values.get(index).is_some_and(|value| own.get(index).is_some_and(|own| own == value.name()));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    own.iter().for_each(|own| *counts.entry(own).or_default() += 1);
    let is_exact_elsewhere: BTreeSet<&str> =
        own.iter().enumerate().filter(|(index, _)| is_exact(*index)).map(|(_, own)| own.as_str()).collect();
    let takes = |(index, own): (usize, &String)| {
        let is_alone = counts.get(own.as_str()) == Some(&1) && !is_exact_elsewhere.contains(own.as_str());
        let is_taken = own.starts_with(|c: char| c.is_ascii_alphabetic()) && (is_exact(index) || is_alone);
        is_taken.then(|| own.clone())
    };
    unique(own.iter().enumerate().map(|row| takes(row).unwrap_or_default()).collect(), generic)
}

/// Finds the value that a user means: the one of this name, or else the only one whose [identifier](identifier_of) this is.
///
/// # Errors
/// NOT_FOUND if there is none, and INVALID_ARGUMENT if there are several; the message has the names.
pub fn find_value(values: &[ValueInfo], name: &str) -> Result<usize> {
    if let Some(index) = values.iter().position(|value| value.name() == name) {
        return Ok(index);
    }
    let has_identifier = |value: &ValueInfo| !name.is_empty() && identifier_of(value.name()) == name;
    let mut found = values.iter().enumerate().filter(|(_, value)| has_identifier(value));
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (None, _) => {
            let names = match values {
                [] => String::from("there are no names"),
                _ => alloc::format!("the names are {}", list(values.iter())),
            };
            Err(Error::not_found(alloc::format!("nothing is named `{}`; {names}", shortened(name))))
        }
        (Some(_), Some(_)) => {
            let names = list(values.iter().filter(|value| has_identifier(value)));
            Err(Error::invalid_argument(alloc::format!("`{}` may be any of {names}", shortened(name))))
        }
    }
}

/// Returns the start of a name for a message, as a hostile module may have long ones.
fn shortened(name: &str) -> Cow<'_, str> {
    const SHOWN: usize = 80;
    match name.char_indices().nth(SHOWN) {
        Some((at, _)) => Cow::Owned(alloc::format!("{}...", name.get(..at).unwrap_or_default())),
        None => Cow::Borrowed(name),
    }
}

/// Lists names for a message, of which a hostile module may have many.
fn list<'a>(values: impl Iterator<Item = &'a ValueInfo>) -> String {
    const SHOWN: usize = 16;
    let mut text = String::new();
    for (index, value) in values.enumerate() {
        if index == SHOWN {
            text.push_str(", ...");
            break;
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{}`{}`", if index == 0 { "" } else { ", " }, shortened(value.name()));
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::declared_name::unquote;
    use crate::{ConventionItem, QuotedName, Signature, StatusCode};
    use alloc::string::ToString;
    use alloc::{format, vec};

    fn values(names: &[&str]) -> Vec<ValueInfo> {
        let list: Vec<String> = names.iter().map(|name| format!("%{}: i32", QuotedName(name))).collect();
        let text = format!("sync func @f({}) -> ()", list.join(", "));
        Signature::new(Some(&text), &vec![ConventionItem::I32; names.len()], &[]).inputs
    }

    fn names(values: &[ValueInfo]) -> Vec<&str> {
        values.iter().map(ValueInfo::name).collect()
    }

    #[test]
    fn every_name_is_declared_and_read_as_it_is() {
        let all = [
            "a.b",
            "a_b",
            "a b",
            "input:0",
            "/enc/x",
            "f(x, y): z",
            "\"",
            "\\",
            "\n",
            "\u{202e}x\u{9b}",
            "é",
            "}>",
            "%x",
            "->",
            "{a = 1}",
        ];
        let signature = values(&all);
        assert_eq!(names(&signature), all);
        assert_eq!(format!("{} {}", QuotedName("a.b-1"), QuotedName("a\"b")), "a.b-1 \"a\\22b\"");
        assert_eq!(unquote("a\\\"\\\\\\5C\\n\": i32").unwrap(), (Cow::Owned("a\"\\\\\n".into()), ": i32"));
        for malformed in ["a", "a\\\"", "a\\x\"", "a\\F\"", "a\\FF\""] {
            assert_eq!(unquote(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn names_are_unique() {
        assert_eq!(names(&values(&["x", "x", "input1", "y", "y"])), ["x", "input1_", "input1", "y", "input4"]);
        let unnamed = Signature::new(Some("f @f(i32, %input0: i32) -> ()"), &[ConventionItem::I32; 2], &[]);
        assert_eq!(names(&unnamed.inputs), ["input0", "input1"]);
        let text = "sync func @f(i32, %input0: i32) -> ()";
        assert_eq!(names(&Signature::new(Some(text), &[ConventionItem::I32; 2], &[]).inputs), ["input0_", "input0"]);
    }

    #[test]
    fn values_are_found_by_name_or_by_the_identifier_of_one() {
        let inputs = values(&["a.b", "a_b", "c.d", "c/d", "e.f"]);
        let find = |name: &str| find_value(&inputs, name);
        assert_eq!([find("a.b"), find("a_b"), find("c/d"), find("e_f")].map(Result::unwrap), [0, 1, 3, 4]);
        let error = find("c_d").unwrap_err();
        assert!(
            error.code() == StatusCode::InvalidArgument && error.to_string().contains("any of `c.d`, `c/d`"),
            "{error}"
        );
        for missing in ["g", "", "a-b", "e/f"] {
            let error = find(missing).unwrap_err();
            assert!(error.code() == StatusCode::NotFound && error.to_string().contains("`a.b`, `a_b`"), "{error}");
        }
        assert!(find_value(&[], "x").unwrap_err().to_string().ends_with("nothing is named `x`; there are no names"));
        let (long, start) = ("é".repeat(1000), "é".repeat(80));
        let error = find_value(&values(&[&long, "b"]), "x").unwrap_err().to_string();
        assert!(error.ends_with(&format!("nothing is named `x`; the names are `{start}...`, `b`")), "{error}");
        assert_eq!(identifiers(&inputs, "output"), ["output0", "a_b", "output2", "output3", "e_f"]);
        assert_eq!(identifiers(&values(&["0", "input0", "x.y"]), "input"), ["input0_", "input0", "x_y"]);
    }
}
