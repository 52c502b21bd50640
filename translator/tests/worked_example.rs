//! The example of `docs/translation.md` is what the translator emits.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_bytecode::{Contents, VerifiedModule};
use incarnate_translator::{Options, generate};

/// The heading that the example stands under, and the fences around it.
const HEADING: &str = "## What is emitted\n";
const FENCES: (&str, &str) = ("```rust,ignore\n", "```\n");
/// The first and the last line of the function in the emitted source.
const FUNCTION: (&str, &str) = ("    /// `@recurse`\n    #[allow(clippy::only_used_in_recursion", "\n    }\n");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The emitted function of `tests/models/recursion`, without the indentation of its module.
fn example() -> String {
    let bytes = std::fs::read(root().join("tests/models/recursion/vm.vmfb")).expect("the model");
    let module = VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).expect("a valid module");
    let files = generate(&module, &Options::default()).and_then(|output| output.files("recursion")).expect("source");
    assert_eq!(files.len(), 1, "no constants, and no parts");
    let source = str::from_utf8(&files[0].contents).expect("text");
    let begin = source.find(FUNCTION.0).expect("the function");
    let end = begin + source[begin..].find(FUNCTION.1).expect("its end") + FUNCTION.1.len();
    source[begin..end].lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect()
}

/// `BLESS=1 cargo test -p incarnate-translator --test worked_example` writes it again.
#[test]
fn the_example_is_what_is_emitted() {
    let path = root().join("docs/translation.md");
    let text = std::fs::read_to_string(&path).expect("docs/translation.md");
    let section = text.find(HEADING).expect("the section");
    let begin = section + text[section..].find(FENCES.0).expect("the example") + FENCES.0.len();
    let end = begin + text[begin..].find(FENCES.1).expect("its end");
    let example = example();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{}{example}{}", &text[..begin], &text[end..])).expect("docs/translation.md");
        return;
    }
    assert_eq!(&text[begin..end], example, "set BLESS=1 to write the example again");
}
