//! Prints a language model as MLIR: `cargo run -p incarnate-gguf --example import -- MODEL.gguf [SLOTS [ACTIVATIONS]]`.

use incarnate_bytecode::Result;
use incarnate_gguf::{Checkpoint, Options, import};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let slots = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(1);
    let activations = arguments.next().and_then(|name| name.parse().ok()).unwrap_or_default();
    let checkpoint = Checkpoint::open(path.as_ref())?;
    println!("{}", import(&checkpoint, &Options { is_portable: true, slots, activations, ..Options::default() })?);
    Ok(())
}
