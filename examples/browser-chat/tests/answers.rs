//! The answers of the page, generated natively. `test.mjs` compares those of the browser with the same file.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use incarnate::runtime::bytecode::Contents;
use incarnate_example_browser_chat::Chat;
use incarnate_text::SamplerOptions;
use serde_json::Value;

/// The model that the build script translated, and the file of its answers.
fn model() -> (PathBuf, &'static str) {
    match std::env::var_os("INCARNATE_CHAT_MODEL") {
        Some(model) => (model.into(), "answers.json"),
        None => ("../../tests/models/language_model/model.gguf".into(), "tests/answers.json"),
    }
}

/// Asks the question of a row. Returns the row with the answer, and the number of its tokens.
fn answered(chat: &mut Chat, row: &Value) -> Value {
    let number = |field: &str| row[field].as_u64().unwrap();
    let temperature = row["temperature"].as_f64().unwrap() as f32;
    let options = SamplerOptions { temperature, seed: number("seed"), ..SamplerOptions::default() };
    chat.ask(row["question"].as_str().unwrap(), options, number("limit") as usize).unwrap();
    let mut text = String::new();
    loop {
        let part = chat.advance().unwrap();
        text += &part.text;
        if part.finish.is_some() {
            let mut row = row.clone();
            (row["answer"], row["tokens"]) = (text.into(), part.written.into());
            return row;
        }
    }
}

/// Answers the questions of a conversation, one behind the other.
fn conversation(chat: &mut Chat, rows: &[Value]) -> Vec<Value> {
    chat.forget();
    rows.iter().map(|row| answered(chat, row)).collect()
}

#[test]
fn answers_are_those_of_the_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (model, answers) = model();
    let path = folder.join(answers);
    let file = Contents::read(&folder.join(model)).unwrap();
    let mut chat = Chat::load(file, SystemTime::now).unwrap();
    let conversations: Vec<Vec<Value>> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let computed: Vec<Vec<Value>> = conversations.iter().map(|rows| conversation(&mut chat, rows)).collect();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&computed).unwrap() + "\n").unwrap();
        return;
    }
    assert_eq!(computed, conversations, "BLESS=1 writes {}", path.display());
}
