//! The signatures of exported functions, for people and for tools.

use std::collections::BTreeMap;
use std::fmt::Write;

use incarnate_runtime::bytecode::{Escaped, Signature, ValueInfo, ValueType, VerifiedModule, recovered_declarations};
use incarnate_runtime::{Error, Result};
use serde_json::{Value, json};

use super::SignatureFormat;

/// Most bytes of the text: any number of exports may share a function with many inputs.
const TEXT_LIMIT: usize = 64 << 20;

/// Returns the signatures of the functions that a module exports for callers: of all but those whose names begin with `__`
/// or contain `$`.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the text is too long.
pub(super) fn text(module: &VerifiedModule, format: SignatureFormat) -> Result<String> {
    let recovered = recovered_declarations(module);
    let exports = module.exports().filter(|row| !row.local_name.starts_with("__") && !row.local_name.contains('$'));
    let mut texts = Vec::new();
    let mut length = 0usize;
    for export in exports {
        let Some(signature) = Signature::of(module, &recovered, export.function) else { continue };
        let text = match format {
            SignatureFormat::Text => format!("{}{}\n", Escaped(export.local_name), Escaped(&signature.to_string())),
            SignatureFormat::Json => {
                let is_declared = Signature::declared(module, export.function).is_some();
                ascii(&row(export.local_name, &signature, is_declared))
            }
        };
        length = length.saturating_add(text.len());
        if length > TEXT_LIMIT {
            let why = format!("the signatures pass the limit of {TEXT_LIMIT} bytes of text");
            return Err(Error::resource_exhausted(why));
        }
        texts.push(text);
    }
    Ok(match format {
        SignatureFormat::Text => texts.concat(),
        SignatureFormat::Json => {
            let name = ascii(&json!(module.name()));
            format!("{{\"module\":{name},\"functions\":[\n{}\n]}}\n", texts.join(",\n"))
        }
    })
}

fn row(name: &str, signature: &Signature, is_declared: bool) -> Value {
    let values = |values: &[ValueInfo]| values.iter().map(value).collect::<Vec<_>>();
    json!({
        "name": name,
        "declared": is_declared,
        "inputs": values(&signature.inputs),
        "outputs": values(&signature.outputs),
    })
}

fn value(value: &ValueInfo) -> Value {
    let mut row = BTreeMap::from([("name", json!(value.name())), ("type", json!(value.value_type().to_string()))]);
    if let ValueType::Tensor { element, shape } = value.value_type() {
        row.extend([("element_type", json!(element.to_string())), ("shape", json!(shape))]);
    }
    json!(row)
}

/// Formats JSON in ASCII: other characters could act on a terminal.
fn ascii(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        if c.is_ascii() && c != '\x7F' {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}
