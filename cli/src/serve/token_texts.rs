//! Tokens with their log probabilities, as clients of OpenAI's interface read them.

use core::fmt::Write as _;
use std::borrow::Cow;
use std::sync::Arc;

use incarnate_text::{Decoder, LogProbabilities, LogProbability, Tokenizer};
use serde_json::{Map, Value, json};

/// The texts of the tokens of an answer.
#[derive(Debug)]
pub(super) struct TokenTexts {
    tokenizer: Arc<Tokenizer>,
    decoder: Decoder,
    /// Characters of the tokens so far.
    offset: usize,
}

impl TokenTexts {
    pub(super) fn new(tokenizer: Arc<Tokenizer>) -> TokenTexts {
        let decoder = tokenizer.decoder();
        TokenTexts { tokenizer, decoder, offset: 0 }
    }

    /// Returns the text of a token. Bytes that are no whole characters are written `bytes:\xe2\x82`, as OpenAI's servers write them.
    fn text(&self, token: u32) -> Cow<'_, str> {
        if let Some(text) = self.tokenizer.control_text(token) {
            return Cow::Borrowed(text);
        }
        let bytes = self.tokenizer.token_bytes(token);
        core::str::from_utf8(bytes).map_or_else(
            |_| {
                let mut text = "bytes:".to_owned();
                for byte in bytes {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\\x{byte:02x}");
                }
                Cow::Owned(text)
            },
            Cow::Borrowed,
        )
    }

    fn described(&self, probability: LogProbability) -> Value {
        let token = probability.token;
        // Control tokens are no text, and have no bytes.
        let bytes = self.tokenizer.control_text(token).is_none().then(|| self.tokenizer.token_bytes(token));
        json!({"token": self.text(token), "logprob": probability.value, "bytes": bytes})
    }

    /// Returns the log probabilities of tokens of a message.
    pub(super) fn of_message(&self, probabilities: &[LogProbabilities]) -> Value {
        let described = |one: &LogProbabilities| {
            let mut described = self.described(one.drawn);
            described["top_logprobs"] = one.likeliest.iter().map(|likely| self.described(*likely)).collect();
            described
        };
        json!({"content": probabilities.iter().map(described).collect::<Value>(), "refusal": null})
    }

    /// Returns the log probabilities of tokens of a text.
    pub(super) fn of_completion(&mut self, probabilities: &[LogProbabilities]) -> Value {
        let mut offsets = Vec::new();
        for one in probabilities {
            offsets.push(self.offset);
            self.offset += self.decoder.push(one.drawn.token).chars().count();
        }
        let likeliest = |one: &LogProbabilities| {
            let entry = |likely: &LogProbability| (self.text(likely.token).into_owned(), json!(likely.value));
            one.likeliest.iter().map(entry).collect::<Map<String, Value>>()
        };
        json!({
            "tokens": probabilities.iter().map(|one| self.text(one.drawn.token)).collect::<Vec<_>>(),
            "token_logprobs": probabilities.iter().map(|one| one.drawn.value).collect::<Vec<f32>>(),
            "top_logprobs": probabilities.iter().map(likeliest).collect::<Vec<_>>(),
            "text_offset": offsets,
        })
    }
}
