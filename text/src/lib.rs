//! What a language model needs beside its arithmetic: its tokenizer, its chat template, sampling and stop texts. The tokenizer and the template
//! are read from the metadata of a GGUF file, or from a folder in the layout of Hugging Face.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use incarnate_bytecode::Contents;
//! use incarnate_gguf::GgufFile;
//! use incarnate_text::{ChatTemplate, Message, Sampler, SamplerOptions, Tokenizer};
//!
//! # fn logits_after(_tokens: &[u32]) -> Vec<f32> { Vec::new() }
//! let file = GgufFile::read(Arc::new(Contents::from_vec(std::fs::read("model.gguf")?)))?;
//! let (tokenizer, template) = (Tokenizer::from_gguf(&file)?, ChatTemplate::from_gguf(&file)?);
//! let question = Message::new("user", tokenizer.escape_special("Why is the sky blue?"));
//! let mut tokens = tokenizer.encode(&template.render(&[question], true)?, true);
//! let mut sampler = Sampler::new(SamplerOptions::default());
//! let mut decoder = tokenizer.decoder();
//! loop {
//!     let token = sampler.sample(&mut logits_after(&tokens), &tokens);
//!     if tokenizer.end_tokens().contains(&token) {
//!         break;
//!     }
//!     print!("{}", decoder.push(token));
//!     tokens.push(token);
//! }
//! println!("{}", decoder.finish());
//! # Ok::<(), incarnate_bytecode::Error>(())
//! ```

mod constraint;
pub mod embedding;
mod folder;
pub mod generation;
mod metadata;
mod probabilities;
pub mod sampling;
pub mod stop;
pub mod template;
pub mod tokenizer;

pub use constraint::{Constraint, ConstraintCompiler};
pub use embedding::Embedding;
pub use generation::{Answer, Conversation, Finish, Generated, Generation, LanguageModel, Step};
pub use incarnate_gguf::Pooling;
pub use probabilities::{LogProbabilities, LogProbability};
pub use sampling::{Sampler, SamplerOptions};
pub use stop::StopTexts;
pub use template::{ChatTemplate, Message};
pub use tokenizer::{Decoder, Tokenizer};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;

/// Whether the standard library can start threads.
const HAS_THREADS: bool =
    cfg!(any(not(target_family = "wasm"), all(target_feature = "atomics", not(target_os = "unknown"))));

/// Returns a text of a file for a message: in one line that is not long.
fn shown(text: &str) -> String {
    /// In characters: enough for a name.
    const SHOWN: usize = 128;
    incarnate_bytecode::shown(text, SHOWN)
}
