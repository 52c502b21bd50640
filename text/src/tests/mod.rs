//! Tests of the crate, and the files that they read.

mod constraint;
mod damaged;
mod embedding;
mod generation;
mod json;
mod probabilities;
mod sampling;
mod stop;
mod template;
mod tokenizer;
#[cfg(target_family = "wasm")]
mod without_threads;

use std::sync::Arc;

use incarnate_bytecode::{Contents, Result};
use incarnate_gguf::GgufFile;

use crate::Tokenizer;

/// A value of metadata, as tests write it.
#[derive(Clone, Debug)]
enum Data {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    /// An array of bytes.
    U8s(Vec<u8>),
    /// An array of texts that says to have so many elements.
    Count(u64),
}

/// The metadata of a file.
#[derive(Clone, Debug)]
struct Metadata(Vec<(String, Data)>);

impl Metadata {
    fn set(mut self, key: &str, data: Data) -> Metadata {
        self.0.retain(|(name, _)| name != key);
        self.0.push((key.to_owned(), data));
        self
    }

    fn without(mut self, key: &str) -> Metadata {
        self.0.retain(|(name, _)| name != key);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend((self.0.len() as u64).to_le_bytes());
        for (key, data) in &self.0 {
            write_text(&mut bytes, key);
            write_data(&mut bytes, data);
        }
        bytes
    }

    fn file(&self) -> Result<GgufFile> {
        GgufFile::read(Arc::new(Contents::from_vec(self.bytes())))
    }

    fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::from_gguf(&self.file()?)
    }

    fn error(&self) -> String {
        self.tokenizer().unwrap_err().to_string()
    }
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Writes the kind of a value, and the value.
fn write_data(bytes: &mut Vec<u8>, data: &Data) {
    let mut array = |kind: u32, count: usize| {
        bytes.extend([&9u32.to_le_bytes()[..], &kind.to_le_bytes(), &(count as u64).to_le_bytes()].concat());
    };
    match data {
        Data::U32(number) => bytes.extend([4, *number].map(u32::to_le_bytes).concat()),
        Data::F32(number) => bytes.extend([&6u32.to_le_bytes()[..], &number.to_le_bytes()].concat()),
        Data::Bool(flag) => bytes.extend([&7u32.to_le_bytes()[..], &[u8::from(*flag)]].concat()),
        Data::Text(text) => {
            bytes.extend(8u32.to_le_bytes());
            write_text(bytes, text);
        }
        Data::Texts(texts) => {
            array(8, texts.len());
            texts.iter().for_each(|text| write_text(bytes, text));
        }
        Data::I32s(numbers) => {
            array(5, numbers.len());
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        Data::F32s(numbers) => {
            array(6, numbers.len());
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        Data::U8s(numbers) => {
            array(0, numbers.len());
            bytes.extend(numbers);
        }
        Data::Count(count) => array(8, usize::try_from(*count).unwrap_or(usize::MAX)),
    }
}

/// The merges of the small vocabulary of bytes.
const MERGES: &str = include_str!("../../tests/merges.txt");
/// The tokens of the small vocabulary of SentencePiece: score, type, text.
const PIECES: &str = include_str!("../../tests/pieces.txt");
const SPECIAL: [&str; 4] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"];

/// The character that stands for a byte in the model `gpt2`.
fn letter(byte: u8) -> char {
    let is_direct = |byte: &u8| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    match is_direct(&byte) {
        true => char::from(byte),
        false => char::from_u32(256 + (0..byte).filter(|byte| !is_direct(byte)).count() as u32).unwrap(),
    }
}

/// A model `gpt2`, whose tokens are those of generate.py.
fn byte_level(pre: &str) -> Metadata {
    let mut tokens: Vec<String> = SPECIAL.map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|byte| letter(byte).to_string()));
    tokens.extend(MERGES.lines().map(|line| line.replace(' ', "")));
    tokens.push("Ġunreachable".to_owned());
    let mut types = vec![1; tokens.len()];
    types[..4].copy_from_slice(&[3, 3, 3, 4]);
    Metadata(Vec::new())
        .set("tokenizer.ggml.model", Data::Text("gpt2".to_owned()))
        .set("tokenizer.ggml.pre", Data::Text(pre.to_owned()))
        .set("tokenizer.ggml.tokens", Data::Texts(tokens))
        .set("tokenizer.ggml.token_type", Data::I32s(types))
        .set("tokenizer.ggml.merges", Data::Texts(MERGES.lines().map(str::to_owned).collect()))
        .set("tokenizer.ggml.bos_token_id", Data::U32(1))
        .set("tokenizer.ggml.eos_token_id", Data::U32(2))
}

/// A model `llama`.
fn sentence_piece() -> Metadata {
    let (mut tokens, mut types, mut scores) = (Vec::new(), Vec::new(), Vec::new());
    for line in PIECES.lines() {
        let mut fields = line.splitn(3, ' ');
        scores.push(fields.next().unwrap().parse().unwrap());
        types.push(fields.next().unwrap().parse().unwrap());
        tokens.push(fields.next().unwrap().to_owned());
    }
    Metadata(Vec::new())
        .set("tokenizer.ggml.model", Data::Text("llama".to_owned()))
        .set("tokenizer.ggml.tokens", Data::Texts(tokens))
        .set("tokenizer.ggml.token_type", Data::I32s(types))
        .set("tokenizer.ggml.scores", Data::F32s(scores))
}
