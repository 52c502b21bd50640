//! Byte-level BPE, the model `gpt2`: words are UTF-8 bytes, which merges join in the order of their ranks.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use incarnate_bytecode::{Error, Result};
use incarnate_gguf::GgufFile;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::models::bpe::{Merges, Vocab};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use super::bpe::{self, Bpe, ModelOptions, Step};
use super::pre_tokenizer::PreTokenizer;
use super::vocabulary::Vocabulary;
use crate::{metadata, shown};

const MERGES_KEY: &str = "tokenizer.ggml.merges";

/// Reads the tokenizer of a file's metadata.
pub(super) fn read(file: &GgufFile, vocabulary: &Vocabulary, pre: PreTokenizer) -> Result<Bpe> {
    let plain = vocabulary.plain();
    let merges = merges(file, vocabulary, &plain)?;
    let bytes = bytes(|text| plain.get(text).copied());
    let vocab: Vocab = plain.into_iter().map(|(text, number)| (text.to_owned(), number)).collect();
    let options = ModelOptions { ignores_merges: pre.ignores_merges, ..ModelOptions::default() };
    let model = bpe::model(vocab, merges, options)?;
    let split = |pattern: &&str| {
        Split::new(SplitPattern::Regex((*pattern).to_owned()), SplitDelimiterBehavior::Isolated, false)
            .map(|split| Step::from(PreTokenizerWrapper::Split(split)))
            .map_err(|error| Error::internal(error.to_string()))
    };
    let mut steps: Vec<Step> = pre.patterns.iter().map(split).collect::<Result<_>>()?;
    steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, false)).into());
    Ok(Bpe { normalizers: Vec::new(), steps, model, bytes })
}

/// Returns the token of each byte, where it has one.
pub(super) fn bytes(number: impl Fn(&str) -> Option<u32>) -> Vec<Option<u32>> {
    (0..=255).map(|byte| number(character(byte).encode_utf8(&mut [0; 4]))).collect()
}

/// Reads merges, first rank first. A merge must name tokens; those of special tokens are left out.
fn merges(file: &GgufFile, vocabulary: &Vocabulary, plain: &HashMap<&str, u32>) -> Result<Merges> {
    let Some(lines) = metadata::texts(file, MERGES_KEY, metadata::MAXIMUM_MERGES)? else {
        return Err(Error::not_found(format!("the metadata has no '{MERGES_KEY}'")));
    };
    // Of files as they are published, no merge needs it.
    let all: LazyCell<HashSet<&str>, _> = LazyCell::new(|| vocabulary.tokens.iter().map(String::as_str).collect());
    // Of equal merges the first counts, and the builder would take the last.
    let mut seen = HashSet::new();
    let mut merges = Merges::new();
    for (index, line) in lines.into_iter().enumerate() {
        // The first character may be a space in a vocabulary that is not of bytes.
        let separator = line.char_indices().skip(1).find(|(_, character)| *character == ' ');
        let sides = separator.and_then(|(at, _)| Some((line.get(..at)?, line.get(at + 1..)?)));
        let Some((left, right)) = sides.filter(|(_, right)| !right.is_empty()) else {
            return Err(Error::invalid_argument(format!("merge {index} is not two tokens: '{}'", shown(&line))));
        };
        let whole = [left, right].concat();
        let parts = [left, right, &whole];
        let [Some(left_number), Some(right_number), Some(_)] = parts.map(|part| plain.get(part).copied()) else {
            let Some(missing) = parts.iter().find(|part| !all.contains(**part)) else { continue };
            return Err(Error::invalid_argument(format!(
                "merge {index} names '{}', which is no token",
                shown(missing)
            )));
        };
        if seen.insert((left_number, right_number)) {
            merges.push((left.to_owned(), right.to_owned()));
        }
    }
    Ok(merges)
}

/// Returns the bytes of a token: its characters stand for bytes.
pub(super) fn piece(token: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for character in token.chars() {
        match byte(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

/// Bytes that stand for themselves. Source: `bytes_to_unicode` of GPT-2's `encoder.py`.
const fn is_direct(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The bytes that do not stand for themselves.
const INDIRECT: [u8; 68] = {
    let (mut indirect, mut count, mut byte) = ([0; 68], 0, 0);
    while byte < 256 {
        if !is_direct(byte as u8) {
            indirect[count] = byte as u8;
            count += 1;
        }
        byte += 1;
    }
    indirect
};

/// Returns the character that stands for a byte: the other bytes are those from U+0100.
fn character(byte: u8) -> char {
    match INDIRECT.binary_search(&byte) {
        Ok(index) => char::from_u32(256 + index as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        Err(_) => char::from(byte),
    }
}

/// Returns the byte that a character stands for.
fn byte(character: char) -> Option<u8> {
    match u32::from(character) {
        number @ 0..256 => u8::try_from(number).ok().filter(|byte| is_direct(*byte)),
        number => INDIRECT.get(number as usize - 256).copied(),
    }
}
