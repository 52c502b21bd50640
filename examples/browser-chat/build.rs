//! Translates the model to Rust: the GGUF file that `INCARNATE_CHAT_MODEL` names, or the model of the tests, which is compiled already.

use std::path::PathBuf;

/// The positions of a conversation: their keys and values are in the memory of the page.
const CONTEXT: u64 = 2048;
const TEST_MODEL: &str = "../../tests/models/language_model/vmvx.vmfb";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=INCARNATE_CHAT_MODEL");
    let model = std::env::var_os("INCARNATE_CHAT_MODEL").map_or_else(|| PathBuf::from(TEST_MODEL), PathBuf::from);
    incarnate_translator::Config::new().module_name("translated").conversations(CONTEXT, 1).compile(model)?;
    Ok(())
}
