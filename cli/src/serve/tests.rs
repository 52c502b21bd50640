//! A server over connections of its own, with a small model.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use incarnate_gguf::GgufFile;
use incarnate_runtime::session::SessionBuilder;
use incarnate_runtime::{Error, Result};
use incarnate_text::{ChatTemplate, LanguageModel, Tokenizer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::server::{Texts, answer};
use crate::chat::model::ModuleModel;
use crate::chat::source::ModelSource;

const TIMEOUT: Duration = Duration::from_secs(60);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/language_model").join(name)
}

fn texts() -> Texts {
    let file = GgufFile::open(&fixture("model.gguf")).unwrap();
    let (tokenizer, template) = (Tokenizer::from_gguf(&file).unwrap(), ChatTemplate::from_gguf(&file).unwrap());
    Texts { tokenizer, template: Some(template) }
}

/// Answers with the letters of the alphabet, for as long as `is_held` is not set.
struct Alphabet {
    letters: Vec<u32>,
    logits: Vec<f32>,
    slots: usize,
    is_held: Arc<AtomicBool>,
    fails: bool,
}

impl Alphabet {
    fn new(slots: usize) -> Alphabet {
        let tokenizer = texts().tokenizer;
        let letters = tokenizer.encode("abcdefghijklmnopqrstuvwxyz", false).split_off(1);
        let logits = vec![0.0; tokenizer.token_count()];
        Alphabet { letters, logits, slots, is_held: Arc::default(), fails: false }
    }
}

impl LanguageModel for Alphabet {
    fn context(&self) -> usize {
        64
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn logits(&mut self, _: usize, tokens: &[u32], position: usize) -> Result<&mut [f32]> {
        while self.is_held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.fails {
            return Err(Error::resource_exhausted("no memory"));
        }
        self.logits.fill(0.0);
        let next = self.letters[(position + tokens.len()) % self.letters.len()];
        self.logits[next as usize] = 100.0;
        Ok(&mut self.logits)
    }
}

/// A server on a thread of its own, which ends with the value.
struct Server {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(model: impl LanguageModel + Send + 'static, queue: usize) -> Server {
        let (end, ended) = oneshot::channel::<()>();
        let (ready, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                ready.send(listener.local_addr().unwrap()).unwrap();
                let ended = async { drop(ended.await) };
                answer(listener, model, texts(), ("letters".to_owned(), queue), ended).await.unwrap();
            });
        });
        Server { address: address.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    fn connect(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    /// The status and the body of an answer.
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut text = String::new();
        self.connect(method, path, body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        (status, if is_chunked { unchunked(body) } else { body.to_owned() })
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) = self.send("POST", path, &body.to_string());
        (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}")))
    }

    fn metric(&self, name: &str) -> u64 {
        let text = self.send("GET", "/metrics", "").1;
        let line = text.lines().find(|line| line.starts_with(&format!("incarnate_{name} "))).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Waits until a number of the server has a value.
    fn wait_for(&self, name: &str, value: u64) {
        let start = std::time::Instant::now();
        while self.metric(name) != value {
            assert!(start.elapsed() < TIMEOUT, "{name} is {}", self.metric(name));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text.push_str(&rest[..length]);
        body = &rest[length + 2..];
    }
    text
}

fn message(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[test]
fn messages_are_answered_whole_or_in_parts() {
    let server = Server::start(Alphabet::new(2), 4);
    let mut body = json!({"model": "letters", "messages": message("hi"), "temperature": 0, "max_tokens": 5});
    let (status, whole) = server.post("/v1/chat/completions", &body);
    assert_eq!(status, 200, "{whole}");
    let choice = &whole["choices"][0];
    let text = choice["message"]["content"].as_str().unwrap();
    assert_eq!(
        (text.len(), &choice["finish_reason"], &whole["object"]),
        (5, &json!("length"), &json!("chat.completion"))
    );
    let (prompt, all) = (whole["usage"]["prompt_tokens"].as_u64().unwrap(), whole["usage"]["total_tokens"].as_u64());
    assert_eq!((&whole["usage"]["completion_tokens"], all), (&json!(5), Some(prompt + 5)));
    // The same in parts; the prompt is known by now, but for its last token.
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let (status, events) = server.send("POST", "/v1/chat/completions", &body.to_string());
    let data: Vec<&str> = events.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let (last, parts) = data.split_last().unwrap();
    assert_eq!((status, *last), (200, "[DONE]"));
    let parts: Vec<Value> = parts.iter().map(|part| serde_json::from_str(part).unwrap()).collect();
    let written: String = parts.iter().filter_map(|part| part["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(written, text);
    let [.., end, usage] = &parts[..] else { panic!("{events}") };
    assert_eq!(
        (&parts[0]["choices"][0]["delta"]["role"], &end["choices"][0]["finish_reason"]),
        (&json!("assistant"), &json!("length"))
    );
    assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], json!(prompt - 1));
    assert_eq!((server.metric("requests_total"), server.metric("prompt_tokens_known_total")), (2, prompt - 1));
    assert_eq!((server.metric("generated_tokens_total"), server.metric("requests_active")), (10, 0));
}

#[test]
fn texts_go_on_and_end_where_they_should() {
    let server = Server::start(Alphabet::new(1), 4);
    let complete = |fields: Value| {
        let mut body = json!({"temperature": 0, "max_tokens": 6});
        fields.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        let (status, answer) = server.post("/v1/completions", &body);
        assert_eq!(status, 200, "{answer}");
        (answer["choices"][0]["text"].as_str().unwrap().to_owned(), answer["choices"][0]["finish_reason"].clone())
    };
    let (text, finish) = complete(json!({"prompt": "he"}));
    assert_eq!((text.len(), finish), (6, json!("length")));
    // A stop text, and all of the context.
    assert_eq!(complete(json!({"prompt": "he", "stop": [&text[2..4]]})), (text[..2].to_owned(), json!("stop")));
    let (whole, finish) = complete(json!({"prompt": [4, 5, 6], "max_tokens": 1000}));
    assert_eq!((whole.len(), finish), (62, json!("length")));
    assert_eq!(complete(json!({"prompt": ["he"], "max_tokens": 0})), (String::new(), json!("length")));
}

#[test]
fn wrong_requests_are_refused_in_a_line() {
    let server = Server::start(Alphabet::new(1), 4);
    let chat = "/v1/chat/completions";
    let long = "a ".repeat(100);
    for (path, body, status, why) in [
        (chat, json!({"messages": []}), 400, "no messages"),
        (chat, json!({"messages": message(&long)}), 400, "for a context of 64"),
        (chat, json!({"messages": message("a"), "model": "other"}), 404, "the model is 'letters'"),
        (chat, json!({"messages": message("a"), "temperature": -1}), 400, "'temperature' is -1"),
        (chat, json!({"messages": message("a"), "n": 2}), 400, "'n' is not supported"),
        (chat, json!({"messages": message("a"), "tools": [{}]}), 400, "'tools' is not supported"),
        (chat, json!({"messages": message("a"), "max_tokens": -3}), 400, "integer `-3`"),
        (chat, json!({"messages": message("a"), "top_logprobs": 3}), 400, "needs 'logprobs'"),
        (chat, json!({"messages": message("a"), "logprobs": 3}), 400, "neither true nor false"),
        (chat, json!({"messages": message("a"), "logprobs": true, "top_logprobs": 21}), 400, "no number from 0 to 20"),
        ("/v1/completions", json!({"prompt": "a", "logprobs": 21}), 400, "no number from 0 to 20"),
        ("/v1/completions", json!({"prompt": "a", "logprobs": true}), 400, "no number from 0 to 20"),
        ("/v1/completions", json!({"prompt": "a", "logprobs": 1, "top_logprobs": 1}), 400, "a field of messages"),
        (
            chat,
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            400,
            "the model reads text",
        ),
        (chat, json!({}), 400, "messages"),
        ("/v1/completions", json!({"prompt": []}), 400, "0 "),
        ("/v1/completions", json!({"prompt": [1000]}), 400, "1000 is none of the 48 tokens"),
        ("/v1/completions", json!({"prompt": ["a", "b"]}), 400, "there are 2 prompts"),
        ("/v1/embeddings", json!({"input": "a"}), 501, "compile it with --embeddings"),
        ("/v1/audio", json!({}), 404, "no such route"),
    ] {
        let (given, answer) = server.post(path, &body);
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(given == status && text.contains(why) && !text.contains('\n'), "{body}: {given} {text}");
    }
    assert_eq!(server.send("POST", chat, "{").0, 400);
    let mut rest = String::new();
    // A request that is none ends the connection.
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"\0\0\0\0\r\n\r\n").unwrap();
    let _ = stream.read_to_string(&mut rest);
    assert_eq!(server.send("GET", "/health", "").0, 200);
    assert_eq!(server.send("GET", "/v1/models/letters", "").0, 200);
    assert_eq!(server.send("GET", "/v1/models/other", "").0, 404);
    assert!(server.send("GET", "/v1/models", "").1.contains(r#""id":"letters""#));
}

/// The letters of the alphabet as `true` or `false`.
#[test]
fn answers_follow_a_schema() {
    let server = Server::start(Alphabet::new(2), 4);
    let ask = |format: Value| {
        let body = json!({"messages": message("a"), "temperature": 0, "response_format": format});
        let (status, answer) = server.post("/v1/chat/completions", &body);
        let text =
            if status == 200 { &answer["choices"][0]["message"]["content"] } else { &answer["error"]["message"] };
        (status, text.as_str().unwrap().to_owned(), answer["choices"][0]["finish_reason"].clone())
    };
    let of = |schema: Value| {
        ask(json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}}))
    };
    for _ in 0..2 {
        let (status, text, finish) = of(json!({"type": "boolean"}));
        assert!(status == 200 && ["true", "false"].contains(&&*text), "{text}");
        assert_eq!(finish, "stop");
    }
    assert_eq!(of(json!({"const": null})).1, "null");
    assert_eq!(ask(json!({"type": "text"})).0, 200);
    let deep = (0..100).fold(json!({}), |schema, _| json!({"type": "array", "items": schema}));
    for (answer, why) in [
        // No token of the model has a bracket.
        (ask(json!({"type": "json_object"})), "no token of the model"),
        (of(deep), "no token of the model"),
        (of(json!({"type": "integer", "multipleOf": 99_999_989})), "the least common multiple"),
        (of(json!({"not": {}})), "not"),
        (ask(json!({"type": "json_schema"})), "has no 'schema'"),
        (ask(json!({"type": "xml"})), "the type 'xml' is not supported"),
    ] {
        assert!(answer.0 == 400 && answer.1.contains(why) && !answer.1.contains('\n'), "{answer:?}");
    }
}

#[test]
fn tokens_have_log_probabilities() {
    let server = Server::start(Alphabet::new(1), 4);
    let mut body = json!({"messages": message("a"), "temperature": 1.5, "seed": 1, "max_tokens": 3});
    (body["logprobs"], body["top_logprobs"]) = (json!(true), json!(2));
    let (status, answer) = server.post("/v1/chat/completions", &body);
    let content = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!((status, content.len()), (200, 3), "{answer}");
    let text: String = content.iter().map(|one| one["token"].as_str().unwrap()).collect();
    assert_eq!(answer["choices"][0]["message"]["content"], text);
    for one in content {
        let (token, likeliest) = (one["token"].as_str().unwrap(), one["top_logprobs"].as_array().unwrap());
        assert_eq!((one["bytes"].clone(), likeliest.len()), (json!(token.as_bytes()), 2));
        // The model is almost certain; its other logits are equal, and the first one is that of a control token.
        assert_eq!((&likeliest[0]["token"], &likeliest[0]["logprob"]), (&one["token"], &one["logprob"]));
        assert_eq!((&likeliest[1]["token"], &likeliest[1]["bytes"]), (&json!("<unk>"), &Value::Null));
        assert!(likeliest[0]["logprob"].as_f64().unwrap().abs() < 1e-6);
        assert!((likeliest[1]["logprob"].as_f64().unwrap() + 100.0).abs() < 1e-3);
    }
    // The same in parts.
    body["stream"] = json!(true);
    let (_, events) = server.send("POST", "/v1/chat/completions", &body.to_string());
    let parts = events.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let streamed: Vec<Value> = parts
        .flat_map(|part| part["choices"][0]["logprobs"]["content"].as_array().cloned().unwrap_or_default())
        .collect();
    assert_eq!(&streamed, content);
    // A text has them in lists.
    let body = json!({"prompt": "he", "temperature": 0, "max_tokens": 3, "logprobs": 1});
    let (_, answer) = server.post("/v1/completions", &body);
    let logprobs = &answer["choices"][0]["logprobs"];
    let tokens: String = logprobs["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!((&answer["choices"][0]["text"], &logprobs["text_offset"]), (&json!(tokens), &json!([0, 1, 2])));
    let first = tokens.get(..1).unwrap();
    assert_eq!(logprobs["top_logprobs"][0][first], logprobs["token_logprobs"][0]);
    let (_, answer) = server.post("/v1/completions", &json!({"prompt": "he", "max_tokens": 1}));
    assert_eq!(answer["choices"][0]["logprobs"], Value::Null);
}

#[test]
fn a_full_queue_refuses_and_clients_that_leave_give_up_their_place() {
    let model = Alphabet::new(1);
    let is_held = Arc::clone(&model.is_held);
    is_held.store(true, Ordering::SeqCst);
    let server = Server::start(model, 1);
    let body = json!({"prompt": "he", "max_tokens": 1000, "stream": true}).to_string();
    let first = server.connect("POST", "/v1/completions", &body);
    server.wait_for("requests_active", 1);
    let second = server.connect("POST", "/v1/completions", &body);
    server.wait_for("requests_waiting", 1);
    let (status, answer) = server.post("/v1/completions", &json!({"prompt": "he"}));
    assert_eq!(status, 429, "{answer}");
    drop((first, second));
    is_held.store(false, Ordering::SeqCst);
    server.wait_for("requests_cancelled_total", 2);
    assert_eq!((server.metric("requests_active"), server.metric("requests_waiting")), (0, 0));
    assert_eq!(server.post("/v1/completions", &json!({"prompt": "he", "max_tokens": 2})).0, 200);
}

#[test]
fn a_failure_of_the_model_is_that_of_its_request() {
    let server = Server::start(Alphabet { fails: true, ..Alphabet::new(1) }, 1);
    let mut body = json!({"prompt": "he"});
    let (status, answer) = server.post("/v1/completions", &body);
    assert!(status == 500 && answer["error"]["message"].as_str().unwrap().contains("no memory"), "{answer}");
    body["stream"] = json!(true);
    let events = server.send("POST", "/v1/completions", &body.to_string()).1;
    assert!(events.contains("no memory") && events.trim_end().ends_with("[DONE]"), "{events}");
    assert_eq!(server.metric("requests_failed_total"), 2);
}

fn module_model() -> ModuleModel {
    let add_module = |builder: SessionBuilder| builder.module_file(fixture("vmvx.vmfb"));
    ModuleModel::load(&ModelSource::find(Some(&fixture("model.gguf"))).unwrap(), "local-sync", &add_module).unwrap()
}

#[test]
fn texts_have_embeddings() {
    let server = Server::start(module_model(), 8);
    let embed = |fields: Value| {
        let (status, answer) = server.post("/v1/embeddings", &fields);
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let vector =
        |value: &Value| value.as_array().unwrap().iter().map(|one| one.as_f64().unwrap() as f32).collect::<Vec<f32>>();
    let answer = embed(json!({"input": ["the", "on it"], "model": "letters"}));
    let vectors = [0, 1].map(|index| vector(&answer["data"][index]["embedding"]));
    for vector in &vectors {
        let length: f32 = vector.iter().map(|one| one * one).sum();
        assert!(vector.len() == 256 && (length - 1.0).abs() < 1e-5, "{length}");
    }
    assert_ne!(vectors[0], vectors[1]);
    assert_eq!((&answer["data"][1]["index"], &answer["object"]), (&json!(1), &json!("list")));
    // One text, by its tokens, as bytes.
    let tokens = texts().tokenizer.encode_first("on it");
    assert_eq!(vector(&embed(json!({"input": tokens}))["data"][0]["embedding"]), vectors[1]);
    let answer = embed(json!({"input": "on it", "encoding_format": "base64"}));
    let bytes = data_encoding::BASE64.decode(answer["data"][0]["embedding"].as_str().unwrap().as_bytes()).unwrap();
    let decoded = bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    assert_eq!(decoded.collect::<Vec<f32>>(), vectors[1]);
    assert_eq!(answer["usage"], json!({"prompt_tokens": tokens.len(), "total_tokens": tokens.len()}));
    // Three times this text, and another one.
    let expected = 3 * tokens.len() + texts().tokenizer.encode_first("the").len();
    assert_eq!(server.metric("prompt_tokens_total"), expected as u64);
    for (body, why) in [
        (json!({"input": []}), "there are 0 texts"),
        (json!({"input": [[]]}), "a text of 0 tokens"),
        (json!({"input": [48]}), "48 is none of the 48 tokens"),
        (json!({"input": "a ".repeat(100)}), "for a context of 64"),
        (json!({"input": vec!["a"; 3000]}), "there are 3000 texts"),
        (json!({"input": "a", "dimensions": 3}), "'dimensions' is not supported"),
        (json!({"input": "a", "encoding_format": "hex"}), "hex"),
    ] {
        let (status, answer) = server.post("/v1/embeddings", &body);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(why) && !message.contains('\n'), "{status} {message}");
    }
    assert_eq!((server.metric("requests_active"), server.metric("requests_waiting")), (0, 0));
    // Texts that are refused are not read.
    assert_eq!(server.metric("prompt_tokens_total"), expected as u64);
}

/// Two conversations at a time have the texts that each has alone.
#[test]
fn conversations_of_a_module_do_not_mix() {
    let model = module_model();
    assert_eq!((model.context(), model.slots()), (64, 2));
    let server = Server::start(model, 8);
    let body = |text: &str| json!({"messages": message(text), "temperature": 0, "max_tokens": 6});
    let text = |text: &str| {
        let (status, answer) = server.post("/v1/chat/completions", &body(text));
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let alone = ["the", "on it", "an"].map(text);
    assert!(alone.iter().any(|text| !text.is_empty()), "{alone:?}");
    let together = std::thread::scope(|scope| {
        let threads = ["the", "on it", "an"].map(|prompt| scope.spawn(move || text(prompt)));
        // Embeddings between them change nothing.
        let (status, answer) = server.post("/v1/embeddings", &json!({"input": ["it", "at"]}));
        assert_eq!(status, 200, "{answer}");
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(together, alone);
}
