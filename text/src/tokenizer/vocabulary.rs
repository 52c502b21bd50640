//! The tokens of a vocabulary, and the special ones among them.

use core::ops::Range;
use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};
use incarnate_bytecode::{Error, Result};
use incarnate_gguf::GgufFile;
use serde::Deserialize;

use crate::{metadata, shown};

/// Most bytes of all special tokens together. Published vocabularies have at most some thousand of them.
const MAXIMUM_SPECIAL_BYTES: usize = 1 << 20;

/// Keeps the characters of an escaped special token apart. A noncharacter, so that no text contains it.
pub(super) const MARK: char = '\u{FDD0}';

/// What a token stands for. Source of the numbers: `llama_token_type` of llama.cpp's `llama.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A piece of text.
    Normal,
    /// Text that the vocabulary cannot express.
    Unknown,
    /// A token without text, such as the end of a turn.
    Control,
    /// Text that is one token wherever it is recognised.
    UserDefined,
    /// A number that stands for nothing.
    Unused,
    /// A byte of a character that no token contains.
    Byte,
}

impl Kind {
    fn of_number(number: i128) -> Option<Kind> {
        Some(match number {
            // Files leave the type of ordinary tokens undefined.
            0 | 1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => return None,
        })
    }

    /// Returns whether the token is recognised as a whole where special tokens are asked for.
    pub(super) fn is_special(self) -> bool {
        matches!(self, Kind::Unknown | Kind::Control | Kind::UserDefined)
    }
}

/// The tokens of a file, by their numbers.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pub(super) tokens: Vec<String>,
    pub(super) kinds: Vec<Kind>,
    /// Special tokens that take the spaces before or behind them.
    pub(super) strips: HashMap<u32, [bool; 2]>,
}

/// A token that a `tokenizer.json` adds to those of its model.
#[derive(Debug, Deserialize)]
pub(super) struct AddedToken {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    special: bool,
}

impl Vocabulary {
    pub(super) fn read(file: &GgufFile) -> Result<Vocabulary> {
        let tokens = metadata::tokens(file)?;
        let key = "tokenizer.ggml.token_type";
        let kinds = match metadata::integers(file, key, metadata::MAXIMUM_TOKENS)? {
            None => vec![Kind::Normal; tokens.len()],
            Some(numbers) if numbers.len() != tokens.len() => {
                return Err(Error::invalid_argument(format!(
                    "metadata '{key}' has {} elements for {} tokens",
                    numbers.len(),
                    tokens.len()
                )));
            }
            Some(numbers) => {
                let kind = |(index, number)| {
                    Kind::of_number(number).ok_or_else(|| {
                        Error::invalid_argument(format!(
                            "element {index} of metadata '{key}' is the unknown type {number}"
                        ))
                    })
                };
                numbers.into_iter().enumerate().map(kind).collect::<Result<_>>()?
            }
        };
        Ok(Vocabulary { tokens, kinds, strips: HashMap::new() })
    }

    /// Takes the tokens of a `tokenizer.json`; `is_byte` says which of them stand for bytes. Numbers that no token has stand for nothing.
    pub(super) fn of_json(
        vocab: &HashMap<String, u32>,
        added: &[AddedToken],
        is_byte: impl Fn(&str) -> bool,
    ) -> Result<Vocabulary> {
        let last = vocab.values().copied().chain(added.iter().map(|token| token.id)).max();
        let count = last.map(|last| u64::from(last) + 1).ok_or_else(|| Error::not_found("there are no tokens"))?;
        if count > metadata::MAXIMUM_TOKENS {
            let limit = metadata::MAXIMUM_TOKENS;
            return Err(Error::resource_exhausted(format!("{count} tokens exceed the limit of {limit}")));
        }
        let mut tokens = vec![(String::new(), Kind::Unused); count as usize];
        for (text, number) in vocab {
            let kind = if is_byte(text) { Kind::Byte } else { Kind::Normal };
            let token = tokens.get_mut(*number as usize).filter(|token| token.1 == Kind::Unused);
            *token.ok_or_else(|| Error::invalid_argument(format!("two tokens have the number {number}")))? =
                (text.clone(), kind);
        }
        for token in added {
            if token.single_word {
                return Err(Error::unimplemented(format!("'single_word' of the token '{}'", shown(&token.content))));
            }
            let kind = if token.special { Kind::Control } else { Kind::UserDefined };
            if let Some(slot) = tokens.get_mut(token.id as usize) {
                *slot = (token.content.clone(), kind);
            }
        }
        let (tokens, kinds) = tokens.into_iter().unzip();
        let strips = added.iter().filter(|token| token.lstrip || token.rstrip);
        let strips = strips.map(|token| (token.id, [token.lstrip, token.rstrip])).collect();
        Ok(Vocabulary { tokens, kinds, strips })
    }

    /// Returns the number of a token.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.iter().find(|(_, text, kind)| *kind != Kind::Unused && *text == name).map(|(number, ..)| number)
    }

    /// Returns the tokens with their numbers and kinds.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str, Kind)> {
        (0..).zip(&self.tokens).zip(&self.kinds).map(|((number, text), kind)| (number, text.as_str(), *kind))
    }

    /// Returns the tokens that text consists of, with their numbers. Of equal tokens the first counts.
    pub(super) fn plain(&self) -> HashMap<&str, u32> {
        let mut plain = HashMap::new();
        for (number, text, kind) in self.iter() {
            if kind == Kind::Normal && !text.is_empty() {
                plain.entry(text).or_insert(number);
            }
        }
        plain
    }

    /// Returns the number of a control token.
    pub(super) fn control(&self, name: &str) -> Option<u32> {
        self.iter().find(|(_, text, kind)| *kind == Kind::Control && *text == name).map(|(number, ..)| number)
    }
}

/// Finds special tokens in a text.
#[derive(Debug)]
pub(super) struct SpecialTokens {
    automaton: AhoCorasick,
    /// The number of each pattern of the automaton.
    numbers: Vec<u32>,
    /// The texts of tokens without a piece of text: control tokens, and those of unknown text.
    names: HashMap<u32, String>,
    strips: HashMap<u32, [bool; 2]>,
}

impl SpecialTokens {
    pub(super) fn new(vocabulary: &Vocabulary) -> Result<SpecialTokens> {
        // A token with the mark would be found in text that is escaped.
        let is_found = |text: &str| !text.is_empty() && !text.contains(MARK);
        let special = || vocabulary.iter().filter(|(_, text, kind)| kind.is_special() && is_found(text));
        let bytes: usize = special().map(|(_, text, _)| text.len()).sum();
        if bytes > MAXIMUM_SPECIAL_BYTES {
            return Err(Error::resource_exhausted(format!(
                "the special tokens have {bytes} bytes, which exceed the limit of {MAXIMUM_SPECIAL_BYTES}"
            )));
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(special().map(|(_, text, _)| text))
            .map_err(|error| Error::resource_exhausted(format!("special tokens: {}", shown(&error.to_string()))))?;
        let is_name = |kind: Kind| matches!(kind, Kind::Control | Kind::Unknown);
        let names = special().filter(|(.., kind)| is_name(*kind)).map(|(number, text, _)| (number, text.to_owned()));
        let names = names.collect();
        let (numbers, strips) = (special().map(|(number, ..)| number).collect(), vocabulary.strips.clone());
        Ok(SpecialTokens { automaton, numbers, names, strips })
    }

    /// Returns the text of a token that is no piece of text, such as `<|im_end|>`.
    pub(super) fn name(&self, token: u32) -> Option<&str> {
        self.names.get(&token).map(String::as_str)
    }

    /// Returns the special tokens of a text and the range of each, from left to right; of those that begin at a byte the longest.
    pub(super) fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (u32, Range<usize>)> + 'a {
        let number = |found: aho_corasick::Match| Some((*self.numbers.get(found.pattern().as_usize())?, found.range()));
        self.automaton.find_iter(text).filter_map(number)
    }

    /// Returns what [`SpecialTokens::find`] does, with the spaces that a token takes in its range.
    pub(super) fn find_with_spaces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (u32, Range<usize>)> + 'a {
        let mut end = 0;
        self.find(text).map(move |(number, mut range)| {
            let [before, behind] = self.strips.get(&number).copied().unwrap_or_default();
            if before {
                let text = text.get(end..range.start).unwrap_or_default();
                range.start -= text.len() - text.trim_end().len();
            }
            if behind {
                let text = text.get(range.end..).unwrap_or_default();
                range.end += text.len() - text.trim_start().len();
            }
            end = range.end;
            (number, range)
        })
    }
}
