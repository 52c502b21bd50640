//! Generation: a model, its text, and a conversation with it.

use core::borrow::BorrowMut;
use core::ops::ControlFlow;

use incarnate_bytecode::{Error, Result};

use crate::{ChatTemplate, Constraint, Decoder, LogProbabilities, Message, Pooling, Sampler, StopTexts, Tokenizer};

/// The arithmetic of a language model with a cache of keys and values.
pub trait LanguageModel {
    /// Returns the number of positions that a conversation may have.
    fn context(&self) -> usize;

    /// Returns the number of conversations whose keys and values the model keeps at a time.
    fn slots(&self) -> usize {
        1
    }

    /// Computes the logits of the token behind `tokens`, the first of which is at `position` of a slot, and keeps their keys and values. Those of
    /// the positions before are kept already, and those behind are discarded.
    ///
    /// # Errors
    /// Errors of the model.
    fn logits(&mut self, slot: usize, tokens: &[u32], position: usize) -> Result<&mut [f32]>;

    /// The same for one token of each of several slots: `receive` gets the number of each step and its logits.
    ///
    /// # Errors
    /// Errors of the model. Steps whose logits were received are done, and the others are not.
    fn logits_of_steps(&mut self, steps: &[Step], receive: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        for (number, step) in steps.iter().enumerate() {
            receive(number, self.logits(step.slot, &[step.token], step.position)?);
        }
        Ok(())
    }

    /// Returns how [`LanguageModel::embed`] pools the vectors of tokens; `None` for a model without embeddings.
    fn pooling(&self) -> Option<Pooling> {
        None
    }

    /// Computes the sum of the vectors of `tokens`, or the last one ([`LanguageModel::pooling`]). Keys and values are those of
    /// [`LanguageModel::logits`].
    ///
    /// # Errors
    /// Errors of the model; UNIMPLEMENTED for one without embeddings.
    fn embed(&mut self, _slot: usize, _tokens: &[u32], _position: usize) -> Result<Vec<f32>> {
        Err(Error::unimplemented("the model has no embeddings"))
    }
}

/// A token that a slot reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The slot.
    pub slot: usize,
    /// The token.
    pub token: u32,
    /// The position of the token.
    pub position: usize,
}

/// Tokens that a model reads at a time. The memory of attention grows with them, as does the time that other conversations wait; fewer than 64
/// would share too little of the work on weights.
pub(crate) const READ_AT_A_TIME: usize = 128;

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
    pub(crate) slot: usize,
    pub(crate) tokens: Vec<u32>,
}

/// How a text is generated. The sampler is borrowed or owned.
#[derive(Debug)]
pub struct Generation<'a, S> {
    /// The tokenizer of the model.
    pub tokenizer: &'a Tokenizer,
    /// Draws tokens.
    pub sampler: S,
    /// Texts that end the generation.
    pub stop: StopTexts,
    /// The most tokens that are generated.
    pub limit: usize,
    /// What tokens may follow the text so far.
    pub constraint: Option<Constraint>,
    /// How many of the likeliest tokens [`Answer::log_probabilities`] lists; `None` for no log probabilities.
    pub log_probabilities: Option<usize>,
}

/// A generation that its user drives, token by token: several can take turns, each with a [`Conversation`] of its own.
///
/// As long as [`Answer::finish`] returns none, the model reads [`Answer::pending`], and [`Answer::advance`] gets its logits.
#[derive(Debug)]
pub struct Answer<'a, S> {
    generation: Generation<'a, S>,
    decoder: Decoder,
    context: usize,
    prompt: Vec<u32>,
    /// The last token that was generated, which the model has not read.
    next: [u32; 1],
    log_probabilities: Option<LogProbabilities>,
    generated: Generated,
    is_finished: bool,
}

impl Conversation {
    /// Creates a conversation without tokens, in the first slot of a model.
    #[must_use]
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// Creates a conversation without tokens, in a slot of a model.
    #[must_use]
    pub fn in_slot(slot: usize) -> Conversation {
        Conversation { slot, tokens: Vec::new() }
    }

    /// Returns the slot.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the tokens whose keys and values the model keeps.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns how many of the first tokens of a prompt the model has read.
    #[must_use]
    pub fn known(&self, prompt: &[u32]) -> usize {
        self.tokens.iter().zip(prompt).take_while(|(one, other)| one == other).count()
    }

    /// Begins the text behind a prompt, for a model of `context` positions. What the prompt has in common with the conversation so far is not
    /// read again.
    ///
    /// # Errors
    /// Those of [`check_prompt`].
    pub fn begin<'a, S: BorrowMut<Sampler>>(
        &mut self,
        context: usize,
        prompt: Vec<u32>,
        generation: Generation<'a, S>,
    ) -> Result<Answer<'a, S>> {
        check_prompt(prompt.len(), context)?;
        // The last token is always read: its logits are needed.
        let known = self.known(&prompt).min(prompt.len() - 1);
        self.tokens.truncate(known);
        let generated =
            Generated { prompt: prompt.len(), read: prompt.len() - known, written: 0, finish: Finish::Length };
        let decoder = generation.tokenizer.decoder();
        let log_probabilities = None;
        Ok(Answer { generation, decoder, context, prompt, next: [0], log_probabilities, generated, is_finished: false })
    }

    /// Generates the text behind a prompt, which `receive` gets in parts of whole characters. What the prompt has in common with the
    /// conversation so far is not read again.
    ///
    /// # Errors
    /// Those of [`Conversation::begin`] and of [`Answer::advance`]; errors of the model and of `receive`. The conversation goes on from the tokens that the model has read.
    pub fn generate(
        &mut self,
        model: &mut impl LanguageModel,
        prompt: &[u32],
        generation: Generation<'_, impl BorrowMut<Sampler>>,
        mut receive: impl FnMut(&str) -> Result<ControlFlow<()>>,
    ) -> Result<Generated> {
        let mut answer = self.begin(model.context(), prompt.to_vec(), generation)?;
        loop {
            let logits = model.logits(self.slot, answer.pending(self), self.tokens.len())?;
            let text = answer.advance(self, logits)?;
            if !text.is_empty() && receive(&text)?.is_break() {
                answer.generated.finish = Finish::Interrupted;
                return Ok(answer.generated);
            }
            if let Some(generated) = answer.finish() {
                return Ok(generated);
            }
        }
    }
}

impl<S: BorrowMut<Sampler>> Answer<'_, S> {
    /// Returns what the model reads next, behind the tokens of the conversation that it was begun with: a part of the prompt, or the last token.
    #[must_use]
    pub fn pending(&self, conversation: &Conversation) -> &[u32] {
        let rest = self.prompt.get(conversation.tokens.len()..).unwrap_or_default();
        match rest.is_empty() {
            true => &self.next,
            false => rest.get(..READ_AT_A_TIME).unwrap_or(rest),
        }
    }

    /// Takes the logits behind [`Answer::pending`], and returns the text that is known by them: whole characters, which begin no stop text.
    ///
    /// # Errors
    /// Those of the constraint, see [`Constraint::mask`]; the answer has ended then.
    pub fn advance(&mut self, conversation: &mut Conversation, logits: &mut [f32]) -> Result<String> {
        self.log_probabilities = None;
        let read = conversation.tokens.len() + self.pending(conversation).len();
        match self.prompt.get(conversation.tokens.len()..read) {
            Some(part) if !part.is_empty() => conversation.tokens.extend_from_slice(part),
            _ => conversation.tokens.extend(self.next),
        }
        if read < self.prompt.len() {
            return Ok(String::new());
        }
        if self.generation.limit == 0 {
            self.is_finished = true;
            return Ok(String::new());
        }
        let token = self.draw(conversation, logits)?;
        self.next = [token];
        self.generated.written += 1;
        let Generation { tokenizer, stop, limit, constraint, .. } = &mut self.generation;
        if tokenizer.end_tokens().contains(&token) {
            self.log_probabilities = None;
            return Ok(self.end(Finish::End, String::new()));
        }
        let text = stop.push(&self.decoder.push(token));
        let finish = if stop.stopped_by().is_some() {
            Finish::Stop
        } else if constraint.as_ref().is_some_and(Constraint::is_complete) {
            Finish::End
        } else if self.generated.written == *limit {
            Finish::Length
        } else if conversation.tokens.len() == self.context {
            Finish::Context
        } else {
            return Ok(text);
        };
        Ok(self.end(finish, text))
    }

    /// Draws the next token.
    fn draw(&mut self, conversation: &Conversation, logits: &mut [f32]) -> Result<u32> {
        let Generation { sampler, constraint, log_probabilities, .. } = &mut self.generation;
        // The constraint and the sampler change the logits.
        let original = log_probabilities.map(|count| (logits.to_vec(), count));
        let constrained = constraint.as_mut().map_or(Ok(()), |constraint| constraint.mask(logits));
        let token = sampler.borrow_mut().sample(logits, &conversation.tokens);
        let followed = constrained.and_then(|()| constraint.as_mut().map_or(Ok(()), |one| one.advance(token)));
        self.is_finished = followed.is_err();
        followed?;
        self.log_probabilities = original.map(|(logits, count)| LogProbabilities::of(&logits, token, count));
        Ok(token)
    }

    /// Ends the text with what was held back.
    fn end(&mut self, finish: Finish, mut text: String) -> String {
        self.is_finished = true;
        self.generated.finish = finish;
        let stop = &mut self.generation.stop;
        text.push_str(&stop.push(&self.decoder.finish()));
        text.push_str(&stop.finish());
        text
    }

    /// Returns the log probabilities of the token that the last [`Answer::advance`] drew, if the generation has them. A token that ends the text has
    /// none.
    #[must_use]
    pub fn log_probabilities(&self) -> Option<&LogProbabilities> {
        self.log_probabilities.as_ref()
    }

    /// Returns what the generation did, once it has ended.
    #[must_use]
    pub fn finish(&self) -> Option<Generated> {
        self.is_finished.then_some(self.generated)
    }

    /// Returns what the generation has done so far.
    #[must_use]
    pub fn generated(&self) -> Generated {
        self.generated
    }
}

/// Checks the number of tokens of a prompt for a model of `context` positions.
///
/// # Errors
/// INVALID_ARGUMENT for none, and for more than the context holds with an answer.
pub fn check_prompt(count: usize, context: usize) -> Result<()> {
    match (1..context).contains(&count) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!("a prompt of {count} tokens for a context of {context}"))),
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
