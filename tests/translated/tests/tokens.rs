//! The language model of the tests generates the same tokens from the same logits, bit for bit, on every processor; so it does where its products
//! are those of integers. That the interpreter computes the same bits is a test of `models`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use incarnate::{Session, Tensor};
use incarnate_runtime::parameters::FileAccess;
use incarnate_translated_tests::MODULES;

const LAST: i32 = 21;
const PROMPT: [i32; 5] = [7, 3, 44, 0, LAST];

/// What x86-64 computes.
struct Expected {
    /// The module, in `tests/models`.
    module: &'static str,
    /// The tokens behind the prompt, each the likeliest one but for the token before.
    tokens: [i32; 24],
    /// The hash of the bits of all logits.
    logits: u64,
}

const FLOATS: Expected = Expected {
    module: "language_model/vmvx.vmfb",
    tokens: [36, 1, 42, 1, 42, 8, 18, 8, 18, 8, 3, 39, 31, 37, 21, 22, 18, 2, 37, 18, 2, 37, 39, 31],
    logits: 0x0690_1d30_c831_4150,
};

const INTEGERS: Expected = Expected {
    module: "language_model_integers/vmvx.vmfb",
    tokens: [36, 1, 42, 1, 42, 8, 18, 8, 18, 8, 3, 39, 31, 37, 21, 22, 18, 2, 37, 18, 2, 37, 39, 31],
    logits: 0xfe6b_0df5_1238_6612,
};

/// The hash FNV-1a of the bits of logits.
#[derive(Debug)]
struct Hash(u64);

impl Hash {
    /// Adds the logits behind a token, and returns the likeliest other token: with random weights, a token follows itself.
    fn add(&mut self, token: i32, logits: &Tensor<f32>) -> i32 {
        let logits = logits.to_vec().unwrap();
        for byte in logits.iter().flat_map(|logit| logit.to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let others = (0..).zip(&logits).filter(|other| other.0 != token);
        others.max_by(|one, other| one.1.total_cmp(other.1)).unwrap().0
    }
}

#[test]
fn a_language_model_generates_the_tokens_of_every_processor() {
    check(&FLOATS);
}

#[test]
fn a_language_model_with_products_of_integers_generates_the_tokens_of_every_processor() {
    check(&INTEGERS);
}

/// Generates tokens in one slot, then reads the last one together with a token of the other slot.
fn check(expected: &Expected) {
    let name = expected.module;
    let (_, module) = MODULES.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("{name} is not translated"));
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/language_model/model.gguf");
    let session = Session::builder().device("local-sync").module(module());
    let session = session.parameter_file("model", weights, FileAccess::Map).build().unwrap();
    let [prefill, decode, decode_batch] =
        ["prefill", "decode", "decode_batch"].map(|name| session.function(name).unwrap());
    let prompt = Tensor::new(&session, &[PROMPT.len() as u64], &PROMPT).unwrap();
    let (mut hash, mut token) = (Hash(0xcbf2_9ce4_8422_2325), 0);
    for slot in [1, 0] {
        token = hash.add(LAST, &prefill.call((&prompt, 0, slot)).unwrap());
    }
    let (mut tokens, mut position) = (vec![token], PROMPT.len() as i32);
    while tokens.len() < expected.tokens.len() {
        token = hash.add(token, &decode.call((token, position, 0)).unwrap());
        tokens.push(token);
        position += 1;
    }
    let pair = Tensor::new(&session, &[2], &[token, PROMPT[0]]).unwrap();
    hash.add(token, &decode_batch.call((&pair, position, PROMPT.len() as i32, 0, 1)).unwrap());
    assert_eq!((tokens, hash.0), (expected.tokens.to_vec(), expected.logits));
}
