//! Requests for embeddings: their work for the model, and their answers.

use std::collections::VecDeque;

use data_encoding::BASE64;
use incarnate_runtime::Result;
use incarnate_text::{Conversation, Embedding, LanguageModel};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::requests::VectorFormat;

/// A request for embeddings, which takes turns with conversations, a part of a text at a time.
#[derive(Debug)]
pub(super) struct EmbeddingJob {
    /// The tokens of the texts that are left.
    texts: VecDeque<Vec<u32>>,
    /// The number of tokens of all texts.
    tokens: usize,
    current: Option<Embedding>,
    vectors: Vec<Vec<f32>>,
    /// Takes the vectors. A client that leaves closes it.
    reply: oneshot::Sender<Result<Vec<Vec<f32>>>>,
}

impl EmbeddingJob {
    /// Returns the job of texts, and what receives their vectors.
    pub(super) fn new(texts: Vec<Vec<u32>>) -> (EmbeddingJob, oneshot::Receiver<Result<Vec<Vec<f32>>>>) {
        let (reply, vectors) = oneshot::channel();
        let tokens = texts.iter().map(Vec::len).sum();
        (EmbeddingJob { texts: texts.into(), tokens, current: None, vectors: Vec::new(), reply }, vectors)
    }

    /// Returns the number of tokens of all texts.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns whether the client has left.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// Has the model read a part of a text. Returns whether any text is left.
    ///
    /// # Errors
    /// Errors of the model.
    pub(super) fn step(&mut self, model: &mut impl LanguageModel, conversation: &mut Conversation) -> Result<bool> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => match self.texts.pop_front() {
                Some(text) => Embedding::new(model, text)?,
                None => return Ok(false),
            },
        };
        match current.step(model, conversation)? {
            Some(vector) => self.vectors.push(vector),
            None => self.current = Some(current),
        }
        Ok(self.current.is_some() || !self.texts.is_empty())
    }

    /// Sends the vectors, or why there are none.
    pub(super) fn end(self, result: Result<()>) {
        // A client that has left needs no answer.
        let _ = self.reply.send(result.map(|()| self.vectors));
    }
}

/// Returns a number with the shortest decimal form that is read as the same `f32`.
fn short(number: f32) -> Value {
    number.to_string().parse::<f64>().unwrap_or_else(|_| number.into()).into()
}

/// Returns the answer of a request for embeddings of texts with so many tokens together.
pub(super) fn answer(model: &str, vectors: &[Vec<f32>], format: VectorFormat, tokens: usize) -> Value {
    let encoded = |vector: &[f32]| match format {
        VectorFormat::Float => Value::Array(vector.iter().copied().map(short).collect()),
        VectorFormat::Base64 => {
            BASE64.encode(&vector.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<u8>>()).into()
        }
    };
    let entry = |(index, vector): (usize, &Vec<f32>)| {
        let embedding = encoded(vector);
        json!({"object": "embedding", "index": index, "embedding": embedding})
    };
    let data: Value = vectors.iter().enumerate().map(entry).collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    json!({"object": "list", "model": model, "data": data, "usage": usage})
}
