//! Answers, as clients of OpenAI's interface read them.

use incarnate_text::{Finish, Generated, LogProbabilities};
use serde_json::{Value, json};

use super::token_texts::TokenTexts;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message of a conversation.
    Chat,
    /// The text behind a prompt.
    Completion,
}

/// What all parts of an answer have in common.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    pub(super) model: String,
    /// None for a client that does not ask for log probabilities.
    pub(super) token_texts: Option<TokenTexts>,
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::End | Finish::Stop | Finish::Interrupted => "stop",
        Finish::Length | Finish::Context => "length",
    }
}

/// Returns the numbers of tokens.
pub(super) fn usage(generated: &Generated) -> Value {
    json!({
        "prompt_tokens": generated.prompt,
        "completion_tokens": generated.written,
        "total_tokens": generated.prompt + generated.written,
        "prompt_tokens_details": {"cached_tokens": generated.prompt - generated.read},
    })
}

impl Head {
    fn object(&self, of_chat: &str, choices: &Value) -> Value {
        let object = if self.kind == Kind::Chat { of_chat } else { "text_completion" };
        json!({"id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices})
    }

    /// Returns a whole answer.
    pub(super) fn whole(&mut self, text: &str, probabilities: &[LogProbabilities], generated: &Generated) -> Value {
        let logprobs = self.logprobs(probabilities);
        let mut choice = json!({"index": 0, "logprobs": logprobs, "finish_reason": reason(generated.finish)});
        match self.kind {
            Kind::Chat => choice["message"] = json!({"role": "assistant", "content": text}),
            Kind::Completion => choice["text"] = text.into(),
        }
        let mut whole = self.object("chat.completion", &json!([choice]));
        whole["usage"] = usage(generated);
        whole
    }

    fn logprobs(&mut self, probabilities: &[LogProbabilities]) -> Value {
        let kind = self.kind;
        self.token_texts.as_mut().map_or(Value::Null, |texts| match kind {
            Kind::Chat => texts.of_message(probabilities),
            Kind::Completion => texts.of_completion(probabilities),
        })
    }

    fn chunk(&self, delta: Value, text: &str, finish: Option<Finish>) -> Value {
        let mut choice = json!({"index": 0, "logprobs": null, "finish_reason": finish.map(reason)});
        match self.kind {
            Kind::Chat => choice["delta"] = delta,
            Kind::Completion => choice["text"] = text.into(),
        }
        self.object("chat.completion.chunk", &json!([choice]))
    }

    /// Returns the first part of a stream, which only messages have.
    pub(super) fn start(&self) -> Option<Value> {
        let delta = json!({"role": "assistant", "content": ""});
        (self.kind == Kind::Chat).then(|| self.chunk(delta, "", None))
    }

    /// Returns a part of a stream.
    pub(super) fn part(&mut self, text: &str, probabilities: Option<&LogProbabilities>) -> Value {
        let mut part = self.chunk(json!({"content": text}), text, None);
        if let Some(probabilities) = probabilities {
            part["choices"][0]["logprobs"] = self.logprobs(core::slice::from_ref(probabilities));
        }
        part
    }

    /// Returns the part of a stream that says why it ends.
    pub(super) fn end(&self, generated: &Generated) -> Value {
        self.chunk(json!({}), "", Some(generated.finish))
    }

    /// Returns the part of a stream that has the numbers of tokens.
    pub(super) fn usage(&self, generated: &Generated) -> Value {
        let mut part = self.object("chat.completion.chunk", &json!([]));
        part["usage"] = usage(generated);
        part
    }
}
