//! Limits of schemas and grammars, which keep the work of compiling them small.
//!
//! llguidance limits the sizes of what it builds. Some of its steps take time that grows faster than these sizes: those are limited here by numbers
//! that can be read in the source.

use incarnate_bytecode::{Error, Result};
use llguidance::api::ParserLimits;
use serde_json::{Map, Value};

/// The most bytes of a schema or a grammar.
const MOST_BYTES: usize = 256 << 10;
/// The most properties of a schema: optional properties of an object take time that grows with the square of their number.
const MOST_PROPERTIES: usize = 2000;
/// The most regular expressions that a schema may intersect, or that the names of properties may match: the time grows exponentially with those of
/// a text, and with the square of those of names.
const MOST_PATTERNS: usize = 12;
/// The least common multiple of all `multipleOf` of a schema, without decimal points: the states of numbers grow with it.
const MOST_MULTIPLE: u64 = 100_000;
/// Decimal places of `multipleOf`: with more of them, sums of 32 bits would overflow.
const MOST_DECIMALS: usize = 4;
/// The most lines, brackets and calls of a grammar: the compiler recurs into them.
const MOST_LEVELS: usize = 2000;
/// The most regular expressions that a grammar may intersect.
const MOST_INTERSECTIONS: usize = 8;

/// Returns the limits of llguidance's.
pub(super) fn of_parser() -> ParserLimits {
    ParserLimits {
        initial_lexer_fuel: 200_000,
        max_grammar_size: 100_000,
        // 1 to 2 KiB of memory each.
        max_lexer_states: 50_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Checks the length of the text of a schema or a grammar.
///
/// # Errors
/// RESOURCE_EXHAUSTED for more than 256 KiB.
pub(super) fn check_length(what: &str, source: &str) -> Result<()> {
    check(what, "bytes", source.len() as u64, MOST_BYTES as u64)
}

fn check(what: &str, of: &str, number: u64, most: u64) -> Result<()> {
    match number > most {
        true => {
            Err(Error::resource_exhausted(format!("the {what} has {number} {of}, which exceed the limit of {most}")))
        }
        false => Ok(()),
    }
}

/// Checks a grammar.
///
/// # Errors
/// RESOURCE_EXHAUSTED for one that exceeds a limit; UNIMPLEMENTED for one that contains a JSON schema.
pub(super) fn check_grammar(grammar: &str) -> Result<()> {
    let what = "grammar";
    check_length(what, grammar)?;
    if grammar.contains("%json") {
        return Err(Error::unimplemented("the grammar contains a JSON schema (%json)"));
    }
    let count = |of: &[char]| grammar.matches(of).count() as u64;
    check(what, "lines and brackets", count(&['\n', '(', '[', '{']), MOST_LEVELS as u64)?;
    check(what, "intersections (&, ~)", count(&['&', '~']), MOST_INTERSECTIONS as u64)
}

/// Numbers of a schema.
struct Numbers {
    properties: usize,
    patterns: usize,
    name_patterns: usize,
    /// The least common multiple of all `multipleOf`, without decimal points.
    multiple: u64,
    /// Whether a value must fit several parts of the schema.
    intersects: bool,
}

/// Checks a schema.
///
/// # Errors
/// RESOURCE_EXHAUSTED for one that exceeds a limit; INVALID_ARGUMENT for a `multipleOf` that is no positive number.
pub(super) fn check_schema(schema: &Value) -> Result<()> {
    let mut numbers = Numbers { properties: 0, patterns: 0, name_patterns: 0, multiple: 1, intersects: false };
    // What is read as a schema and is none, such as the values of `enum`, counts, too.
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(values) => rest.extend(values),
            Value::Object(fields) => {
                numbers.add(fields)?;
                rest.extend(fields.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let what = "JSON schema";
    let patterns = numbers.patterns + numbers.name_patterns;
    check(what, "properties", numbers.properties as u64, MOST_PROPERTIES as u64)?;
    check(what, "patternProperties", numbers.name_patterns as u64, MOST_PATTERNS as u64)?;
    if numbers.intersects {
        check(what, "patterns and formats beside allOf, anyOf, oneOf or $ref", patterns as u64, MOST_PATTERNS as u64)?;
    }
    Ok(())
}

impl Numbers {
    fn add(&mut self, fields: &Map<String, Value>) -> Result<()> {
        let count = |name| fields.get(name).and_then(Value::as_object).map_or(0, Map::len);
        self.properties += count("properties");
        self.name_patterns += count("patternProperties");
        self.patterns += ["pattern", "format"].iter().filter(|name| fields.contains_key(**name)).count();
        let combines = |name: &&str| matches!(*name, "allOf" | "anyOf" | "oneOf" | "$ref");
        let asserts = |name: &&str| {
            !matches!(
                *name,
                "title"
                    | "description"
                    | "default"
                    | "examples"
                    | "$comment"
                    | "$id"
                    | "$schema"
                    | "$defs"
                    | "definitions"
            )
        };
        let names = || fields.keys().map(String::as_str);
        let all = fields.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        self.intersects |= all > 1 || (names().any(|name| combines(&name)) && names().filter(asserts).count() > 1);
        match fields.get("multipleOf") {
            None | Some(Value::Object(_)) => Ok(()),
            Some(number) => self.add_multiple(number),
        }
    }

    fn add_multiple(&mut self, number: &Value) -> Result<()> {
        let wrong = || {
            Error::invalid_argument(format!(
                "a 'multipleOf' is not a positive number with at most {MOST_DECIMALS} decimal places"
            ))
        };
        let text = number.to_string();
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        let decimals = decimals.trim_end_matches('0');
        let digits = [whole, decimals].concat().parse::<u64>().ok();
        let digits = digits.filter(|digits| *digits > 0 && decimals.len() <= MOST_DECIMALS).ok_or_else(wrong)?;
        let (mut divisor, mut rest) = (self.multiple, digits);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        self.multiple = (self.multiple / divisor).saturating_mul(digits);
        check("JSON schema", "as the least common multiple of 'multipleOf'", self.multiple, MOST_MULTIPLE)
    }
}
