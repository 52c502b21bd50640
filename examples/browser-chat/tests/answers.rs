//! The answers of the page, generated natively. `test.mjs` compares those of the browser with the same file.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use incarnate::runtime::bytecode::Contents;
use incarnate_example_browser_chat::Chat;
use incarnate_text::{Finish, SamplerOptions};
use serde_json::Value;

fn chat() -> Chat {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/language_model/model.gguf");
    Chat::load(Contents::read(&model).unwrap(), SystemTime::now).unwrap()
}

/// The rest of an answer.
fn rest(chat: &mut Chat) -> (String, Finish) {
    let mut text = String::new();
    loop {
        let part = chat.advance().unwrap();
        text += &part.text;
        if let Some(finish) = part.finish {
            return (text, finish);
        }
    }
}

#[test]
fn answers_are_those_of_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers.json");
    let rows: Vec<Value> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut chat = chat();
    let computed: Vec<Value> = rows
        .iter()
        .map(|row| {
            let number = |field: &str| row[field].as_u64().unwrap();
            let temperature = row["temperature"].as_f64().unwrap() as f32;
            let options = SamplerOptions { temperature, seed: number("seed"), ..SamplerOptions::default() };
            chat.ask(row["question"].as_str().unwrap(), options, number("limit") as usize).unwrap();
            let mut row = row.clone();
            row["answer"] = rest(&mut chat).0.into();
            row
        })
        .collect();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&computed).unwrap() + "\n").unwrap();
    }
    assert_eq!(computed, rows, "BLESS=1 writes {}", path.display());
}
