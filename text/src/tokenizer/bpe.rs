//! BPE: words of a text, whose characters merges join in the order of their ranks.

use incarnate_bytecode::{Error, Result};
use tokenizers::models::bpe::{BPE, BpeBuilder, Merges, Vocab};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{Model as _, Normalizer as _, OffsetType, PreTokenizedString, PreTokenizer as _};

use crate::shown;

/// Most times by which normalizers lengthen a text: NFKC replaces one character by 11 times its bytes (U+FDFA).
const EXPANSION: usize = 16;

/// How a text becomes tokens.
pub(super) struct Bpe {
    pub(super) normalizers: Vec<NormalizerWrapper>,
    pub(super) steps: Vec<Step>,
    pub(super) model: BPE,
    /// The token of each byte that has one, for a text that is not encoded otherwise.
    pub(super) bytes: Vec<Option<u32>>,
}

/// A step from a text to its words.
pub(super) struct Step {
    /// The step for the start of a text.
    pub(super) first: PreTokenizerWrapper,
    /// The step for a text behind a special token, where it differs.
    pub(super) later: Option<PreTokenizerWrapper>,
}

impl From<PreTokenizerWrapper> for Step {
    fn from(first: PreTokenizerWrapper) -> Step {
        Step { first, later: None }
    }
}

impl core::fmt::Debug for Bpe {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bpe").field("model", &self.model).finish_non_exhaustive()
    }
}

/// Options of a model.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelOptions {
    /// Whether a word that is a token is that token, whatever the merges are.
    pub(super) ignores_merges: bool,
    /// The token of what is no token.
    pub(super) unknown: Option<String>,
    /// Whether adjacent characters that are no tokens are one unknown token.
    pub(super) fuses_unknown: bool,
    /// Whether characters that are no tokens become tokens of bytes.
    pub(super) falls_back_to_bytes: bool,
}

/// Returns a model. Merges must name tokens.
///
/// # Errors
/// INVALID_ARGUMENT for a damaged vocabulary.
pub(super) fn model(vocabulary: Vocab, merges: Merges, options: ModelOptions) -> Result<BPE> {
    let builder = BpeBuilder::new()
        .vocab_and_merges(vocabulary, merges)
        .ignore_merges(options.ignores_merges)
        .fuse_unk(options.fuses_unknown)
        .byte_fallback(options.falls_back_to_bytes)
        // The cache of a model would stay in each thread that used it.
        .cache_capacity(0);
    let builder = options.unknown.into_iter().fold(builder, BpeBuilder::unk_token);
    builder.build().map_err(|error| Error::invalid_argument(shown(&error.to_string())))
}

impl Bpe {
    /// Appends the tokens of a text without special tokens. `is_first` states that it begins a text.
    pub(super) fn encode(&self, text: &str, is_first: bool, tokens: &mut Vec<u32>) {
        match self.words(text, is_first) {
            Ok(encoded) => tokens.extend(encoded),
            // The model has errors for unknown characters, and patterns for texts that take too long; the text is not lost even so.
            Err(_) => {
                tokens.extend(text.bytes().filter_map(|byte| self.bytes.get(usize::from(byte)).copied().flatten()))
            }
        }
    }

    fn words(&self, text: &str, is_first: bool) -> tokenizers::Result<Vec<u32>> {
        let mut words = PreTokenizedString::from(text);
        let limit = EXPANSION.saturating_mul(text.len() + EXPANSION);
        for normalizer in &self.normalizers {
            words.normalize(|text| {
                normalizer.normalize(text)?;
                match text.get().len() <= limit {
                    true => Ok(()),
                    false => Err(format!("normalization exceeds {limit} bytes").into()),
                }
            })?;
        }
        for Step { first, later } in &self.steps {
            later.as_ref().filter(|_| !is_first).unwrap_or(first).pre_tokenize(&mut words)?;
        }
        words.tokenize(|word| self.model.tokenize(word.get()))?;
        Ok(words.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
    }
}
