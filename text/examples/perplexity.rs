//! Prints the perplexity of a text under a language model, as llama.cpp's `llama-perplexity` defines it: the text is cut into chunks of
//! 512 tokens, and the tokens of the second half of each chunk are scored by the tokens before them in the chunk.
//!
//! ```console
//! $ incarnate compile model.gguf -o model.vmfb
//! $ cargo run --release -p incarnate-text --example perplexity -- model.gguf model.vmfb text.txt
//! ```
//!
//! A number behind the text limits the chunks. The module is interpreted.

use std::path::Path;

use incarnate_gguf::{GgufFile, SCOPE};
use incarnate_runtime::parameters::FileAccess;
use incarnate_runtime::session::{Session, Tensor};
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_text::{LogProbabilities, Tokenizer};

/// Tokens of a chunk. Source: the default context of `llama-perplexity`.
const CHUNK: usize = 512;
/// Tokens of a chunk that are not scored.
const UNSCORED: usize = CHUNK / 2;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, module, text, limit) = match &arguments[..] {
        [model, module, text] => (model, module, text, usize::MAX),
        [model, module, text, limit] => {
            let limit = limit.parse().map_err(|_| Error::invalid_argument(format!("'{limit}' is no number of chunks")));
            (model, module, text, limit?)
        }
        _ => return Err(Error::invalid_argument("usage: perplexity MODEL.gguf MODULE.vmfb TEXT [CHUNKS]")),
    };
    let tokenizer = Tokenizer::from_gguf(&GgufFile::open(Path::new(model))?)?;
    let text = std::fs::read_to_string(text).context(|| text.clone())?;
    // `llama-perplexity` leaves out the last line end.
    let mut tokens = tokenizer.encode_first(text.strip_suffix('\n').unwrap_or(&text));
    let session = Session::builder()
        .device("local-task")
        .module_file(module)
        .parameter_file(SCOPE, model, FileAccess::Map)
        .build()?;
    let (mut sum, mut count) = (0.0, 0);
    for (number, chunk) in tokens.chunks_exact_mut(CHUNK).take(limit).enumerate() {
        // Every chunk is read as a text of its own, whose first token is not scored.
        if let (true, Some(begin), [first, ..]) = (tokenizer.add_bos(), tokenizer.begin(), &mut *chunk) {
            *first = begin;
        }
        sum += surprise(&session, chunk)?;
        count += CHUNK - UNSCORED - 1;
        eprintln!("[{}] {:.4}", number + 1, perplexity(sum, count));
    }
    match count {
        0 => Err(Error::invalid_argument(format!("{} tokens, of which a chunk has {CHUNK}", tokens.len()))),
        _ => {
            println!("{:.4}", perplexity(sum, count));
            Ok(())
        }
    }
}

/// Returns the sum of the negated logarithms of the probabilities of a chunk's scored tokens.
fn surprise(session: &Session, chunk: &[u32]) -> Result<f64> {
    let numbers = chunk.iter().map(|token| i32::try_from(*token)).collect::<std::result::Result<Vec<i32>, _>>();
    let numbers = numbers.map_err(|_| Error::out_of_range("a token exceeds 31 bits"))?;
    let (context, rest) = numbers.split_at(UNSCORED);
    let context = Tensor::new(session, &[context.len() as u64], context)?;
    let _: Tensor<f32> = session.function("prefill")?.call((&context, 0, 0))?;
    let decode = session.function("decode")?;
    let mut sum = 0.0;
    for ((position, token), next) in (UNSCORED..).zip(rest).zip(&chunk[UNSCORED + 1..]) {
        let position = i32::try_from(position).map_err(|_| Error::out_of_range("a position exceeds 31 bits"))?;
        let logits: Tensor<f32> = decode.call((*token, position, 0))?;
        sum -= f64::from(LogProbabilities::of(&logits.to_vec()?, *next, 0).drawn.value);
    }
    Ok(sum)
}

fn perplexity(sum: f64, count: usize) -> f64 {
    (sum / count as f64).exp()
}
