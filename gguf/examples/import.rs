//! Prints a language model as MLIR: `cargo run -p incarnate-gguf --example import -- MODEL.gguf`.

use std::sync::Arc;

use incarnate_bytecode::{Contents, Result};
use incarnate_gguf::{GgufFile, Options, import};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let file = GgufFile::read(Arc::new(Contents::read(path.as_ref())?))?;
    println!("{}", import(&file, &Options::default())?.mlir);
    Ok(())
}
