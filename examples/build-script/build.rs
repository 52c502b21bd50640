//! Translates the model to Rust.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    incarnate_translator::Config::new().module_name("digits").compile("../../tests/models/digits/vmvx.vmfb")?;
    Ok(())
}
