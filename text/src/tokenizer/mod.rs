//! Tokenizers: text to tokens and back, as the metadata of a GGUF file or a `tokenizer.json` describes it.

mod bpe;
mod byte_level;
mod decoder;
mod json;
mod pre_tokenizer;
mod sentence_piece;
mod vocabulary;

use std::borrow::Cow;
use std::sync::Arc;

use bpe::Bpe;
pub use decoder::Decoder;
use decoder::Pieces;
use incarnate_bytecode::{Error, Result, ResultExt as _};
use incarnate_gguf::{GgufFile, ModelFolder};
use sentence_piece::SentencePiece;
use serde_json::Value;
use vocabulary::{Kind, MARK, SpecialTokens, Vocabulary};

use crate::folder::{self, Object};
use crate::{metadata, shown};

/// Control tokens that end a turn or a text. Files of some models name only one of theirs in the metadata.
/// Source: `special_eog_ids` in llama.cpp's `src/llama-vocab.cpp`.
const ENDS: [&str; 9] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<EOT>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
];

/// The file of a folder's tokenizer.
const JSON: &str = ModelFolder::TOKENIZER;
/// The field of `config.json` with the language model of a model of several modalities.
const TEXT_CONFIG: &str = "text_config";
/// The key of the numbers of the tokens that end a text.
const END_KEY: &str = "eos_token_id";

/// Turns text into tokens, and tokens into text.
#[derive(Debug)]
pub struct Tokenizer {
    model: Model,
    special: SpecialTokens,
    kinds: Vec<Kind>,
    pieces: Arc<Pieces>,
    begin: Option<u32>,
    ends: Vec<u32>,
    adds_begin: bool,
    /// Whether a space is added in front of a text, and of one behind a special token.
    adds_space: [bool; 2],
}

#[derive(Debug)]
enum Model {
    Bpe(Box<Bpe>),
    SentencePiece(Box<SentencePiece>),
}

impl Tokenizer {
    /// Reads the tokenizer of a model.
    ///
    /// # Errors
    /// UNIMPLEMENTED for a model or a pre-tokenizer that is not supported, NOT_FOUND without a vocabulary, RESOURCE_EXHAUSTED for a vocabulary that
    /// exceeds the limits, OUT_OF_RANGE and INVALID_ARGUMENT for damaged metadata.
    pub fn from_gguf(file: &GgufFile) -> Result<Tokenizer> {
        Self::read(file).context(|| "tokenizer")
    }

    fn read(file: &GgufFile) -> Result<Tokenizer> {
        let name = metadata::text(file, "tokenizer.ggml.model")?
            .ok_or_else(|| Error::not_found("the metadata has no 'tokenizer.ggml.model'"))?;
        let is_byte_level = match name {
            "gpt2" => true,
            "llama" => false,
            _ => return Err(Error::unimplemented(format!("model '{}'; supported are gpt2 and llama", shown(name)))),
        };
        let vocabulary = Vocabulary::read(file)?;
        let (model, adds_begin) = match is_byte_level {
            true => {
                let name = metadata::text(file, "tokenizer.ggml.pre")?.unwrap_or("default");
                let pre = pre_tokenizer::of_name(name)
                    .ok_or_else(|| Error::unimplemented(format!("pre-tokenizer '{}'", shown(name))))?;
                (Model::Bpe(Box::new(byte_level::read(file, &vocabulary, pre)?)), pre.adds_begin)
            }
            false => {
                let adds_space = metadata::flag(file, "tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
                (Model::SentencePiece(Box::new(SentencePiece::read(file, &vocabulary, adds_space)?)), true)
            }
        };
        // Numbers of SentencePiece's defaults, for files that do not name them.
        let default = |number: u32| (!is_byte_level && (number as usize) < vocabulary.tokens.len()).then_some(number);
        let token =
            |name: &str| metadata::token(file, &format!("tokenizer.ggml.{name}_token_id"), vocabulary.tokens.len());
        let begin = token("bos")?.or_else(|| default(1));
        let ends: Vec<u32> =
            [token("eos")?.or_else(|| default(2)), token("eot")?, token("eom")?].into_iter().flatten().collect();
        let adds_begin = metadata::flag(file, "tokenizer.ggml.add_bos_token")?.unwrap_or(adds_begin) && begin.is_some();
        let adds_space = [matches!(&model, Model::SentencePiece(model) if model.adds_space()); 2];
        Ok(Tokenizer { begin, adds_begin, adds_space, ..Tokenizer::of(vocabulary, model, is_byte_level, ends)? })
    }

    /// Reads the tokenizer of a folder in the layout of Hugging Face: `tokenizer.json`, and the tokens that begin and end texts of
    /// `tokenizer_config.json`, `generation_config.json` and `config.json`.
    ///
    /// # Errors
    /// UNIMPLEMENTED for parts that are not supported, NOT_FOUND without a `tokenizer.json`, RESOURCE_EXHAUSTED for a vocabulary that exceeds the
    /// limits, OUT_OF_RANGE and INVALID_ARGUMENT for damaged files; errors of reading.
    pub fn from_folder(folder: &ModelFolder) -> Result<Tokenizer> {
        Self::read_folder(folder).context(|| format!("tokenizer of '{}'", folder.path().display()))
    }

    fn read_folder(folder: &ModelFolder) -> Result<Tokenizer> {
        let bytes = folder.read(JSON)?.ok_or_else(|| Error::not_found(format!("there is no {JSON}")))?;
        let file = json::File::read(&bytes).context(|| JSON)?;
        let config: Object = folder::read(folder, ModelFolder::TOKENIZER_CONFIG)?.unwrap_or_default();
        let number = |key: &str| folder::token(&config, key).and_then(|text| file.vocabulary.number(text));
        let (begin, adds_begin) = (file.begin.or_else(|| number("bos_token")), file.begin.is_some());
        let mut ends: Vec<u32> = number("eos_token").into_iter().collect();
        for name in [ModelFolder::GENERATION_CONFIG, ModelFolder::CONFIG] {
            let object: Option<Object> = folder::read(folder, name)?;
            // Models of several modalities may state it of the language model.
            let within = |object: &Object| object.get(TEXT_CONFIG)?.get(END_KEY).cloned();
            let stated = object.as_ref().and_then(|object| object.get(END_KEY).cloned().or_else(|| within(object)));
            let all = end_tokens(stated.as_ref(), file.vocabulary.tokens.len());
            ends.extend(all.context(|| name)?);
        }
        let json::File { vocabulary, model, is_byte_level, adds_space, .. } = file;
        let model = Model::Bpe(Box::new(model));
        Ok(Tokenizer { begin, adds_begin, adds_space, ..Tokenizer::of(vocabulary, model, is_byte_level, ends)? })
    }

    /// Returns a tokenizer without a token that begins a text. `ends` are the tokens that end one, apart from those of [`ENDS`].
    fn of(vocabulary: Vocabulary, model: Model, is_byte_level: bool, mut ends: Vec<u32>) -> Result<Tokenizer> {
        let mut pieces = Pieces::default();
        for (_, text, kind) in vocabulary.iter() {
            pieces.push(&match kind {
                Kind::Control | Kind::Unknown => Vec::new(),
                Kind::UserDefined if is_byte_level => text.as_bytes().to_vec(),
                _ if is_byte_level => byte_level::piece(text),
                _ => sentence_piece::piece(text, kind),
            });
        }
        // In vocabularies with a token `<|return|>` that one ends a turn, and `<|end|>` a part of it.
        let has_return = vocabulary.control("<|return|>").is_some();
        ends.extend(
            ENDS.iter().filter(|name| !(has_return && **name == "<|end|>")).filter_map(|name| vocabulary.control(name)),
        );
        ends.sort_unstable();
        ends.dedup();
        let (special, pieces) = (SpecialTokens::new(&vocabulary)?, Arc::new(pieces));
        let kinds = vocabulary.kinds;
        Ok(Tokenizer { model, special, kinds, pieces, begin: None, ends, adds_begin: false, adds_space: [false; 2] })
    }

    /// Returns the number of tokens.
    #[must_use]
    pub fn token_count(&self) -> usize {
        self.pieces.count()
    }

    /// Returns the token that begins a text, if there is one.
    #[must_use]
    pub fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// Returns whether a text begins with [`Tokenizer::begin`]. [`Tokenizer::encode`] does not add it; most chat templates contain it.
    #[must_use]
    pub fn add_bos(&self) -> bool {
        self.adds_begin
    }

    /// Returns the tokens of a text that follows no other: with the token that begins it, where there is one ([`Tokenizer::add_bos`]).
    #[must_use]
    pub fn encode_first(&self, text: &str) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.begin.filter(|_| self.adds_begin).into_iter().collect();
        self.encode_plain(text, true, &mut tokens);
        tokens
    }

    /// Returns the tokens that end a turn or a text, in the order of their numbers.
    #[must_use]
    pub fn end_tokens(&self) -> &[u32] {
        &self.ends
    }

    /// Returns the tokens of a text.
    ///
    /// With `parse_special`, as for the text of a chat template, special tokens are recognised by their text, except where
    /// [`Tokenizer::escape_special`] escaped it. Without it they are ordinary text.
    #[must_use]
    pub fn encode(&self, text: &str, parse_special: bool) -> Vec<u32> {
        let mut tokens = Vec::new();
        if !parse_special {
            self.encode_plain(text, true, &mut tokens);
            return tokens;
        }
        let mut start = 0;
        for (token, range) in self.special.find_with_spaces(text) {
            self.encode_unescaped(text.get(start..range.start).unwrap_or_default(), start == 0, &mut tokens);
            tokens.push(token);
            start = range.end;
        }
        self.encode_unescaped(text.get(start..).unwrap_or_default(), start == 0, &mut tokens);
        tokens
    }

    fn encode_unescaped(&self, text: &str, is_first: bool, tokens: &mut Vec<u32>) {
        match text.contains(MARK) {
            true => self.encode_plain(&text.replace(MARK, ""), is_first, tokens),
            false => self.encode_plain(text, is_first, tokens),
        }
    }

    /// Appends the tokens of a text without special tokens. `is_first` states that none is before it.
    fn encode_plain(&self, text: &str, is_first: bool, tokens: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        match &self.model {
            Model::Bpe(model) => model.encode(text, is_first, tokens),
            Model::SentencePiece(model) => model.encode(text, tokens),
        }
    }

    /// Escapes the special tokens in a text that becomes a part of a prompt, so that [`Tokenizer::encode`] takes them for ordinary text. Users could
    /// write messages of other roles otherwise.
    ///
    /// The characters of a special token are separated by U+FDD0, which `encode` removes. Special tokens of one character cannot be escaped.
    #[must_use]
    pub fn escape_special<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        // Escaping a token may leave a shorter one that overlapped it.
        loop {
            let mut escaped = String::new();
            let mut start = 0;
            for (_, range) in self.special.find(&text) {
                let token = text.get(range.clone()).unwrap_or_default();
                if token.chars().nth(1).is_none() {
                    continue;
                }
                escaped.push_str(text.get(start..range.start).unwrap_or_default());
                escaped.extend(token.chars().flat_map(|character| [character, MARK]));
                start = range.end;
            }
            if start == 0 {
                return text;
            }
            escaped.push_str(text.get(start..).unwrap_or_default());
            text = Cow::Owned(escaped);
        }
    }

    /// Returns the bytes that a token adds to a text: none for a control token, or for a number that is no token.
    #[must_use]
    pub fn token_bytes(&self, token: u32) -> &[u8] {
        self.pieces.get(token)
    }

    /// Returns the text of a token that adds none to a text, such as `<|im_end|>`.
    #[must_use]
    pub fn control_text(&self, token: u32) -> Option<&str> {
        self.special.name(token)
    }

    /// Returns a decoder for a text.
    #[must_use]
    pub fn decoder(&self) -> Decoder {
        Decoder::new(Arc::clone(&self.pieces))
    }

    /// Returns the text of tokens, without the spaces that [`Tokenizer::encode`] added. Special tokens have no text.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut decoder = self.decoder();
        let mut text = String::new();
        let mut adds_space = self.adds_space[0];
        for token in tokens {
            let piece = decoder.push(*token);
            let is_special = self.kinds.get(*token as usize).is_some_and(|kind| kind.is_special());
            text.push_str(match piece.strip_prefix(' ') {
                Some(rest) if adds_space && !is_special => rest,
                _ => &piece,
            });
            adds_space = is_special && self.adds_space[1];
        }
        text + &decoder.finish()
    }
}

/// Returns the numbers of tokens, one or an array of several.
fn end_tokens(value: Option<&Value>, count: usize) -> Result<Vec<u32>> {
    let numbers = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(numbers)) => numbers.as_slice(),
        Some(number) => core::slice::from_ref(number),
    };
    let token = |number: &Value| {
        let token = number.as_u64().and_then(|number| u32::try_from(number).ok());
        token.filter(|token| (*token as usize) < count).ok_or_else(|| {
            let number = shown(&number.to_string());
            Error::out_of_range(format!("'{END_KEY}' is {number}, outside of the vocabulary of {count} tokens"))
        })
    };
    numbers.iter().map(token).collect()
}
