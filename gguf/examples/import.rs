//! Prints a language model as MLIR: `cargo run -p incarnate-gguf --example import -- MODEL.gguf`.

use incarnate_bytecode::Result;
use incarnate_gguf::{GgufFile, Options, import};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let file = GgufFile::open(path.as_ref())?;
    println!("{}", import(&file, &Options { is_portable: true, ..Options::default() })?);
    Ok(())
}
