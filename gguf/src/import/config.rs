//! Sizes and constants of a model, of its metadata.

use incarnate_bytecode::{Error, Result};

use super::Options;
use super::architecture::Architecture;
use crate::file::ARCHITECTURE_KEY;
use crate::{GgufFile, shown};

/// The largest extent and the largest number of layers that are plausible; products of a few of them do not overflow.
const LARGEST: u64 = 1 << 24;

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
    /// The number of tokens.
    pub(super) vocabulary: i64,
    /// Positions of a conversation.
    pub(super) context: i64,
    /// Conversations.
    pub(super) slots: i64,
    /// Whether the module is for VMVX alone.
    pub(super) is_portable: bool,
    pub(super) norm_epsilon: f64,
    /// What embeddings are multiplied by.
    pub(super) embedding_scale: f64,
    /// What products of queries and keys are multiplied by.
    pub(super) attention_scale: f64,
    /// What the results of attention and of the feed-forward network are multiplied by, before they are added to the vectors of tokens.
    pub(super) residual_scale: f64,
    /// What logits are divided by.
    pub(super) logit_divisor: f64,
    /// The base of the frequencies of rotary embeddings.
    pub(super) rotary_base: f64,
    /// What frequencies are divided by.
    pub(super) rotary_divisor: f64,
}

/// The metadata of an architecture.
struct Metadata<'a> {
    file: &'a GgufFile,
    prefix: &'a str,
}

impl Metadata<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn optional_size(&self, name: &str) -> Result<Option<i64>> {
        let key = self.key(name);
        if self.file.value(&key).is_none() {
            return Ok(None);
        }
        let size = self.file.count(&key).filter(|size| (1..=LARGEST).contains(size));
        let size = size.and_then(|size| i64::try_from(size).ok());
        match size {
            Some(size) => Ok(Some(size)),
            None => Err(Error::invalid_argument(format!("'{key}' is not one number from 1 to {LARGEST}"))),
        }
    }

    fn size(&self, name: &str) -> Result<i64> {
        let size = self.optional_size(name)?;
        size.ok_or_else(|| Error::not_found(format!("there is no '{}'", self.key(name))))
    }

    fn number_or(&self, name: &str, default: f64) -> Result<f64> {
        let key = self.key(name);
        match (self.file.value(&key), self.file.number(&key)) {
            (None, _) => Ok(default),
            (_, Some(number)) if number.is_finite() => Ok(number),
            _ => Err(Error::invalid_argument(format!("'{key}' is not a finite number"))),
        }
    }
}

impl Config {
    /// Reads a file's metadata.
    pub(super) fn of(file: &GgufFile, options: &Options) -> Result<Config> {
        let name = file.text(ARCHITECTURE_KEY).ok_or_else(|| {
            Error::not_found("there is no 'general.architecture': this is no model but an archive of parameters (GGUF), which --parameters= passes")
        })?;
        let architecture = Architecture::named(name).ok_or_else(|| {
            let known = Architecture::names();
            Error::unimplemented(format!("the architecture '{}' is not supported; these are: {known}", shown(name)))
        })?;
        let metadata = Metadata { file, prefix: name };
        let (width, heads) = (metadata.size("embedding_length")?, metadata.size("attention.head_count")?);
        let key_heads = metadata.optional_size("attention.head_count_kv")?.unwrap_or(heads);
        if heads % key_heads != 0 {
            return Err(Error::invalid_argument(format!("{heads} heads do not share {key_heads} heads of keys")));
        }
        let size = width / heads;
        let head_size = metadata.optional_size("attention.key_length")?.unwrap_or(size);
        let value_size = metadata.optional_size("attention.value_length")?.unwrap_or(head_size);
        let rotated = metadata.optional_size("rope.dimension_count")?.unwrap_or(head_size);
        if value_size != head_size || rotated != head_size || head_size % 2 != 0 {
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
        Ok(Config {
            architecture,
            layers: metadata.size("block_count")?,
            width,
            heads,
            key_heads,
            head_size,
            hidden: metadata.size("feed_forward_length")?,
            vocabulary: vocabulary(file)?,
            context,
            slots,
            is_portable: options.is_portable,
            embedding_scale: metadata.number_or(
                "embedding_scale",
                if architecture.scales_embedding { (width as f64).sqrt() } else { 1.0 },
            )?,
            attention_scale: metadata.number_or("attention.scale", 1.0 / (head_size as f64).sqrt())?,
            residual_scale: metadata.number_or("residual_scale", 1.0)?,
            logit_divisor: metadata.number_or("logit_scale", 1.0)?,
            norm_epsilon: metadata.number_or("attention.layer_norm_rms_epsilon", 1e-5)?,
            rotary_base: metadata.number_or("rope.freq_base", 10_000.0)?,
            rotary_divisor: rotary_divisor(&metadata)?,
        })
    }
}

/// The number of rows of the embedding.
fn vocabulary(file: &GgufFile) -> Result<i64> {
    let embedding = file.tensor("token_embd.weight");
    let rows = embedding.and_then(|tensor| tensor.shape.first().copied()).filter(|rows| (1..=LARGEST).contains(rows));
    let rows = rows.and_then(|rows| i64::try_from(rows).ok());
    rows.ok_or_else(|| Error::not_found("there is no tensor 'token_embd.weight' with a row for each token"))
}

fn rotary_divisor(metadata: &Metadata<'_>) -> Result<f64> {
    let kind = metadata.file.text(&metadata.key("rope.scaling.type")).unwrap_or("none");
    match kind {
        "none" => Ok(1.0),
        "linear" => {
            let factor = metadata.number_or("rope.scaling.factor", 1.0)?;
            if factor == 0.0 { Ok(1.0) } else { Ok(factor) }
        }
        other => Err(Error::unimplemented(format!("rotary embeddings that are scaled by '{}'", shown(other)))),
    }
}
