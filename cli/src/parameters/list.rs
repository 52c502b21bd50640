//! The text of archives' contents.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::parameters::{ParameterEntry, ParameterIndex, ParameterStorage};
use incarnate_runtime::{Error, Result, ResultExt};

use crate::console::Console;
use crate::tooling::atomic_file::AtomicFile;

/// Characters of a rule without the slashes at its ends.
const RULE: usize = 118;

/// Prints the parameters of scopes as IREE does, with the types in the archives, and writes the extracted ones to
/// files.
pub(super) fn list(scopes: &[(String, ParameterIndex)], extracted: &[String], out: &mut Console) -> Result<()> {
    for (scope, index) in scopes {
        out.write_all(table(scope, index).as_bytes()).context(|| "writing to standard output")?;
    }
    extracted.iter().try_for_each(|text| extract(scopes, text).context(|| format!("--extract={text}")))
}

fn table(scope: &str, index: &ParameterIndex) -> String {
    let scope = if scope.is_empty() { "<global>".to_owned() } else { format!("`{}`", Escaped(scope)) };
    let total: u128 = index.entries().iter().map(|entry| u128::from(entry.length())).sum();
    let bar = |before: &str| format!("{before}{}", "-".repeat(RULE - before.len()));
    let mut text = format!("//==={}===//\n", "-".repeat(RULE - 8));
    // Writing to a string does not fail.
    let _ = writeln!(text, "// Parameter scope {scope} ({} entries, {total} total bytes)", index.entries().len());
    let columns = bar("//===------------+------------------+------------------+");
    let _ = writeln!(text, "{}===//", columns.get(..RULE - 3).unwrap_or(&columns));
    text.push_str("//         Start |              End |           Length | Key\n");
    let _ = writeln!(text, "{}//", bar("//---------------+------------------+------------------+"));
    for entry in index.entries() {
        let (start, end) = match entry.storage() {
            ParameterStorage::Splat(_) | ParameterStorage::Joined(_) | ParameterStorage::Unreadable(_) => {
                ("-".to_owned(), "-".to_owned())
            }
            ParameterStorage::File { offset, .. } => {
                (offset.to_string(), offset.saturating_add(entry.length()).to_string())
            }
        };
        let key = Escaped(entry.key());
        let _ = writeln!(text, "{start:>16} | {end:>16} | {:>16} | `{key}`{}", entry.length(), facts(entry));
    }
    text.push('\n');
    text
}

/// Formats type and shape, or the splat, after the key.
fn facts(entry: &ParameterEntry) -> String {
    if let ParameterStorage::Splat(splat) = entry.storage() {
        let digits: String = splat.pattern().iter().rev().map(|byte| format!("{byte:02X}")).collect();
        return format!(", {digits}h everywhere");
    }
    let unreadable = if matches!(entry.storage(), ParameterStorage::Unreadable(_)) { ", cannot be read" } else { "" };
    let Some(tensor) = entry.tensor() else { return unreadable.to_owned() };
    let dims: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    format!(", {} [{}]{unreadable}", Escaped(&tensor.element_type), dims.join("x"))
}

/// Writes the bytes of `[SCOPE::]KEY=FILE`.
fn extract(scopes: &[(String, ParameterIndex)], text: &str) -> Result<()> {
    let (name, path) =
        text.rsplit_once('=').ok_or_else(|| Error::invalid_argument("expected SCOPE::KEY=FILE or KEY=FILE"))?;
    let in_scope =
        |scope: &str, key: &str| scopes.iter().find(|(other, _)| other == scope).and_then(|(_, index)| index.get(key));
    let scoped = name.split_once("::").and_then(|(scope, key)| in_scope(scope, key));
    // A key may contain colons; without a scope it is looked up in all scopes.
    let entry = scoped.or_else(|| scopes.iter().find_map(|(_, index)| index.get(name)));
    let entry = entry.ok_or_else(|| Error::not_found("no such parameter"))?;
    let mut file = AtomicFile::create(Path::new(path), false)?;
    file.write_all(&entry.read()?).context(|| format!("writing '{path}'"))?;
    file.commit()
}
