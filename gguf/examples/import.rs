//! Prints a language model as MLIR: `cargo run -p incarnate-gguf --example import -- MODEL.gguf`.

use incarnate_bytecode::Result;
use incarnate_gguf::{Checkpoint, Options, import};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let checkpoint = Checkpoint::open(path.as_ref())?;
    println!("{}", import(&checkpoint, &Options { is_portable: true, ..Options::default() })?);
    Ok(())
}
