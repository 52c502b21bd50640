//! Sizes and constants of a model, of its metadata.

use incarnate_bytecode::{Error, Result};

use super::Options;
use super::activations::Activations;
use super::architecture::{Architecture, Pairs};
use super::checkpoint::Checkpoint;
use super::frequencies::Frequencies;
use super::metadata::{LARGEST, Metadata};
use crate::attributes::Pooling;
use crate::file::ARCHITECTURE_KEY;
use crate::shown;

/// The most conversations that write a token at a time: so many vectors of sums fit into the registers of a processor.
const MOST_OF_BATCH: i64 = 8;

/// Sizes and constants of a model.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) architecture: Architecture,
    pub(super) layers: i64,
    /// The length of the vector of a token.
    pub(super) width: i64,
    /// Heads of queries.
    pub(super) heads: i64,
    /// Heads of keys and values, which groups of heads of queries share.
    pub(super) key_heads: i64,
    /// Elements of a head.
    pub(super) head_size: i64,
    /// Elements of the hidden vector of the feed-forward network.
    pub(super) hidden: i64,
    /// The experts of the feed-forward network, if it is a mixture of such.
    pub(super) mixture: Option<Mixture>,
    /// The number of tokens.
    pub(super) vocabulary: i64,
    /// Positions of a conversation.
    pub(super) context: i64,
    /// Positions that a model was trained with before its rotary embeddings were scaled.
    pub(super) original_context: i64,
    /// Conversations.
    pub(super) slots: i64,
    /// Whether the module is for VMVX alone.
    pub(super) is_portable: bool,
    pub(super) activations: Activations,
    /// How the function `embed` pools; `None` for a module without it.
    pub(super) pooling: Option<Pooling>,
    pub(super) norm_epsilon: f64,
    /// What embeddings are multiplied by.
    pub(super) embedding_scale: f64,
    /// What products of queries and keys are multiplied by.
    pub(super) attention_scale: f64,
    /// What the results of attention and of the feed-forward network are multiplied by, before they are added to the vectors of tokens.
    pub(super) residual_scale: f64,
    /// What logits are divided by.
    pub(super) logit_divisor: f64,
    /// The bound of scores, which a hyperbolic tangent keeps; 0 where there is none.
    pub(super) score_cap: f64,
    /// The bound of logits; 0 where there is none.
    pub(super) logit_cap: f64,
    /// The layers that attend to the last positions alone.
    pub(super) window: Option<Window>,
    /// See [`Architecture::unrotated_period`].
    unrotated_period: i64,
    /// The frequencies of layers without a sliding window.
    pub(super) frequencies: Frequencies,
    /// The frequencies of layers with a sliding window.
    pub(super) local_frequencies: Frequencies,
}

/// Reads the pooling of a file, if the module needs it; `None` for one that is not supported. Source of the numbers: `llama_pooling_type` of
/// llama.cpp's `llama.h`.
///
/// Without metadata, or where it says that there is none, vectors are averaged: llama.cpp leaves them apart then, and a text has one each.
fn pooling(metadata: &Metadata<'_>, is_needed: bool) -> Result<Option<Pooling>> {
    match metadata.optional_count("pooling_type")? {
        _ if !is_needed => Ok(None),
        None | Some(0 | 1) => Ok(Some(Pooling::Mean)),
        Some(3) => Ok(Some(Pooling::Last)),
        // That of the first token, and the scores of rankers.
        Some(_) => Ok(None),
    }
}

/// Networks of which each token takes some.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixture {
    pub(super) count: i64,
    /// How many each token takes.
    pub(super) used: i64,
    /// Elements of the hidden vector of an expert.
    pub(super) hidden: i64,
    /// Elements of the hidden vector of the network that all tokens take, if there is one.
    pub(super) shared_hidden: i64,
    /// Whether the shares of a token's experts are divided by their sum.
    pub(super) is_normalised: bool,
    /// What the shares are multiplied by.
    pub(super) scale: f64,
}

/// A sliding window: a position attends to itself and to those before it, `size` in all.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) size: i64,
    layers: LocalLayers,
}

/// The layers that have a sliding window.
#[derive(Clone, Debug)]
enum LocalLayers {
    /// All but the last one of each period; all where the period is 0.
    Period(i64),
    /// Those that are true.
    Each(Vec<bool>),
}

impl Config {
    /// Reads the metadata of a model.
    pub(super) fn of(checkpoint: &Checkpoint, options: &Options) -> Result<Config> {
        let name = checkpoint.text(ARCHITECTURE_KEY).ok_or_else(|| {
            Error::not_found("there is no 'general.architecture': this is no model but an archive of parameters (GGUF), which --parameters= passes")
        })?;
        let mut architecture = Architecture::named(name).ok_or_else(|| {
            let known = Architecture::names();
            Error::unimplemented(format!("the architecture '{}' is not supported; these are: {known}", shown(name)))
        })?;
        if checkpoint.conventions.has_halves {
            architecture.pairs = Pairs::Halves;
        }
        let metadata = Metadata::new(checkpoint, name);
        let config = Config::read(&metadata, architecture, options)?;
        metadata.check()?;
        Ok(config)
    }

    fn read(metadata: &Metadata<'_>, architecture: Architecture, options: &Options) -> Result<Config> {
        let (width, heads) = (metadata.size("embedding_length")?, metadata.size("attention.head_count")?);
        let key_heads = metadata.optional_size("attention.head_count_kv")?.unwrap_or(heads);
        if heads % key_heads != 0 {
            return Err(Error::invalid_argument(format!("{heads} heads do not share {key_heads} heads of keys")));
        }
        let size = width / heads;
        let head_size = metadata.optional_size("attention.key_length")?.unwrap_or(size);
        let value_size = metadata.optional_size("attention.value_length")?.unwrap_or(head_size);
        let rotated = metadata.optional_size("rope.dimension_count")?.unwrap_or(head_size);
        if value_size != head_size || rotated > head_size || head_size % 2 != 0 || rotated % 2 != 0 {
            return Err(Error::unimplemented(format!(
                "heads of {head_size} elements of keys, {value_size} of values and {rotated} that are rotary embeddings"
            )));
        }
        let trained = metadata.size("context_length")?;
        let context = match options.context {
            None => trained.min(Options::DEFAULT_CONTEXT.cast_signed()),
            Some(context) => {
                i64::try_from(context).ok().filter(|context| (1..=trained).contains(context)).ok_or_else(|| {
                    Error::invalid_argument(format!("a context of {context}: the model has 1 to {trained} positions"))
                })?
            }
        };
        let slots = i64::try_from(options.slots).ok().filter(|slots| (1..=1024).contains(slots));
        let slots =
            slots.ok_or_else(|| Error::invalid_argument(format!("{} slots are not 1 to 1024", options.slots)))?;
        let layers = metadata.size("block_count")?;
        check_temperature(metadata, context, trained)?;
        let [frequencies, local_frequencies] = Frequencies::of(metadata, &architecture, rotated)?;
        let original = metadata.optional_size("rope.scaling.original_context_length")?;
        let is_rotated = !architecture.states_rotation || metadata.flag_or("rope.scaling.finetuned", true)?;
        let [score_cap, logit_cap] = architecture.soft_caps;
        let embedding_scale = if architecture.scales_embedding { (width as f64).sqrt() } else { 1.0 };
        let scaled_by = if architecture.layers_scaled_by_width == Some(layers) { size } else { head_size };
        Ok(Config {
            architecture,
            layers,
            width,
            heads,
            key_heads,
            head_size,
            hidden: metadata.size("feed_forward_length")?,
            mixture: Mixture::of(metadata, &architecture)?,
            vocabulary: vocabulary(metadata.checkpoint)?,
            context,
            original_context: original.unwrap_or(trained),
            slots,
            is_portable: options.is_portable,
            activations: options.activations,
            pooling: pooling(metadata, options.embeddings)?,
            embedding_scale: metadata.scale_or("embedding_scale", embedding_scale)?,
            attention_scale: metadata.scale_or("attention.scale", 1.0 / (scaled_by as f64).sqrt())?,
            residual_scale: metadata.scale_or("residual_scale", 1.0)?,
            logit_divisor: metadata.scale_or("logit_scale", 1.0)?,
            norm_epsilon: metadata.number_or("attention.layer_norm_rms_epsilon", 1e-5)?,
            score_cap: metadata.number_or("attn_logit_softcapping", score_cap)?,
            logit_cap: metadata.number_or("final_logit_softcapping", logit_cap)?,
            unrotated_period: if is_rotated { architecture.unrotated_period } else { 1 },
            window: Window::of(metadata, &architecture, (layers, context))?,
            frequencies,
            local_frequencies,
        })
    }

    /// How many conversations write a token at a time, if several do: on VMVX, as machine code of IREE's compiler, up to 3.13, has no
    /// memory for loops over rows of different lengths, and without experts, whose rows share no weights.
    pub(super) fn batch(&self) -> i64 {
        if self.is_portable && self.mixture.is_none() { self.slots.min(MOST_OF_BATCH) } else { 1 }
    }

    /// Whether a layer has rotary embeddings.
    pub(super) fn is_rotated(&self, layer: i64) -> bool {
        self.unrotated_period == 0 || (layer + 1) % self.unrotated_period != 0
    }

    /// The sliding window of a layer.
    pub(super) fn window_of(&self, layer: i64) -> Option<i64> {
        self.window.as_ref().filter(|window| window.has(layer)).map(|window| window.size)
    }
}

impl Mixture {
    /// The most experts of a token: its products are operations of their own.
    const MOST_USED: i64 = 64;

    /// Reads the numbers and sizes of experts.
    fn of(metadata: &Metadata<'_>, architecture: &Architecture) -> Result<Option<Mixture>> {
        let [count, used] = ["expert_count", "expert_used_count"]
            .map(|name| metadata.optional_count(name).map(Option::unwrap_or_default));
        let (count, used) = (count?, used?);
        if count == 0 && used == 0 {
            return Ok(None);
        }
        if !(1..=count.min(Mixture::MOST_USED)).contains(&used) {
            return Err(Error::invalid_argument(format!("{used} experts of {count}")));
        }
        // Softmax. Source: `ExpertGatingFuncType` of ggml's Python package.
        metadata.check_one("expert_gating_func")?;
        metadata.check_one("expert_group_count")?;
        metadata.check_one("expert_group_used_count")?;
        let hidden = metadata.size("feed_forward_length")?;
        Ok(Some(Mixture {
            count,
            used,
            hidden: metadata.optional_size("expert_feed_forward_length")?.unwrap_or(hidden),
            shared_hidden: metadata.optional_size("expert_shared_feed_forward_length")?.unwrap_or(hidden),
            is_normalised: metadata.flag_or("expert_weights_norm", architecture.normalises_shares)?,
            scale: metadata.scale_or("expert_weights_scale", 1.0)?,
        }))
    }
}

impl Window {
    /// Reads the sliding window, with the kinds of the layers.
    fn of(
        metadata: &Metadata<'_>,
        architecture: &Architecture,
        (layers, context): (i64, i64),
    ) -> Result<Option<Window>> {
        const PATTERN: &str = "attention.sliding_window_pattern";
        let size = match metadata.optional_count("attention.sliding_window")? {
            None => architecture.window,
            Some(size) => size,
        };
        let layers = match metadata.flags(PATTERN)? {
            Some(flags) if i64::try_from(flags.len()).is_ok_and(|count| count >= layers) => LocalLayers::Each(flags),
            Some(flags) => {
                let count = flags.len();
                return Err(Error::invalid_argument(format!(
                    "'{}' has {count} of {layers} layers",
                    metadata.key(PATTERN)
                )));
            }
            None => LocalLayers::Period(metadata.optional_count(PATTERN)?.unwrap_or(architecture.window_period)),
        };
        // A window of no positions states that there is none.
        Ok((size > 0).then_some(Window { size: size.min(context), layers }))
    }

    fn has(&self, layer: i64) -> bool {
        match &self.layers {
            LocalLayers::Period(0) => true,
            LocalLayers::Period(period) => layer % period < period - 1,
            LocalLayers::Each(flags) => {
                usize::try_from(layer).ok().and_then(|layer| flags.get(layer)).copied().unwrap_or(false)
            }
        }
    }
}

/// Checks that no position has queries that are scaled by it: those behind the context that a model was trained with first have.
fn check_temperature(metadata: &Metadata<'_>, context: i64, trained: i64) -> Result<()> {
    const NAME: &str = "attention.temperature_scale";
    let original = metadata.optional_size("rope.scaling.original_context_length")?.unwrap_or(trained);
    match metadata.number_or(NAME, 0.0)? {
        scale if scale != 0.0 && context > original => {
            Err(Error::unimplemented(format!("'{}' at more than {original} positions", metadata.key(NAME))))
        }
        _ => Ok(()),
    }
}

/// The number of rows of the embedding.
fn vocabulary(checkpoint: &Checkpoint) -> Result<i64> {
    let embedding = checkpoint.tensor("token_embd.weight");
    let rows = embedding.and_then(|tensor| tensor.shape.first().copied()).filter(|rows| (1..=LARGEST).contains(rows));
    let rows = rows.and_then(|rows| i64::try_from(rows).ok());
    rows.ok_or_else(|| Error::not_found("there is no tensor 'token_embd.weight' with a row for each token"))
}
