//! Damaged metadata is an error, never a panic, and takes no memory that the file does not have.

use super::{Data, Metadata, byte_level, sentence_piece};
use crate::{ChatTemplate, Tokenizer};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SCORES: &str = "tokenizer.ggml.scores";

fn assert_error(metadata: &Metadata, expected: &str) {
    let error = metadata.error();
    assert!(error.contains(expected) && !error.contains('\n') && error.len() < 600, "{error}");
}

#[test]
fn values_of_other_types_are_errors() {
    let other = [Data::U32(7), Data::F32(0.5), Data::Bool(true), Data::Text("x".into()), Data::U8s(vec![3; 9])];
    for metadata in [byte_level("smollm"), sentence_piece()] {
        for (key, _) in &metadata.0 {
            let results = other.clone().map(|data| metadata.clone().set(key, data).tokenizer().is_err());
            assert!(results.iter().filter(|is_error| **is_error).count() >= 4, "{key}: {results:?}");
        }
        for key in ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.add_bos_token"] {
            assert_error(&metadata.clone().set(key, Data::Text("7".into())), key);
        }
    }
}

#[test]
fn missing_values_are_errors() {
    assert_error(&byte_level("smollm").without("tokenizer.ggml.model"), "NOT_FOUND");
    for key in [TOKENS, MERGES] {
        assert_error(&byte_level("smollm").without(key), "NOT_FOUND");
        assert!(byte_level("smollm").set(key, Data::Texts(vec![])).tokenizer().is_err() == (key == TOKENS));
    }
    assert_error(&sentence_piece().without(SCORES), SCORES);
    assert!(byte_level("smollm").without(TYPES).tokenizer().is_ok());
    assert_error(&sentence_piece().without(TYPES), "no token of some byte");
}

#[test]
fn unsupported_models_are_named() {
    assert_error(&byte_level("my-pre\n"), "UNIMPLEMENTED; pre-tokenizer 'my-pre\\n'");
    let bert = byte_level("smollm").set("tokenizer.ggml.model", Data::Text("bert".into()));
    assert_error(&bert, "UNIMPLEMENTED; model 'bert'");
    let long = byte_level("smollm").set("tokenizer.ggml.model", Data::Text("x".repeat(10_000)));
    assert_error(&long, "xxx...");
}

#[test]
fn numbers_out_of_range_are_errors() {
    for name in ["bos", "eos", "eot", "eom"] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        assert_error(&byte_level("smollm").set(&key, Data::U32(1105)), "OUT_OF_RANGE");
        assert_error(&sentence_piece().set(&key, Data::U32(u32::MAX)), "outside of the vocabulary of 1000 tokens");
    }
    assert_error(&sentence_piece().set("tokenizer.ggml.unknown_token_id", Data::U32(1000)), "OUT_OF_RANGE");
    assert_error(&byte_level("smollm").set(TYPES, Data::I32s(vec![-1; 1105])), "unknown type -1");
    assert_error(&byte_level("smollm").set(TYPES, Data::I32s(vec![1; 3])), "3 elements for 1105 tokens");
    assert_error(&sentence_piece().set(SCORES, Data::F32s(vec![0.0; 1001])), "1001 elements for 1000 tokens");
}

#[test]
fn merges_that_name_no_tokens_are_errors() {
    for (merge, expected) in [
        ("he xyz", "merge 0 names 'xyz', which is no token"),
        ("Ġt Ġt", "merge 0 names 'ĠtĠt', which is no token"),
        ("the", "merge 0 is not two tokens"),
        ("", "merge 0 is not two tokens"),
        (" ", "merge 0 is not two tokens"),
        ("h ", "merge 0 is not two tokens"),
    ] {
        assert_error(&byte_level("smollm").set(MERGES, Data::Texts(vec![merge.into()])), expected);
    }
    // A merge of special tokens would make one of a user's text.
    let tokens = ["a", "b", "ab"].map(str::to_owned).to_vec();
    let metadata = byte_level("smollm").set(TOKENS, Data::Texts(tokens)).set(MERGES, Data::Texts(vec!["a b".into()]));
    let control = metadata.clone().set(TYPES, Data::I32s(vec![1, 1, 3])).tokenizer().unwrap();
    assert_eq!((control.encode("ab", false), control.encode("ab", true)), (vec![0, 1], vec![2]));
    assert_eq!(metadata.set(TYPES, Data::I32s(vec![1; 3])).tokenizer().unwrap().encode("ab", false), [2]);
}

#[test]
fn of_equal_merges_the_first_counts() {
    let tokens = ["a", "b", "c", "ab", "bc", "bca"].map(str::to_owned).to_vec();
    let merges = ["a b", "b c", "a b"].map(str::to_owned).to_vec();
    let metadata =
        byte_level("smollm").without(TYPES).set(TOKENS, Data::Texts(tokens)).set(MERGES, Data::Texts(merges));
    assert_eq!(metadata.tokenizer().unwrap().encode("abc", false), [3, 2]);
}

#[test]
fn equal_and_empty_tokens_are_accepted() {
    let tokens = ["a", "", "a", "", "b"].map(str::to_owned).to_vec();
    let metadata =
        byte_level("smollm").without(TYPES).set(TOKENS, Data::Texts(tokens)).set(MERGES, Data::Texts(vec![]));
    let tokenizer = metadata.tokenizer().unwrap();
    // No token contains the byte of `c`.
    assert_eq!(tokenizer.encode("abca", false), [0, 4, 0]);
    assert_eq!(tokenizer.decode(&[0, 1, 2, 3, 4]), "aab");
    let control = metadata.set(TYPES, Data::I32s(vec![3; 5])).tokenizer().unwrap();
    assert_eq!(control.encode("ab", true), [0, 4]);
}

#[test]
fn huge_counts_are_errors() {
    for count in [1 << 21, u64::MAX] {
        for key in [TOKENS, MERGES] {
            assert!(byte_level("smollm").set(key, Data::Count(count)).file().is_err());
        }
    }
    let bytes = Data::U8s(vec![0; 3 << 20]);
    for key in [TOKENS, TYPES, MERGES] {
        assert_error(&byte_level("smollm").set(key, bytes.clone()), "RESOURCE_EXHAUSTED");
    }
    assert_error(&sentence_piece().set(SCORES, bytes), "RESOURCE_EXHAUSTED");
    let long = byte_level("smollm").without(TYPES).set(MERGES, Data::Texts(vec![]));
    let long = long.set(TOKENS, Data::Texts(["x".repeat(1 << 20), "y".repeat(8), "z".into()].to_vec()));
    assert!(long.tokenizer().is_ok());
    assert_error(&long.set(TYPES, Data::I32s(vec![3; 3])), "special tokens have 1048585 bytes");
}

#[test]
fn scores_that_are_no_numbers_order_tokens_all_the_same() {
    for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
        let tokenizer = sentence_piece().set(SCORES, Data::F32s(vec![score; 1000])).tokenizer().unwrap();
        let text = "The module reads the file 🤗.";
        assert_eq!(tokenizer.decode(&tokenizer.encode(text, true)), text);
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let mut random = oorandom::Rand32::new(7);
    for metadata in [byte_level("llama-bpe"), sentence_piece()] {
        let template = "{% for message in messages %}{{ message.role + message.content | trim }}{% endfor %}";
        let whole = metadata.set("tokenizer.chat_template", Data::Text(template.into())).bytes();
        for round in 0..1500 {
            let mut bytes = whole.clone();
            for _ in 0..1 + round % 4 {
                let at = random.rand_range(0..bytes.len() as u32) as usize;
                bytes[at] = random.rand_u32() as u8;
            }
            let contents = std::sync::Arc::new(incarnate_bytecode::Contents::from_vec(bytes));
            let Ok(file) = incarnate_gguf::GgufFile::read(contents) else { continue };
            if let Ok(tokenizer) = Tokenizer::from_gguf(&file) {
                let tokens = tokenizer.encode("<s>The file's 日本\n", round % 2 == 0);
                let _ = tokenizer.decode(&tokens);
            }
            let _ = ChatTemplate::from_gguf(&file).map(|template| template.render(&[], true));
        }
    }
}
