//! `tokenizer.json`, the format of the crate `tokenizers`, of byte-level BPE and of SentencePiece's BPE.
//!
//! The crate's reader of whole files is not used: its BPE panics for damaged merges, and it accepts normalizers and decoders that
//! [`super::Decoder`] does not follow. The parts that are supported are the crate's own.

use std::collections::HashMap;

use incarnate_bytecode::{Error, Result, ResultExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokenizers::models::bpe::{Merges, Vocab};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};

use super::bpe::{self, Bpe, ModelOptions, Step};
use super::vocabulary::{AddedToken, Kind, Vocabulary};
use super::{byte_level, sentence_piece};
use crate::folder::parse;
use crate::{metadata, shown};

/// Most bytes of a pattern. The longest published ones have about 500.
const MAXIMUM_PATTERN: usize = 1 << 13;
/// Most bytes that a step of a normalizer writes in the place of a match. Published ones write one character.
const MAXIMUM_REPLACEMENT: usize = 16;
/// Most steps of a normalizer, a pre-tokenizer or a decoder.
const MAXIMUM_STEPS: usize = 32;

/// A tokenizer as a file describes it.
pub(super) struct File {
    pub(super) vocabulary: Vocabulary,
    pub(super) model: Bpe,
    /// Whether tokens consist of characters that stand for bytes; else they have spaces as SentencePiece has.
    pub(super) is_byte_level: bool,
    /// Whether the encoder adds a space in front of a text, which the decoder removes, and one behind a special token.
    pub(super) adds_space: [bool; 2],
    /// The token that the post-processor adds in front of a text.
    pub(super) begin: Option<u32>,
}

/// The kind of the model, which is read first: other models have other fields.
#[derive(Deserialize)]
struct Head {
    model: HeadOfModel,
}

#[derive(Deserialize)]
struct HeadOfModel {
    // Files of older versions do not state it.
    r#type: Option<String>,
}

#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
}

/// Two tokens; in files of older versions a text, with a space between them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Text(String),
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// UNIMPLEMENTED for parts that are not supported, RESOURCE_EXHAUSTED for a vocabulary that exceeds the limits, INVALID_ARGUMENT for damaged
    /// files.
    pub(super) fn read(bytes: &[u8]) -> Result<File> {
        let Head { model: HeadOfModel { r#type } } = parse(bytes)?;
        if let Some(name) = r#type.filter(|name| name != "BPE") {
            return Err(Error::unimplemented(format!("model '{}'; supported is BPE", shown(&name))));
        }
        let Json { added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model } = parse(bytes)?;
        let falls_back = model.byte_fallback.unwrap_or_default();
        let is_byte = |text: &str| falls_back && sentence_piece::byte(text).is_some();
        let vocabulary = Vocabulary::of_json(&model.vocab, &added_tokens, is_byte)?;
        let (is_byte_level, strips_space) = decoder_of(decoder.as_ref()).context(|| "decoder")?;
        let normalizers = normalizers(normalizer.as_ref()).context(|| "normalizer")?;
        let steps = steps(pre_tokenizer.as_ref()).context(|| "pre-tokenizer")?;
        let is_prepended = normalizers.iter().any(|normalizer| matches!(normalizer, NormalizerWrapper::Prepend(_)));
        let adds_space = [strips_space, strips_space && (is_prepended || steps.iter().any(adds_spaces))];
        let begin = begin(post_processor.as_ref(), &vocabulary).context(|| "post-processor")?;
        let number = |text: &str| model.vocab.get(text).copied();
        let bytes = match is_byte_level {
            true => byte_level::bytes(number),
            false => (0..=255).map(|byte| number(&sentence_piece::token_of(byte))).collect(),
        };
        let model = Bpe { normalizers, steps, model: model.build(&vocabulary)?, bytes };
        Ok(File { vocabulary, model, is_byte_level, adds_space, begin })
    }
}

impl Model {
    /// Returns the model of text, without special tokens: it would make them of a user's text otherwise.
    fn build(self, vocabulary: &Vocabulary) -> Result<tokenizers::models::bpe::BPE> {
        if self.dropout.is_some_and(|dropout| dropout != 0.0) {
            return Err(Error::unimplemented("'dropout', by which texts have different tokens each time"));
        }
        let affixes = [
            ("continuing_subword_prefix", &self.continuing_subword_prefix),
            ("end_of_word_suffix", &self.end_of_word_suffix),
        ];
        if let Some((name, _)) = affixes.iter().find(|(_, affix)| affix.as_ref().is_some_and(|text| !text.is_empty())) {
            return Err(Error::unimplemented(format!("'{name}'")));
        }
        let is_special = |text: &str| {
            let kind = self.vocab.get(text).and_then(|number| vocabulary.kinds.get(*number as usize));
            kind == Some(&Kind::Control)
        };
        let mut merges = merges(self.merges, &self.vocab)?;
        merges.retain(|(left, right)| {
            ![left, right, &[&**left, right].concat()].into_iter().any(|part| is_special(part))
        });
        let unknown = self.unk_token.filter(|token| self.vocab.contains_key(token));
        let is_of_text = |text: &str| unknown.as_deref() == Some(text) || !is_special(text);
        let vocab: Vocab = self
            .vocab
            .iter()
            .filter(|(text, _)| is_of_text(text))
            .map(|(text, number)| (text.clone(), *number))
            .collect();
        let options = ModelOptions {
            ignores_merges: self.ignore_merges.unwrap_or_default(),
            unknown,
            fuses_unknown: self.fuse_unk.unwrap_or_default(),
            falls_back_to_bytes: self.byte_fallback.unwrap_or_default(),
        };
        bpe::model(vocab, merges, options)
    }
}

/// Returns the merges as pairs of tokens whose concatenation is a token.
fn merges(merges: Vec<Merge>, vocab: &HashMap<String, u32>) -> Result<Merges> {
    if merges.len() as u64 > metadata::MAXIMUM_MERGES {
        return Err(Error::resource_exhausted(format!(
            "{} merges exceed the limit of {}",
            merges.len(),
            metadata::MAXIMUM_MERGES
        )));
    }
    let pair = |(index, merge): (usize, Merge)| {
        let (left, right) = match merge {
            Merge::Pair(left, right) => (left, right),
            Merge::Text(text) => match text.split_once(' ') {
                Some((left, right)) => (left.to_owned(), right.to_owned()),
                None => {
                    let why = format!("merge {index} is not two tokens: '{}'", shown(&text));
                    return Err(Error::invalid_argument(why));
                }
            },
        };
        let parts = [left.as_str(), &right, &[&*left, &*right].concat()].map(str::to_owned);
        match parts.iter().find(|part| !vocab.contains_key(*part)) {
            None => Ok((left, right)),
            Some(missing) => {
                let why = format!("merge {index} names '{}', which is no token", shown(missing));
                Err(Error::invalid_argument(why))
            }
        }
    };
    merges.into_iter().enumerate().map(pair).collect()
}

/// Returns the parts of a value that is `null`, a part, or a sequence of parts under a key.
fn parts<'a>(value: Option<&'a Value>, key: &str) -> Result<Vec<&'a Value>> {
    let mut parts = Vec::new();
    let mut rest: Vec<&Value> = value.into_iter().collect();
    while let Some(part) = rest.pop() {
        match type_of(part)? {
            "Sequence" => {
                let inner = part.get(key).and_then(Value::as_array);
                let inner = inner.ok_or_else(|| Error::invalid_argument(format!("a sequence has no '{key}'")))?;
                rest.extend(inner.iter().rev());
            }
            _ => parts.push(part),
        }
        if parts.len() + rest.len() > MAXIMUM_STEPS {
            return Err(Error::resource_exhausted(format!("there are more than {MAXIMUM_STEPS} steps")));
        }
    }
    Ok(parts)
}

fn type_of(part: &Value) -> Result<&str> {
    let name = part.get("type").and_then(Value::as_str);
    name.ok_or_else(|| Error::invalid_argument("a part has no 'type'"))
}

fn unsupported(part: &Value) -> Error {
    let name = type_of(part).unwrap_or_default();
    Error::unimplemented(format!("'{}' of this form", shown(name)))
}

/// Returns the text that a part looks for.
fn pattern_of(part: &Value) -> Option<&str> {
    part.get("pattern")?.get("String")?.as_str()
}

/// Checks the length of a pattern.
fn check_pattern(part: &Value) -> Result<()> {
    let pattern = part.get("pattern");
    let text = ["String", "Regex"].iter().find_map(|kind| pattern?.get(kind)?.as_str());
    match text {
        Some("") => Err(Error::invalid_argument("a pattern is empty")),
        Some(text) if text.len() <= MAXIMUM_PATTERN => Ok(()),
        Some(text) => Err(Error::resource_exhausted(format!("a pattern has {} bytes", text.len()))),
        None => Err(Error::invalid_argument("there is no pattern")),
    }
}

/// Checks the length of a text that a part writes.
fn check_replacement(part: &Value, key: &str) -> Result<()> {
    match part.get(key).and_then(Value::as_str).map(str::len) {
        Some(length) if length > MAXIMUM_REPLACEMENT => Err(Error::resource_exhausted(format!(
            "'{key}' has {length} bytes, which exceed the limit of {MAXIMUM_REPLACEMENT}"
        ))),
        _ => Ok(()),
    }
}

/// Converts a part to that of the crate.
fn converted<T: serde::de::DeserializeOwned>(part: &Value) -> Result<T> {
    serde_json::from_value(part.clone()).map_err(|error| Error::invalid_argument(shown(&error.to_string())))
}

fn normalizers(value: Option<&Value>) -> Result<Vec<NormalizerWrapper>> {
    let normalizer = |part: &Value| {
        match type_of(part)? {
            "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" => {}
            "Prepend" => check_replacement(part, "prepend")?,
            "Replace" => {
                check_pattern(part)?;
                check_replacement(part, "content")?;
            }
            name => return Err(Error::unimplemented(format!("'{}'", shown(name)))),
        }
        converted(part)
    };
    parts(value, "normalizers")?.into_iter().map(normalizer).collect()
}

/// Whether a step adds a space in front of a text behind a special token.
fn adds_spaces(step: &Step) -> bool {
    let later = step.later.as_ref();
    matches!(later, Some(PreTokenizerWrapper::Metaspace(step)) if step.prepend_scheme != PrependScheme::Never)
}

fn steps(value: Option<&Value>) -> Result<Vec<Step>> {
    let step = |part: &Value| {
        match type_of(part)? {
            "ByteLevel" | "Digits" => {}
            "Split" => check_pattern(part)?,
            "Metaspace" => {
                let first: Metaspace = converted(part)?;
                let mut later = first.clone();
                if first.prepend_scheme == PrependScheme::First {
                    later.set_prepend_scheme(PrependScheme::Never);
                }
                let [first, later] = [first, later].map(PreTokenizerWrapper::Metaspace);
                return Ok(Step { first, later: Some(later) });
            }
            name => return Err(Error::unimplemented(format!("'{}'", shown(name)))),
        }
        converted(part).map(|first: PreTokenizerWrapper| Step::from(first))
    };
    let parts = parts(value, "pretokenizers")?;
    // Each of them makes texts longer, up to twice.
    for name in ["ByteLevel", "Metaspace"] {
        if parts.iter().filter(|part| type_of(part).is_ok_and(|of_part| of_part == name)).count() > 1 {
            return Err(Error::unimplemented(format!("several steps '{name}'")));
        }
    }
    parts.into_iter().map(step).collect()
}

/// Returns whether tokens are texts of bytes, and whether a space at the start of a text is removed.
fn decoder_of(value: Option<&Value>) -> Result<(bool, bool)> {
    let mut kinds = [false; 2];
    let mut adds_space = false;
    for part in parts(value, "decoders")? {
        let text = |key: &str| part.get(key).and_then(Value::as_str);
        let count = |key: &str| part.get(key).and_then(Value::as_u64);
        match type_of(part)? {
            "ByteLevel" => kinds[0] = true,
            "Replace" if pattern_of(part) == Some(sentence_piece::SPACE) && text("content") == Some(" ") => {
                kinds[1] = true;
            }
            "Metaspace" if text("replacement") == Some(sentence_piece::SPACE) => {
                kinds[1] = true;
                let metaspace: Metaspace = converted(part)?;
                adds_space |= metaspace.prepend_scheme != PrependScheme::Never;
            }
            "Strip" if text("content") == Some(" ") && count("start") == Some(1) && count("stop") == Some(0) => {
                adds_space = true;
            }
            "ByteFallback" | "Fuse" => {}
            _ => return Err(unsupported(part)),
        }
    }
    match kinds {
        [true, false] => Ok((true, false)),
        [false, true] => Ok((false, adds_space)),
        _ => Err(Error::unimplemented("a decoder of neither bytes nor SentencePiece's spaces")),
    }
}

/// Returns the token that a post-processor adds in front of a text.
fn begin(value: Option<&Value>, vocabulary: &Vocabulary) -> Result<Option<u32>> {
    let mut begin = None;
    for part in parts(value, "processors")? {
        match type_of(part)? {
            "ByteLevel" => {}
            "TemplateProcessing" => {
                let single = part.get("single").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let special = |piece: &Value| Some(piece.get("SpecialToken")?.get("id")?.as_str()?.to_owned());
                let is_text = |piece: &Value| piece.get("Sequence").is_some();
                let name = match single {
                    [text] if is_text(text) => None,
                    [first, text] if is_text(text) => Some(special(first).ok_or_else(|| unsupported(part))?),
                    _ => return Err(unsupported(part)),
                };
                let Some(name) = name else { continue };
                let number = vocabulary.number(&name);
                let unknown = || Error::invalid_argument(format!("'{}' is no token", shown(&name)));
                begin = Some(number.ok_or_else(unknown)?);
            }
            name => return Err(Error::unimplemented(format!("'{}'", shown(name)))),
        }
    }
    Ok(begin)
}
