//! SentencePiece's BPE, the model `llama`: of the adjacent pieces whose concatenation is a token, the token with the highest score is joined
//! first. What is no token in the end becomes bytes.

use core::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use incarnate_bytecode::{Error, Result};
use incarnate_gguf::GgufFile;

use super::vocabulary::{Kind, Vocabulary};
use crate::{metadata, shown};

const SCORES_KEY: &str = "tokenizer.ggml.scores";
/// Stands for a space in tokens.
pub(super) const SPACE: &str = "\u{2581}";

#[derive(Debug)]
pub(super) struct SentencePiece {
    /// Tokens of text, with their numbers and scores.
    tokens: HashMap<String, (u32, f32)>,
    /// Bytes of the longest token.
    longest: usize,
    /// The token of each byte.
    bytes: Vec<u32>,
    /// Whether a space is added in front of a text, and of a text behind a special token.
    adds_space: bool,
}

/// Two adjacent pieces that may become one.
struct Pair {
    score: f32,
    /// The index of the left piece.
    left: usize,
    /// The index of the right piece.
    right: usize,
    /// Bytes of both pieces when the pair was found; pieces that have grown since are another pair.
    length: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

/// A range of the text, and its neighbours.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    /// Zero for a piece that its left neighbour contains.
    length: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

impl SentencePiece {
    pub(super) fn read(file: &GgufFile, vocabulary: &Vocabulary, adds_space: bool) -> Result<SentencePiece> {
        let scores = metadata::numbers(file, SCORES_KEY, metadata::MAXIMUM_TOKENS)?;
        let scores = scores.ok_or_else(|| Error::not_found(format!("the metadata has no '{SCORES_KEY}'")))?;
        let count = vocabulary.tokens.len();
        if scores.len() != count {
            return Err(Error::invalid_argument(format!(
                "metadata '{SCORES_KEY}' has {} elements for {count} tokens",
                scores.len()
            )));
        }
        let unknown = match metadata::token(file, "tokenizer.ggml.unknown_token_id", count)? {
            Some(token) => Some(token),
            None => vocabulary.iter().find(|(_, _, kind)| *kind == Kind::Unknown).map(|(number, ..)| number),
        };
        let mut bytes = vec![unknown; 256];
        for (number, text, kind) in vocabulary.iter() {
            if kind == Kind::Byte {
                let byte = byte(text).and_then(|byte| bytes.get_mut(usize::from(byte)));
                *byte.ok_or_else(|| {
                    Error::invalid_argument(format!("byte token '{}' is not '<0xNN>'", shown(text)))
                })? = Some(number);
            }
        }
        let missing = || Error::invalid_argument("the vocabulary has no token of some byte, and none of unknown text");
        let bytes = bytes.into_iter().collect::<Option<Vec<u32>>>().ok_or_else(missing)?;
        let score = |(text, number): (&str, u32)| {
            (text.to_owned(), (number, scores.get(number as usize).copied().unwrap_or_default()))
        };
        let tokens: HashMap<_, _> = vocabulary.plain().into_iter().map(score).collect();
        let longest = tokens.keys().map(String::len).max().unwrap_or_default();
        Ok(SentencePiece { tokens, longest, bytes, adds_space })
    }

    /// Returns whether a space is added in front of a text.
    pub(super) fn adds_space(&self) -> bool {
        self.adds_space
    }

    /// Appends the tokens of a text without special tokens.
    pub(super) fn encode(&self, text: &str, tokens: &mut Vec<u32>) {
        let prefix = if self.adds_space { SPACE } else { "" };
        let text = [prefix, &text.replace(' ', SPACE)].concat();
        for piece in self.pieces(&text) {
            match self.tokens.get(piece) {
                Some((number, _)) => tokens.push(*number),
                None => tokens.extend(piece.bytes().filter_map(|byte| self.bytes.get(usize::from(byte)))),
            }
        }
    }

    /// Splits a text into tokens and into characters that no token contains.
    fn pieces<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let mut pieces: Vec<Piece> = text
            .char_indices()
            .enumerate()
            .map(|(index, (start, character))| Piece {
                start,
                length: character.len_utf8(),
                previous: index.checked_sub(1),
                next: Some(index + 1),
            })
            .collect();
        if let Some(last) = pieces.last_mut() {
            last.next = None;
        }
        let mut pairs: BinaryHeap<Pair> =
            (1..pieces.len()).filter_map(|right| self.pair(text, &pieces, right)).collect();
        while let Some(pair) = pairs.pop() {
            let (Some(left), Some(right)) = (pieces.get(pair.left).copied(), pieces.get(pair.right).copied()) else {
                continue;
            };
            if left.length == 0 || right.length == 0 || left.length + right.length != pair.length {
                continue;
            }
            if let Some(left) = pieces.get_mut(pair.left) {
                left.length = pair.length;
                left.next = right.next;
            }
            if let Some(right) = pieces.get_mut(pair.right) {
                right.length = 0;
            }
            if let Some(next) = right.next.and_then(|next| pieces.get_mut(next)) {
                next.previous = Some(pair.left);
            }
            pairs.extend(
                [Some(pair.left), right.next].into_iter().flatten().filter_map(|right| self.pair(text, &pieces, right)),
            );
        }
        pieces
            .into_iter()
            .filter(|piece| piece.length > 0)
            .filter_map(|piece| text.get(piece.start..piece.start + piece.length))
    }

    /// Returns the pair of a piece and its left neighbour, if together they are a token.
    fn pair(&self, text: &str, pieces: &[Piece], right: usize) -> Option<Pair> {
        let right_piece = pieces.get(right)?;
        let left = right_piece.previous?;
        let left_piece = pieces.get(left)?;
        let length = left_piece.length + right_piece.length;
        if length > self.longest {
            return None;
        }
        let (_, score) = self.tokens.get(text.get(left_piece.start..left_piece.start + length)?)?;
        Some(Pair { score: *score, left, right, length })
    }
}

/// Returns the bytes of a token.
pub(super) fn piece(token: &str, kind: Kind) -> Vec<u8> {
    match (kind, byte(token)) {
        (Kind::Byte, Some(byte)) => vec![byte],
        _ => token.replace(SPACE, " ").into_bytes(),
    }
}

/// Returns the token `<0xNN>` of a byte.
pub(super) fn token_of(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

/// Returns the byte of a token `<0xNN>`.
pub(super) fn byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
