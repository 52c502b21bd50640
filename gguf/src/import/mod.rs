//! Language models as MLIR of core dialects.
//!
//! A module has these functions; `C` is the number of positions that a conversation may have, `V` that of the tokens.
//!
//! | function | arguments | result |
//! |---|---|---|
//! | `prefill` | tokens `[?] i32`, the position of the first one `i32`, the slot `i32` | logits of the token behind the last one `[V] f32` |
//! | `decode` | a token `i32`, its position `i32`, the slot `i32` | logits of the token behind it `[V] f32` |
//! | `decode_batch` | tokens `[B] i32`, `B` positions `i32`, `B` slots `i32` | logits of the tokens behind them `[B, V] f32` |
//! | `embed` | those of `prefill` | the vector of the tokens behind the last norm `[W] f32` |
//!
//! `W` is the length of the vectors of tokens. `embed` adds those of all tokens, or returns the last one: the attribute `incarnate.pooling` is
//! `mean` or `last`. Modules have this function with [`Options::embeddings`], unless the file has another pooling.
//!
//! The attributes `incarnate.context` and `incarnate.slots` of the functions state the numbers of positions and of slots; `incarnate.batch` of
//! `decode_batch`, which modules for VMVX with several slots have, states `B`. Two steps of a batch that are the same count once.
//!
//! With [`Options::activations`], products of one vector, those of `decode`, multiply integers.
//!
//! A slot holds the keys and values of a conversation, which are state of the module. Memory of a slot is used as far as positions are:
//! nothing is written behind them.

mod activation;
mod activations;
mod architecture;
mod attention;
mod batch;
mod blocks;
mod checkpoint;
mod config;
mod dispatch;
mod experts;
mod feed_forward;
mod frequencies;
mod functions;
mod half;
mod hugging_face;
mod layer;
mod metadata;
mod names;
mod norm;
mod open;
mod product;
mod projection;
mod rotary;
mod rounding;
mod weight;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use incarnate_bytecode::{Error, Result, ResultExt as _};

use config::Config;

pub use activations::Activations;
pub use checkpoint::Checkpoint;

/// Options of the import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Positions of a conversation; the model's own number, or less, where it is `None`.
    pub context: Option<u64>,
    /// Conversations that a module holds at a time.
    pub slots: u64,
    /// Whether the module has the function `embed`. Its code is as large as that of `prefill`.
    pub embeddings: bool,
    /// Whether the module is compiled for VMVX alone. Other targets take subnormal numbers as 0, so that scales are computed in another way.
    pub is_portable: bool,
    /// How vectors are rounded before they are multiplied with weights that are stored as blocks of quanta.
    pub activations: Activations,
}

impl Options {
    /// The most positions of a conversation where [`Options::context`] is `None`.
    pub const DEFAULT_CONTEXT: u64 = 4096;
}

impl Default for Options {
    fn default() -> Options {
        Options { context: None, slots: 1, embeddings: false, is_portable: false, activations: Activations::F32 }
    }
}

/// Imports a language model as the text of a module.
///
/// # Errors
/// UNIMPLEMENTED for architectures and element types that are not supported; INVALID_ARGUMENT and NOT_FOUND for metadata and
/// tensors that are not those of the architecture.
pub fn import(checkpoint: &Checkpoint, options: &Options) -> Result<String> {
    let config = Config::of(checkpoint, options).context(|| "metadata")?;
    functions::import(checkpoint, &config).and_then(|b| b.finish().map_err(|error| Error::internal(error.to_string())))
}
