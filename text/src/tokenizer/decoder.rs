//! Tokens as text, one at a time.

use core::ops::Range;
use std::sync::Arc;

/// The bytes of all tokens.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// The end of each token in `bytes`.
    ends: Vec<usize>,
}

impl Pieces {
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes.extend(piece);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    fn range(&self, token: u32) -> Option<Range<usize>> {
        let token = token as usize;
        let start = token.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        Some(start..*self.ends.get(token)?)
    }

    /// Returns the bytes of a token: none for a special token, or for a number that is no token.
    pub(super) fn get(&self, token: u32) -> &[u8] {
        self.range(token).and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }
}

/// Turns tokens into text while they arrive. A token may end within a character; the decoder returns it with the token that completes it.
///
/// Special tokens have no text. Bytes that are no UTF-8 become U+FFFD.
#[derive(Clone, Debug)]
pub struct Decoder {
    pieces: Arc<Pieces>,
    /// The start of a character.
    partial: Vec<u8>,
}

impl Decoder {
    pub(super) fn new(pieces: Arc<Pieces>) -> Decoder {
        Decoder { pieces, partial: Vec::new() }
    }

    /// Adds a token and returns the characters that are complete.
    pub fn push(&mut self, token: u32) -> String {
        let piece = self.pieces.get(token);
        self.partial.extend(piece);
        let mut text = String::new();
        let mut rest: &[u8] = &self.partial;
        loop {
            let error = match core::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, invalid) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            rest = invalid;
            let Some(length) = error.error_len() else { break };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = rest.get(length..).unwrap_or_default();
        }
        let complete = self.partial.len() - rest.len();
        self.partial.drain(..complete);
        text
    }

    /// Ends the text: returns U+FFFD if its last character is incomplete. The decoder is ready for another text then.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial.clear();
        text
    }
}
