//! A conversation whose answers are generated token by token.

use std::sync::Arc;
use std::time::SystemTime;

use incarnate::runtime::bytecode::Contents;
use incarnate::{Error, Result};
use incarnate_gguf::GgufFile;
use incarnate_text::generation::prompt;
use incarnate_text::{
    Answer, ChatTemplate, Conversation, Finish, Generation, LanguageModel as _, Message, Sampler, SamplerOptions,
    StopTexts, Tokenizer,
};

use crate::model::TranslatedModel;

/// A conversation with the model.
#[derive(Debug)]
pub struct Chat {
    model: TranslatedModel,
    /// Leaked, because `answer` borrows it. A program loads one model.
    tokenizer: &'static Tokenizer,
    template: ChatTemplate,
    conversation: Conversation,
    messages: Vec<Message>,
    /// The answer that is being generated.
    answer: Option<Answer<'static, Sampler>>,
    /// The text of `answer` so far.
    text: String,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whole characters. Empty while the question is read, and for a token that ends within a character.
    pub text: String,
    /// The number of tokens that were generated so far, with the one that ends the text.
    pub written: usize,
    /// Why the answer ended, if it did.
    pub finish: Option<Finish>,
}

impl Chat {
    /// Loads the model from a GGUF file. The clock is that of the chat template.
    ///
    /// # Errors
    /// NOT_FOUND for the file of another model than the program's, and for one without a chat template; errors of a damaged file.
    pub fn load(file: Contents, clock: fn() -> SystemTime) -> Result<Chat> {
        let contents = Arc::new(file);
        let file = GgufFile::read(Arc::clone(&contents))?;
        let (tokenizer, template) = (Tokenizer::from_gguf(&file)?, ChatTemplate::from_gguf(&file)?);
        let model = TranslatedModel::load(contents)?;
        Ok(Chat {
            model,
            tokenizer: Box::leak(Box::new(tokenizer)),
            template: template.with_clock(clock),
            conversation: Conversation::new(),
            messages: Vec::new(),
            answer: None,
            text: String::new(),
        })
    }

    /// Begins an answer of at most `limit` tokens. Ends the previous one.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the conversation exceeds the model's context; errors of the chat template. An error removes the question from the
    /// conversation.
    pub fn ask(&mut self, question: &str, options: SamplerOptions, limit: usize) -> Result<()> {
        self.stop();
        self.messages.push(Message::new("user", question));
        self.answer = match self.begin(options, limit) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.messages.pop();
                return Err(error);
            }
        };
        Ok(())
    }

    fn begin(&mut self, options: SamplerOptions, limit: usize) -> Result<Answer<'static, Sampler>> {
        let tokens = prompt(self.tokenizer, &self.template, &self.messages)?;
        let generation = Generation {
            tokenizer: self.tokenizer,
            sampler: Sampler::new(options),
            stop: StopTexts::new::<String>([]),
            limit,
            constraint: None,
            log_probabilities: None,
        };
        self.conversation.begin(self.model.context(), tokens, generation)
    }

    /// Reads a part of the question, or generates a token of the answer.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if every question is answered; errors of the model, which end the answer.
    pub fn advance(&mut self) -> Result<Part> {
        let part = self.step();
        if part.as_ref().map_or(true, |part| part.finish.is_some()) {
            self.stop();
        }
        part
    }

    fn step(&mut self) -> Result<Part> {
        let none = || Error::failed_precondition("every question is answered: ask another one");
        let answer = self.answer.as_mut().ok_or_else(none)?;
        let position = self.conversation.tokens().len();
        let logits = self.model.logits(self.conversation.slot(), answer.pending(&self.conversation), position)?;
        let text = answer.advance(&mut self.conversation, logits)?;
        self.text.push_str(&text);
        let (written, finish) = (answer.generated().written, answer.finish().map(|generated| generated.finish));
        Ok(Part { text, written, finish })
    }

    /// Ends the answer. Its text so far stays in the conversation.
    pub fn stop(&mut self) {
        if self.answer.take().is_some() {
            self.messages.push(Message::new("assistant", core::mem::take(&mut self.text)));
        }
    }

    /// Begins another conversation.
    pub fn forget(&mut self) {
        self.stop();
        self.messages.clear();
    }
}
