//! Embeddings: the vector of a text.

use incarnate_bytecode::{Error, Result};
use incarnate_gguf::Pooling;

use crate::generation::{Conversation, LanguageModel, READ_AT_A_TIME};

/// The embedding of a text, which is computed step by step: other conversations can take turns with it.
#[derive(Clone, Debug)]
pub struct Embedding {
    tokens: Vec<u32>,
    pooling: Pooling,
    /// Tokens that the model has read.
    read: usize,
    /// The sum of their vectors, or the last one.
    pooled: Vec<f32>,
}

impl Embedding {
    /// Begins the embedding of a text for a model.
    ///
    /// # Errors
    /// UNIMPLEMENTED for a model without embeddings; INVALID_ARGUMENT for no tokens, and for more than the context holds.
    pub fn new(model: &impl LanguageModel, tokens: Vec<u32>) -> Result<Embedding> {
        let pooling = model.pooling().ok_or_else(|| Error::unimplemented("the model has no embeddings"))?;
        check_text(tokens.len(), model.context())?;
        Ok(Embedding { tokens, pooling, read: 0, pooled: Vec::new() })
    }

    /// Has the model read a part of the text. Returns the embedding, of length 1, behind the last part.
    ///
    /// The text takes the place of the conversation, whose tokens are those of the text then.
    ///
    /// # Errors
    /// Errors of the model; INTERNAL for a vector without a direction, such as one with a NaN.
    pub fn step(
        &mut self,
        model: &mut impl LanguageModel,
        conversation: &mut Conversation,
    ) -> Result<Option<Vec<f32>>> {
        conversation.tokens.truncate(self.read);
        let rest = self.tokens.get(self.read..).unwrap_or_default();
        let part = rest.get(..READ_AT_A_TIME).unwrap_or(rest);
        let vector = model.embed(conversation.slot, part, self.read)?;
        conversation.tokens.extend_from_slice(part);
        self.read += part.len();
        if self.pooling == Pooling::Last || self.pooled.is_empty() {
            self.pooled = vector;
        } else {
            self.pooled.iter_mut().zip(vector).for_each(|(sum, one)| *sum += one);
        }
        if self.read < self.tokens.len() {
            return Ok(None);
        }
        // The mean has the direction of the sum.
        normalised(&self.pooled).map(Some)
    }
}

fn normalised(vector: &[f32]) -> Result<Vec<f32>> {
    let length = vector.iter().map(|element| f64::from(*element).powi(2)).sum::<f64>().sqrt();
    match length.is_finite() && length > 0.0 {
        true => Ok(vector.iter().map(|element| (f64::from(*element) / length) as f32).collect()),
        false => Err(Error::internal("the embedding has no direction")),
    }
}

/// Checks the number of tokens of a text for a model of `context` positions.
///
/// # Errors
/// INVALID_ARGUMENT for none, and for more than the context holds.
pub fn check_text(count: usize, context: usize) -> Result<()> {
    match (1..=context).contains(&count) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!("a text of {count} tokens for a context of {context}"))),
    }
}
