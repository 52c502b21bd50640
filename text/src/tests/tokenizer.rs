//! Tokens of texts, and texts of tokens.

use std::collections::HashMap;

use super::{Data, byte_level, sentence_piece};
use crate::Tokenizer;

/// Name of the pre-tokenizer or the model, text, and tokens, by other implementations (generate.py).
const CASES: &str = include_str!("../../tests/cases.txt");

fn tokenizer(name: &str) -> Tokenizer {
    match name {
        "llama" => sentence_piece().tokenizer().unwrap(),
        pre => byte_level(pre).tokenizer().unwrap(),
    }
}

pub(super) fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let mut unescaped = String::new();
    while let Some(character) = characters.next() {
        unescaped.push(match character {
            '\\' => match characters.next().unwrap() {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            },
            other => other,
        });
    }
    unescaped
}

#[test]
fn tokens_are_those_of_other_implementations() {
    let mut tokenizers = HashMap::new();
    for line in CASES.lines() {
        let [name, text, tokens] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let tokenizer = tokenizers.entry(name).or_insert_with(|| tokenizer(name));
        let text = unescaped(text);
        let expected: Vec<u32> = tokens.split(' ').map(|token| token.parse().unwrap()).collect();
        assert_eq!(tokenizer.encode(&text, false), expected, "{name}: {text:?}");
        assert_eq!(tokenizer.decode(&expected), text, "{name}");
        // No text of the cases depends on special tokens but those that contain one.
        let has_special = text.contains("<|im_start|>") || text.contains("<tool>");
        assert_eq!(tokenizer.encode(&text, true) == expected, !has_special || name == "llama", "{name}: {text:?}");
    }
    assert_eq!(tokenizers.len(), 9);
}

#[test]
fn special_tokens_are_recognised_only_where_asked() {
    let tokenizer = tokenizer("smollm");
    let plain = |text: &str| tokenizer.encode(text, false);
    let text = "<|im_start|>user\nHello<tool><|im_end|>\n";
    let expected = [vec![1], plain("user\nHello"), vec![3, 2], plain("\n")].concat();
    assert_eq!(tokenizer.encode(text, true), expected);
    assert_eq!(tokenizer.decode(&expected), "user\nHello<tool>\n");
    assert!(plain(text).iter().all(|token| *token > 3));
    assert_eq!(tokenizer.decode(&plain(text)), text);
}

#[test]
fn escaped_text_has_no_special_tokens() {
    for name in ["smollm", "llama-bpe", "llama"] {
        let tokenizer = tokenizer(name);
        for text in ["Hello", "<|im_end|>", "a<s><tool></s><|im_start|>b", "<<tool>tool>", ""] {
            let escaped = tokenizer.escape_special(text);
            assert_eq!(tokenizer.encode(&escaped, true), tokenizer.encode(text, false), "{name}: {text:?}");
        }
    }
    let special = [vec![3; 2], vec![1; 1000]].concat();
    let tokens =
        ["<a>", "a>"].map(str::to_owned).into_iter().chain((0..1000).map(|number| format!("{number}"))).collect();
    let metadata = byte_level("gpt-2").set("tokenizer.ggml.tokens", Data::Texts(tokens));
    let metadata = metadata.set("tokenizer.ggml.merges", Data::Texts(vec![]));
    let tokenizer = metadata.set("tokenizer.ggml.token_type", Data::I32s(special)).tokenizer().unwrap();
    assert!(tokenizer.encode(&tokenizer.escape_special("<a><a>"), true).is_empty());
    assert_eq!(tokenizer.encode("<a>a>", true), [0, 1]);
}

#[test]
fn spaces_are_added_in_front_of_text_and_behind_special_tokens() {
    let llama = tokenizer("llama");
    let plain = |text: &str| llama.encode(text, false);
    let tokens = llama.encode("Hello<s>Hello<tool> Hello", true);
    assert_eq!(tokens, [plain("Hello"), vec![1], plain("Hello"), vec![4], plain(" Hello")].concat());
    assert_eq!(llama.decode(&tokens), "HelloHello<tool> Hello");
    let mut decoder = llama.decoder();
    assert_eq!(plain("Hello").iter().map(|token| decoder.push(*token)).collect::<String>(), " Hello");

    let bare = sentence_piece().set("tokenizer.ggml.add_space_prefix", Data::Bool(false)).tokenizer().unwrap();
    assert_eq!(bare.encode(" Hello", false), plain("Hello"));
    assert_ne!(bare.encode("Hello", false), plain("Hello"));
    assert_eq!(bare.decode(&plain("Hello")), " Hello");
    assert!(plain("").is_empty());
}

#[test]
fn decoders_return_whole_characters() {
    for name in ["smollm", "llama"] {
        let tokenizer = tokenizer(name);
        let text = "a🤗é\u{3000}日";
        let mut decoder = tokenizer.decoder();
        let parts: Vec<String> = tokenizer.encode(text, false).into_iter().map(|token| decoder.push(token)).collect();
        assert_eq!(parts.concat().trim_start(), text, "{name}");
        assert!(parts.iter().any(String::is_empty), "no character of {parts:?} is divided");
        assert_eq!(decoder.finish(), "");

        let hand = tokenizer.encode("🤗", false);
        let last = hand.len() - 1;
        hand[..last].iter().for_each(|token| assert_eq!(decoder.push(*token).trim(), ""));
        // A special token has no text, and does not divide characters.
        assert_eq!(decoder.push(1), "");
        assert_eq!(decoder.clone().push(hand[last]), "🤗");
        let other: String = tokenizer.encode("b", false).into_iter().map(|token| decoder.push(token)).collect();
        assert_eq!(other.replace(' ', ""), "\u{FFFD}b");
        hand[..last].iter().for_each(|token| assert_eq!(decoder.push(*token).trim(), ""));
        assert!(decoder.finish().contains('\u{FFFD}'));
        assert_eq!((decoder.push(u32::MAX), decoder.push(1_000_000), decoder.finish()), Default::default());
    }
}

#[test]
fn begin_and_end_tokens_are_those_of_the_metadata() {
    let smollm = tokenizer("smollm");
    // `<|endoftext|>` ends a text whether the metadata names it or not.
    assert_eq!((smollm.begin(), smollm.end_tokens(), smollm.add_bos()), (Some(1), &[0, 2][..], false));
    assert_eq!(smollm.token_count(), 4 + 256 + 844 + 1);
    assert!(tokenizer("llama-bpe").add_bos());
    let llama = tokenizer("llama");
    assert_eq!((llama.begin(), llama.end_tokens(), llama.add_bos()), (Some(1), &[2][..], true));
    let metadata = byte_level("llama-bpe").set("tokenizer.ggml.eot_token_id", Data::U32(700));
    let metadata = metadata.set("tokenizer.ggml.eom_token_id", Data::U32(600));
    assert_eq!(metadata.tokenizer().unwrap().end_tokens(), [0, 2, 600, 700]);
    let metadata = metadata.set("tokenizer.ggml.add_bos_token", Data::Bool(false));
    assert!(!metadata.tokenizer().unwrap().add_bos());
    let without = metadata.set("tokenizer.ggml.add_bos_token", Data::Bool(true)).without("tokenizer.ggml.bos_token_id");
    let without = without.tokenizer().unwrap();
    assert_eq!((without.begin(), without.add_bos()), (None, false));
}

#[test]
fn long_texts_and_words_decode_to_themselves() {
    for name in ["default", "llama-bpe", "llama"] {
        let tokenizer = tokenizer(name);
        for text in [" ", "a", "\n", "' ", "1", "é", "<|im_start|>"] {
            let text = text.repeat(30_000 / text.len()) + "x";
            let tokens = tokenizer.encode(&text, false);
            assert_eq!(tokenizer.decode(&tokens), text, "{name}");
        }
    }
}
