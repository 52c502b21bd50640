//! Tokenizers of `tokenizer.json`, whole and damaged.

use std::fs;
use std::path::Path;

use incarnate_bytecode::Result;
use incarnate_gguf::ModelFolder;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::tokenizer::unescaped;
use crate::{ChatTemplate, Message, Tokenizer};

/// Name of the tokenizer, text, tokens, and the text of the tokens, by the Python package tokenizers (generate-json.py).
const CASES: &str = include_str!("../../tests/json-cases.txt");

/// A folder with files of JSON.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap()).with("config.json", &json!({}))
    }

    fn with(self, name: &str, value: &Value) -> Files {
        self.with_text(name, &value.to_string())
    }

    fn with_text(self, name: &str, text: &str) -> Files {
        fs::write(self.0.path().join(name), text).unwrap();
        self
    }

    fn folder(&self) -> ModelFolder {
        ModelFolder::at(self.0.path()).unwrap()
    }

    fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::from_folder(&self.folder())
    }
}

fn text_of(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tokenizers/{name}.json"));
    fs::read_to_string(path).unwrap()
}

fn value_of(name: &str) -> Value {
    serde_json::from_str(&text_of(name)).unwrap()
}

fn files(name: &str) -> Files {
    Files::new().with_text("tokenizer.json", &text_of(name))
}

fn tokenizer(name: &str) -> Tokenizer {
    files(name).tokenizer().unwrap()
}

#[test]
fn tokens_are_those_of_the_python_package() {
    let mut last: Option<(&str, Tokenizer)> = None;
    let mut count = 0;
    for line in CASES.lines() {
        let [name, text, tokens, decoded] = line.splitn(4, '\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if last.as_ref().is_none_or(|last| last.0 != name) {
            last = Some((name, tokenizer(name)));
            count += 1;
        }
        let tokenizer = &last.as_ref().unwrap().1;
        let text = unescaped(text);
        let expected: Vec<u32> = tokens.split_whitespace().map(|token| token.parse().unwrap()).collect();
        assert_eq!(tokenizer.encode(&text, true), expected, "{name}: {text:?}");
        // The package removes a space at the start alone, and not those that are added behind special tokens.
        if !["<s>", "<tool>", "<rest>"].iter().any(|token| text.contains(token)) {
            assert_eq!(tokenizer.decode(&expected), unescaped(decoded), "{name}: {text:?}");
        }
        let escaped = tokenizer.escape_special(&text);
        assert_eq!(tokenizer.encode(&escaped, true), tokenizer.encode(&text, false), "{name}: {text:?}");
        // The tokens `<s>`, `</s>` and `<rest>`.
        assert!(!tokenizer.encode(&escaped, true).iter().any(|token| [1, 2].contains(token)), "{name}: {text:?}");
    }
    assert_eq!(count, 7);
}

#[test]
fn tokens_that_begin_and_end_texts_are_those_of_the_files() {
    let llama = tokenizer("llama3");
    assert_eq!((llama.begin(), llama.add_bos(), llama.end_tokens()), (Some(1), true, &[][..]));
    assert_eq!(llama.encode_first("<s>")[0], 1);
    assert!(llama.encode_first("<s>").len() > 2, "the text has no special token");
    let config = json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}});
    let with = |name: &str, value: Value| files("qwen2").with("tokenizer_config.json", &config).with(name, &value);
    let qwen = with("generation_config.json", json!({"eos_token_id": [7, 9]})).tokenizer().unwrap();
    assert_eq!((qwen.begin(), qwen.add_bos(), qwen.end_tokens()), (Some(1), false, &[2, 7, 9][..]));
    let within = with("config.json", json!({"text_config": {"eos_token_id": 6}})).tokenizer().unwrap();
    assert!(within.end_tokens().contains(&6));
    let other =
        with("config.json", json!({"eos_token_id": 5, "text_config": {"eos_token_id": 6}})).tokenizer().unwrap();
    assert_eq!(other.end_tokens(), [2, 5]);
    for (value, words) in
        [(json!(-1), "'eos_token_id' is -1"), (json!([100_000]), "100000"), (json!("x"), "outside of the vocabulary")]
    {
        let error = with("generation_config.json", json!({"eos_token_id": value})).tokenizer().unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("generation_config.json"), "{error}");
    }
}

#[test]
fn chat_templates_are_those_of_the_files() {
    let rendered =
        |files: &Files| ChatTemplate::from_folder(&files.folder())?.render(&[Message::new("user", "hi")], true);
    let source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
    let config =
        |template: Value| json!({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": template});
    let files = |template: Value| Files::new().with("tokenizer_config.json", &config(template));
    assert_eq!(rendered(&files(json!(source))).unwrap(), "<s>hi</s>");
    let several = json!([{"name": "tool_use", "template": "no"}, {"name": "default", "template": source}]);
    assert_eq!(rendered(&files(several)).unwrap(), "<s>hi</s>");
    let file = files(json!("old")).with_text("chat_template.jinja", "new {{ eos_token }}");
    assert_eq!(rendered(&file).unwrap(), "new </s>");
    for none in [json!(null), json!([]), json!({"default": source})] {
        let error = rendered(&files(none)).unwrap_err().to_string();
        assert!(error.starts_with("NOT_FOUND") && error.contains("chat_template.jinja"), "{error}");
    }
    let damaged = Files::new().with_text("tokenizer_config.json", "[");
    assert!(rendered(&damaged).unwrap_err().to_string().contains("tokenizer_config.json"));
}

/// Replaces the value at a pointer.
fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    *value.pointer_mut(pointer).unwrap() = new;
    value
}

#[test]
fn what_is_not_supported_is_refused_by_its_name() {
    let (qwen, llama) = (value_of("qwen2"), value_of("llama2"));
    let split = |pattern: Value| json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
    let sequence = |count: usize| json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFC"}); count]});
    let single =
        |pieces: Value| json!({"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": {}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    for (value, words) in [
        (with(qwen.clone(), "/model/type", json!("Unigram")), "model 'Unigram'; supported is BPE"),
        (
            with(qwen.clone(), "/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": ""})),
            "'Precompiled'",
        ),
        (with(qwen.clone(), "/normalizer", json!({"kind": "NFC"})), "no 'type'"),
        (with(qwen.clone(), "/normalizer", json!({"type": "Sequence"})), "no 'normalizers'"),
        (with(qwen.clone(), "/normalizer", sequence(40)), "more than 32 steps"),
        (
            with(qwen.clone(), "/pre_tokenizer", json!({"type": "Whitespace"})),
            "pre-tokenizer: UNIMPLEMENTED; 'Whitespace'",
        ),
        (with(qwen.clone(), "/pre_tokenizer", split(json!({"Regex": "("}))), "Parsing error"),
        (with(qwen.clone(), "/pre_tokenizer", split(json!({"String": ""}))), "a pattern is empty"),
        (with(qwen.clone(), "/pre_tokenizer", split(json!({"Regex": "a".repeat(10_000)}))), "10000 bytes"),
        (
            with(qwen.clone(), "/pre_tokenizer", split(json!({"Regex": r"((\p{L}{500}){500}){500}"}))),
            "INVALID_ARGUMENT",
        ),
        (
            with(qwen.clone(), "/normalizer", json!({"type": "Prepend", "prepend": "x".repeat(17)})),
            "'prepend' has 17 bytes",
        ),
        (
            with(
                qwen.clone(),
                "/pre_tokenizer",
                json!({"type": "Sequence", "pretokenizers": vec![json!({"type": "ByteLevel"}); 2]}),
            ),
            "several steps 'ByteLevel'",
        ),
        (with(qwen.clone(), "/decoder", json!(null)), "neither bytes nor SentencePiece's spaces"),
        (with(qwen.clone(), "/decoder", json!({"type": "WordPiece"})), "'WordPiece'"),
        (with(llama.clone(), "/decoder/decoders/0/content", json!("_")), "'Replace' of this form"),
        (
            with(llama.clone(), "/post_processor", single(json!([text, token("</s>")]))),
            "'TemplateProcessing' of this form",
        ),
        (with(llama.clone(), "/post_processor", single(json!([token("<x>"), text]))), "'<x>' is no token"),
        (with(llama.clone(), "/post_processor", json!({"type": "Bert"})), "'Bert'"),
        (with(llama.clone(), "/added_tokens/0/single_word", json!(true)), "'single_word' of the token '<unk>'"),
        (with(llama.clone(), "/added_tokens/0/id", json!(1u32 << 30)), "RESOURCE_EXHAUSTED; 1073741825 tokens"),
        (with(llama.clone(), "/model/dropout", json!(0.1)), "'dropout'"),
        (with(llama.clone(), "/model/end_of_word_suffix", json!("</w>")), "'end_of_word_suffix'"),
        (with(llama.clone(), "/model/vocab/<unk>", json!(1)), "two tokens have the number 1"),
        (with(llama.clone(), "/model/vocab/<unk>", json!(-1)), "invalid value"),
        (with(llama.clone(), "/model/merges", json!([["h", "x-y"]])), "merge 0 names 'x-y', which is no token"),
        (with(llama.clone(), "/model/merges", json!(["h q"])), "merge 0 names 'hq', which is no token"),
        (with(llama.clone(), "/model/merges", json!(["hq"])), "merge 0 is not two tokens"),
        (with(llama, "/model", json!({"type": "BPE"})), "missing field"),
    ] {
        let error = Files::new().with("tokenizer.json", &value).tokenizer().unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n') && error.len() < 600, "{words}: {error}");
    }
    let error = Files::new().tokenizer().unwrap_err().to_string();
    assert!(error.contains("there is no tokenizer.json"), "{error}");
}

#[test]
fn patterns_of_any_kind_split_texts_without_a_panic() {
    let behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
    for pattern in ["a*", "(?=l)", "|", "$", "^", r"\b", "(?!x)", r"(\w)\1", "(a+)+$", "((a|a)*)*b", "(?s)."] {
        for (index, behavior) in behaviors.iter().enumerate() {
            let invert = index % 2 == 0;
            let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert});
            let steps = json!({"type": "Sequence", "pretokenizers": [split, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true}]});
            let value = with(value_of("qwen2"), "/pre_tokenizer", steps);
            let tokenizer = Files::new().with("tokenizer.json", &value).tokenizer().unwrap();
            for text in ["Hello all 日本", "", "é", &"a".repeat(40)] {
                let tokens = tokenizer.encode(text, true);
                assert!(
                    *behavior == "Removed" || tokenizer.decode(&tokens).contains(text),
                    "{pattern} {behavior} {text}"
                );
            }
        }
    }
}

#[test]
fn normalizers_that_make_texts_much_longer_are_bounded() {
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"});
    let value = with(value_of("qwen2"), "/normalizer", json!({"type": "Sequence", "normalizers": vec![double; 30]}));
    let tokenizer = Files::new().with("tokenizer.json", &value).tokenizer().unwrap();
    // The tokens of the bytes as they are.
    assert_eq!(tokenizer.decode(&tokenizer.encode("banana", false)), "banana");
    assert_eq!(tokenizer.encode("banana", false).len(), 6);
}

#[test]
fn special_tokens_are_no_tokens_of_text() {
    // A word that is a token, and merges that lead to one.
    let value = with(value_of("llama3"), "/added_tokens/0/content", json!("Ġt"));
    let value = with(value, "/added_tokens/0/id", json!(value_of("llama3")["model"]["vocab"]["Ġt"]));
    let number = u32::try_from(value["added_tokens"][0]["id"].as_u64().unwrap()).unwrap();
    let tokenizer = Files::new().with("tokenizer.json", &value).tokenizer().unwrap();
    assert!(!tokenizer.encode(" t the", false).contains(&number));
}

#[test]
fn damaged_bytes_never_panic() {
    let mut random = oorandom::Rand32::new(11);
    for name in ["llama3", "metaspace", "gemma3"] {
        let whole = text_of(name).into_bytes();
        let files = Files::new();
        for round in 0..400 {
            let mut bytes = whole.clone();
            // The parts before the vocabulary are short.
            let end = if round % 2 == 0 { bytes.len() } else { 1500 };
            for _ in 0..1 + round % 4 {
                let at = random.rand_range(0..end as u32) as usize;
                bytes[at] = random.rand_u32() as u8;
            }
            fs::write(files.0.path().join("tokenizer.json"), &bytes).unwrap();
            if let Ok(tokenizer) = files.tokenizer() {
                let tokens = tokenizer.encode("<s>The file's 日本\n", round % 2 == 0);
                let _ = tokenizer.decode(&tokens);
            }
        }
    }
}
