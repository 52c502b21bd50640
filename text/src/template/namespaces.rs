//! Values in namespaces, the only ones that a template can change. A namespace that contains itself, or lists within lists without end, would
//! overflow the stack where they are printed, compared or dropped. So each assignment stores a copy that is nested in few levels.

use std::collections::BTreeMap;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// The name of the filter that copies values.
pub(super) const FILTER: &str = "detached";
/// Most levels of lists and maps in a namespace.
const MAXIMUM_NESTING: usize = 16;

/// Returns a copy of a value, in lists and maps that contain nothing else.
pub(super) fn detached(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    copy(state, value, MAXIMUM_NESTING)
}

fn copy(state: &State<'_, '_>, value: &Value, levels: usize) -> Result<Value, Error> {
    let kind = value.kind();
    if !matches!(kind, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        return Ok(value.clone());
    }
    let Some(levels) = levels.checked_sub(1) else {
        let message = format!("the value of a namespace has more than {MAXIMUM_NESTING} levels");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    };
    let item = |item: Value| {
        state.consume_fuel(1)?;
        match kind {
            ValueKind::Map => Ok((item.clone(), copy(state, &value.get_item(&item)?, levels)?)),
            _ => Ok((Value::UNDEFINED, copy(state, &item, levels)?)),
        }
    };
    let items = value.try_iter()?.map(item);
    match kind {
        ValueKind::Map => items.collect::<Result<BTreeMap<_, _>, Error>>().map(Value::from),
        _ => items.map(|item| item.map(|(_, item)| item)).collect::<Result<Vec<Value>, Error>>().map(Value::from),
    }
}

/// Returns a template whose assignments `{% set a.b = value %}` apply the filter to the value.
pub(super) fn guarded(source: &str) -> String {
    let mut template = String::new();
    let mut rest = source;
    while let Some((before, tag)) = next_tag(rest) {
        template.push_str(before);
        let end = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map(|end| end + 2),
            Some(b'{') => end_of_code(tag, b"}}"),
            _ => end_of_code(tag, b"%}"),
        };
        let (tag, behind) = tag.split_at(end.unwrap_or(tag.len()));
        match assigned(tag) {
            Some((value, end)) => {
                let part = |range| tag.get(range).unwrap_or_default();
                template.extend([part(0..value), "(", part(value..end), ")|", FILTER, part(end..tag.len())]);
            }
            None => template.push_str(tag),
        }
        let raw = if code_of(tag) == Some("raw") { end_of_raw(behind) } else { 0 };
        let (raw, behind) = behind.split_at(raw);
        template.push_str(raw);
        rest = behind;
    }
    template + rest
}

/// Splits a text at the first tag, whatever its kind.
fn next_tag(text: &str) -> Option<(&str, &str)> {
    let at = text.as_bytes().windows(2).position(|pair| matches!(pair, b"{{" | b"{%" | b"{#"))?;
    text.split_at_checked(at)
}

/// Returns the bytes before the tag `{% endraw %}`.
fn end_of_raw(text: &str) -> usize {
    let mut ends = text.match_indices("{%").filter(|(at, _)| {
        let tag = text.get(*at..).unwrap_or_default();
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        code_of(tag.get(..end).unwrap_or_default()) == Some("endraw")
    });
    ends.next().map_or(text.len(), |(at, _)| at)
}

/// Returns the text of a block's tag between its delimiters.
fn code_of(tag: &str) -> Option<&str> {
    let code = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let code = code.strip_prefix(['-', '+']).unwrap_or(code);
    Some(code.strip_suffix(['-', '+']).unwrap_or(code).trim())
}

/// Returns the bytes of a tag outside of strings, with their positions and the number of open brackets before each.
fn code(tag: &str) -> impl Iterator<Item = (usize, u8, usize)> {
    let mut quote = None;
    let mut is_escaped = false;
    let mut depth = 0usize;
    tag.bytes().enumerate().skip(2).filter_map(move |(at, byte)| {
        if let Some(delimiter) = quote {
            if !is_escaped && byte == delimiter {
                quote = None;
            }
            is_escaped = !is_escaped && byte == b'\\';
            return None;
        }
        let before = depth;
        match byte {
            b'\'' | b'"' => quote = Some(byte),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some((at, byte, before))
    })
}

/// Returns the length of a tag.
fn end_of_code(text: &str, marker: &[u8; 2]) -> Option<usize> {
    let is_end = |at: usize, depth: usize| depth == 0 && text.as_bytes().get(at..at + 2) == Some(marker);
    code(text).find(|(at, _, depth)| is_end(*at, *depth)).map(|(at, ..)| at + 2)
}

/// Returns the range of the value, if a tag assigns one to a namespace.
fn assigned(tag: &str) -> Option<(usize, usize)> {
    let assignment = code_of(tag)?.strip_prefix("set")?;
    let (equals, ..) = code(tag).find(|(_, byte, _)| *byte == b'=')?;
    let target = tag.get(..equals)?;
    if !assignment.starts_with(char::is_whitespace) || !target.contains('.') {
        return None;
    }
    let end = tag.strip_suffix("%}")?;
    Some((equals + 1, end.strip_suffix(['-', '+']).unwrap_or(end).len()))
}
