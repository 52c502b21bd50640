//! Prints the rates of a Llama model of a GGUF file in candle, in tokens a second: the greatest of three.
//!
//! ```console
//! $ RUSTFLAGS="-C target-cpu=native" cargo build --release
//! $ RAYON_NUM_THREADS=1 target/release/candle-rates model.gguf 64
//! ```
//!
//! The numbers are the tokens of prompts that are read; 64 tokens are written, one after the other.

use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Error, Result, Tensor, bail};
use candle_transformers::models::quantized_llama::ModelWeights;

const ROUNDS: usize = 3;
const WRITTEN: usize = 64;
/// The tokens before those that are written.
const BEFORE: usize = 8;
const TOKEN: u32 = 5;

/// Reads tokens at a position, and waits for the logits behind them.
fn read(model: &mut ModelWeights, count: usize, position: usize) -> Result<()> {
    let tokens = Tensor::new(&[TOKEN].repeat(count)[..], &Device::Cpu)?.unsqueeze(0)?;
    let logits = model.forward(&tokens, position)?.flatten_all()?.to_vec1::<f32>()?;
    match logits.iter().all(|logit| logit.is_finite()) {
        true => Ok(()),
        false => bail!("logits behind {count} tokens at position {position} are not finite"),
    }
}

/// Returns the greatest rate of `step`, which computes `count` tokens behind `before` tokens of a new conversation.
fn rate(
    model: &mut ModelWeights,
    count: usize,
    before: usize,
    step: impl Fn(&mut ModelWeights) -> Result<()>,
) -> Result<f64> {
    let mut greatest = 0f64;
    for _ in 0..ROUNDS {
        model.clear_kv_cache();
        if before > 0 {
            read(model, before, 0)?;
        }
        let start = Instant::now();
        step(model)?;
        greatest = greatest.max(count as f64 / start.elapsed().as_secs_f64());
    }
    Ok(greatest)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else { bail!("usage: candle-rates MODEL.gguf TOKENS...") };
    let mut reader = BufReader::new(File::open(path)?);
    let content = Content::read(&mut reader)?;
    let mut model = ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)?;
    for count in arguments {
        let count = count.parse().map_err(Error::wrap)?;
        println!("reading {count} tokens: {:.2}", rate(&mut model, count, 0, |model| read(model, count, 0))?);
    }
    let write = |model: &mut ModelWeights| (0..WRITTEN).try_for_each(|number| read(model, 1, BEFORE + number));
    println!("writing: {:.2}", rate(&mut model, WRITTEN, BEFORE, write)?);
    Ok(())
}
