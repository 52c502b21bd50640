//! The page of supported operators in the guide is that of the table; `BLESS=1` writes it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use incarnate_onnx::supported_operators;

/// Returns the page: a table for each domain, a row for each operator.
fn page() -> String {
    let mut domains: BTreeMap<&str, BTreeMap<&str, Vec<i64>>> = BTreeMap::new();
    for (domain, name, since) in supported_operators() {
        domains.entry(domain).or_default().entry(name).or_default().push(since);
    }
    let count: usize = domains.values().map(BTreeMap::len).sum();
    let mut text = format!(
        "# ONNX operators\n\nThe {count} operators that `incarnate compile net.onnx` [imports](getting-a-model.md#onnx), with the first versions of the \
         forms that differ. A version\nof an operator set takes the newest form that is not newer. `incarnate dump net.onnx` marks what a model has \
         beyond them.\n"
    );
    for (domain, operators) in domains {
        let domain = if domain.is_empty() { "ai.onnx" } else { domain };
        let _ = write!(text, "\n## {domain}\n\n| operator | forms since |\n|---|---|\n");
        for (name, mut versions) in operators {
            versions.sort_unstable();
            let versions: Vec<String> = versions.iter().map(i64::to_string).collect();
            let _ = writeln!(text, "| {name} | {} |", versions.join(", "));
        }
    }
    text
}

#[test]
fn the_page_of_operators_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/onnx-operators.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page(), "docs/onnx-operators.md is not that of the table: BLESS=1 writes it");
}
