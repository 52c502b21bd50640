//! Translates the model to Rust: the GGUF file that `INCARNATE_CHAT_MODEL` names, or the model of the tests, which is compiled already.

use std::path::PathBuf;

/// The positions of a conversation: their keys and values are in the memory of the page.
const CONTEXT: u64 = 2048;
const TEST_MODEL: &str = "../../tests/models/language_model/vmvx.vmfb";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=INCARNATE_CHAT_MODEL");
    let model = std::env::var_os("INCARNATE_CHAT_MODEL").map_or_else(|| PathBuf::from(TEST_MODEL), PathBuf::from);
    let config = incarnate_translator::Config::new().module_name("language_model").conversations(CONTEXT, 1);
    // WebAssembly has no instruction that rounds a product and a sum once. The native program of the test rounds twice, too, for the same bits.
    config.unfuse(true).compile(model)?;
    Ok(())
}
