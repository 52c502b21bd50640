//! Embeddings of a model whose vectors are known.

use incarnate_bytecode::{Error, Result};

use crate::generation::{Conversation, LanguageModel};
use crate::{Embedding, Pooling};

/// The vector of a token is its number, and its position.
struct Numbers {
    pooling: Option<Pooling>,
    reads: Vec<(usize, usize, usize)>,
    fails: bool,
}

impl LanguageModel for Numbers {
    fn context(&self) -> usize {
        600
    }

    fn logits(&mut self, _: usize, _: &[u32], _: usize) -> Result<&mut [f32]> {
        Err(Error::internal("no logits are needed"))
    }

    fn pooling(&self) -> Option<Pooling> {
        self.pooling
    }

    fn embed(&mut self, slot: usize, tokens: &[u32], position: usize) -> Result<Vec<f32>> {
        if self.fails {
            return Err(Error::resource_exhausted("no memory"));
        }
        self.reads.push((slot, position, tokens.len()));
        let vectors = tokens.iter().zip(position..).map(|(token, position)| [*token as f32, position as f32]);
        Ok(match self.pooling {
            Some(Pooling::Mean) => vectors.fold(vec![0.0; 2], |sum, one| vec![sum[0] + one[0], sum[1] + one[1]]),
            _ => vectors.last().unwrap().to_vec(),
        })
    }
}

fn model(pooling: impl Into<Option<Pooling>>) -> Numbers {
    Numbers { pooling: pooling.into(), reads: Vec::new(), fails: false }
}

fn embed(model: &mut Numbers, conversation: &mut Conversation, tokens: Vec<u32>) -> Result<Vec<f32>> {
    let mut embedding = Embedding::new(model, tokens)?;
    loop {
        if let Some(vector) = embedding.step(model, conversation)? {
            return Ok(vector);
        }
    }
}

#[test]
fn texts_are_read_in_parts_and_pooled() {
    for (pooling, tokens, expected) in [
        (Pooling::Mean, vec![4], [1.0, 0.0]),
        (Pooling::Mean, vec![1, 1, 1, 6], [0.83205, 0.5547]),
        (Pooling::Mean, vec![2; 600], [0.006_677_8, 0.999_977_7]),
        (Pooling::Last, vec![0; 599], [0.0, 1.0]),
        (Pooling::Last, vec![7, 7, 7, 4], [0.8, 0.6]),
    ] {
        let (mut model, mut conversation) = (model(pooling), Conversation::in_slot(3));
        for _ in 0..2 {
            let vector = embed(&mut model, &mut conversation, tokens.clone()).unwrap();
            let is_near = vector.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-5);
            assert!(is_near && vector.len() == 2, "{vector:?} instead of {expected:?}");
        }
        assert_eq!(conversation.tokens(), tokens);
        if tokens.len() == 600 {
            let reads = [(3, 0, 128), (3, 128, 128), (3, 256, 128), (3, 384, 128), (3, 512, 88)];
            assert_eq!(model.reads, reads.repeat(2));
        }
    }
}

#[test]
fn what_has_no_embedding_is_an_error() {
    let mut conversation = Conversation::new();
    for (mut model, tokens, why) in [
        (model(None), vec![1], "no embeddings"),
        (model(Pooling::Mean), vec![], "0 tokens"),
        (model(Pooling::Mean), vec![1; 601], "601 tokens for a context of 600"),
        (model(Pooling::Last), vec![0], "no direction"),
        (Numbers { fails: true, ..model(Pooling::Last) }, vec![1], "no memory"),
    ] {
        let error = embed(&mut model, &mut conversation, tokens).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // The text that was read last.
    assert_eq!(conversation.tokens(), [] as [u32; 0]);
}
