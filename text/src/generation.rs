//! Generation: a model, its text, and a conversation with it.

use core::ops::ControlFlow;

use incarnate_bytecode::{Error, Result};

use crate::{ChatTemplate, Message, Sampler, StopTexts, Tokenizer};

/// The arithmetic of a language model with a cache of keys and values.
pub trait LanguageModel {
    /// Returns the number of positions that a conversation may have.
    fn context(&self) -> usize;

    /// Computes the logits of the token behind `tokens`, the first of which is at `position`, and keeps their keys and values. Those of the
    /// positions before are kept already, and those behind are discarded.
    ///
    /// # Errors
    /// Errors of the model.
    fn logits(&mut self, tokens: &[u32], position: usize) -> Result<&mut [f32]>;
}

/// Tokens that a model reads at a time: the memory of attention grows with them.
const READ_AT_A_TIME: usize = 256;

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its text.
    End,
    /// A stop text was generated.
    Stop,
    /// As many tokens were generated as were asked for.
    Length,
    /// The context is full.
    Context,
    /// The receiver of the text ended the generation.
    Interrupted,
}

/// What a generation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the prompt that the model had to read: the others are those of the text before.
    pub read: usize,
    /// Tokens that were generated, with the one that ends the text.
    pub written: usize,
    /// Why the generation ended.
    pub finish: Finish,
}

/// The tokens of a slot of a model, whose keys and values the model keeps.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    tokens: Vec<u32>,
}

/// How a text is generated.
#[derive(Debug)]
pub struct Generation<'a> {
    /// The tokenizer of the model.
    pub tokenizer: &'a Tokenizer,
    /// Draws tokens.
    pub sampler: &'a mut Sampler,
    /// Texts that end the generation.
    pub stop: StopTexts,
    /// The most tokens that are generated.
    pub limit: usize,
}

impl Conversation {
    /// Creates a conversation without tokens.
    #[must_use]
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// Returns the tokens whose keys and values the model keeps.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Generates the text behind a prompt, which `receive` gets in parts of whole characters. What the prompt has in common with the
    /// conversation so far is not read again.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a prompt without tokens, and one that the context does not hold; errors of the model and of `receive`. The
    /// conversation goes on from the tokens that the model has read.
    pub fn generate(
        &mut self,
        model: &mut impl LanguageModel,
        prompt: &[u32],
        generation: Generation<'_>,
        mut receive: impl FnMut(&str) -> Result<ControlFlow<()>>,
    ) -> Result<Generated> {
        let Generation { tokenizer, sampler, mut stop, limit } = generation;
        let context = model.context();
        if prompt.is_empty() || prompt.len() >= context {
            let count = prompt.len();
            return Err(Error::invalid_argument(format!("a prompt of {count} tokens for a context of {context}")));
        }
        let known = self.tokens.iter().zip(prompt).take_while(|(one, other)| one == other).count();
        // The last token is always read: its logits are needed.
        let known = known.min(prompt.len() - 1);
        self.tokens.truncate(known);
        let mut generated =
            Generated { prompt: prompt.len(), read: prompt.len() - known, written: 0, finish: Finish::Length };
        let mut next = None;
        for part in prompt.get(known..).unwrap_or_default().chunks(READ_AT_A_TIME) {
            let logits = model.logits(part, self.tokens.len())?;
            self.tokens.extend_from_slice(part);
            if self.tokens.len() == prompt.len() {
                next = Some(sampler.sample(logits, &self.tokens));
            }
        }
        let mut decoder = tokenizer.decoder();
        while let Some(token) = next.filter(|_| generated.written < limit) {
            generated.written += 1;
            if tokenizer.end_tokens().contains(&token) {
                generated.finish = Finish::End;
                break;
            }
            let text = stop.push(&decoder.push(token));
            if !text.is_empty() && receive(&text)?.is_break() {
                generated.finish = Finish::Interrupted;
                return Ok(generated);
            }
            if stop.stopped_by().is_some() {
                generated.finish = Finish::Stop;
                return Ok(generated);
            }
            if generated.written == limit {
                break;
            }
            if self.tokens.len() == context {
                generated.finish = Finish::Context;
                break;
            }
            let logits = model.logits(&[token], self.tokens.len())?;
            self.tokens.push(token);
            next = Some(sampler.sample(logits, &self.tokens));
        }
        let mut rest = stop.push(&decoder.finish());
        rest.push_str(&stop.finish());
        if !rest.is_empty() && receive(&rest)?.is_break() {
            generated.finish = Finish::Interrupted;
        }
        Ok(generated)
    }
}

/// Returns the tokens of messages, behind which the model answers. The contents of messages have no special tokens.
///
/// # Errors
/// Errors of the template.
pub fn prompt(tokenizer: &Tokenizer, template: &ChatTemplate, messages: &[Message]) -> Result<Vec<u32>> {
    let escaped: Vec<Message> = messages
        .iter()
        .map(|message| Message::new(message.role.clone(), tokenizer.escape_special(&message.content)))
        .collect();
    Ok(tokenizer.encode(&template.render(&escaped, true)?, true))
}
