//! Texts to vectors.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use incarnate::runtime::parameters::FileAccess;
use incarnate::{Function, Session, Tensor};
use tokenizers::{Encoding, Tokenizer, TruncationParams};

/// Tokens that the model sees of a text, as in the Python package.
const MAXIMUM: usize = 256;
/// Elements of a vector.
const WIDTH: usize = 384;

/// all-MiniLM-L6-v2.
pub struct Embedder {
    session: Session,
    tokenizer: Tokenizer,
    /// The model's functions by the tokens and sentences that they take: `embed_SENTENCESxTOKENS`.
    functions: BTreeMap<(usize, usize), Function>,
}

impl Embedder {
    /// Opens a folder that `prepare` wrote. The weights are used in place, in the mapped file.
    pub fn open(folder: &Path, device: &str) -> Result<Embedder, Box<dyn Error>> {
        let session = Session::builder()
            .device(device)
            .parameter_file("model", folder.join("weights.safetensors"), FileAccess::Map)
            .module_file(folder.join("model.vmfb"))
            .build()
            .map_err(|error| format!("{error}\n(./prepare creates the folder {})", folder.display()))?;
        let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|error| error.to_string())?;
        let truncation = TruncationParams { max_length: MAXIMUM, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?.with_padding(None);
        let mut functions = BTreeMap::new();
        for function in session.functions()? {
            let shape = function.name().strip_prefix("embed_").and_then(|shape| shape.split_once('x'));
            let Some((sentences, tokens)) = shape else { continue };
            let Ok(key) = tokens.parse().and_then(|tokens| Ok((tokens, sentences.parse()?))) else { continue };
            functions.insert(key, function);
        }
        Ok(Embedder { session, tokenizer, functions })
    }

    /// Returns a vector of length 1 for each text.
    pub fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
        let inputs: Vec<&str> = texts.iter().map(String::as_str).collect();
        let encodings = self.tokenizer.encode_batch(inputs, true).map_err(|error| error.to_string())?;
        let mut vectors = vec![Vec::new(); texts.len()];
        let mut waiting: Vec<usize> = (0..texts.len()).collect();
        // Texts of about the same length go through the model together.
        waiting.sort_by_key(|&text| encodings[text].len());
        let mut waiting = waiting.as_slice();
        while let Some(&shortest) = waiting.first() {
            let (count, tokens, function) = self.choose(&encodings, waiting).ok_or("the model has no such function")?;
            let (batch, rest) = waiting.split_at(count);
            debug_assert!(encodings[shortest].len() <= tokens);
            for (&text, vector) in batch.iter().zip(self.call(function, &encodings, batch, tokens)?.chunks(WIDTH)) {
                vectors[text] = vector.to_vec();
            }
            waiting = rest;
        }
        Ok(vectors)
    }

    /// Returns how many of the waiting texts the next call takes, and its function: the one for most texts whose tokens are
    /// enough for all of them.
    fn choose(&self, encodings: &[Encoding], waiting: &[usize]) -> Option<(usize, usize, &Function)> {
        let fits = |&(&(tokens, sentences), _): &(&(usize, usize), &Function)| {
            let last = waiting.get(sentences - 1);
            last.is_some_and(|&text| encodings[text].len() <= tokens)
        };
        let most = self.functions.iter().filter(fits).map(|(key, _)| key.1).max()?;
        let (&(tokens, count), function) = self.functions.iter().filter(fits).find(|(key, _)| key.1 == most)?;
        Some((count, tokens, function))
    }

    fn call(
        &self,
        function: &Function,
        encodings: &[Encoding],
        batch: &[usize],
        tokens: usize,
    ) -> Result<Vec<f32>, Box<dyn Error>> {
        let (mut ids, mut mask) = (vec![0i64; batch.len() * tokens], vec![0i64; batch.len() * tokens]);
        for (row, &text) in batch.iter().enumerate() {
            let row = row * tokens;
            for (column, &id) in encodings[text].get_ids().iter().enumerate() {
                ids[row + column] = i64::from(id);
                mask[row + column] = 1;
            }
        }
        let shape = [batch.len() as u64, tokens as u64];
        let ids = Tensor::new(&self.session, &shape, &ids)?;
        let mask = Tensor::new(&self.session, &shape, &mask)?;
        let vectors: Tensor<f32> = function.call((&ids, &mask))?;
        Ok(vectors.to_vec()?)
    }
}
