//! Requests for text, as clients of OpenAI's interface write them.

use incarnate_runtime::bytecode::Escaped;
use incarnate_text::{Message, SamplerOptions, StopTexts};
use serde::Deserialize;
use serde_json::Value;

use super::api_error::ApiError;
use super::responses::Kind;

/// The most texts of `stop`.
const MOST_STOP_TEXTS: usize = 16;
/// The most tokens whose log probabilities are listed. Source: OpenAI's reference of chat completions.
const MOST_LIKELIEST: usize = 20;
/// The most texts of a request for embeddings. Source: OpenAI's reference of embeddings.
const MOST_EMBEDDED_TEXTS: usize = 2048;

/// One of something, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// The body of a request for a message (`/v1/chat/completions`).
#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    messages: Vec<RequestMessage>,
    #[serde(flatten)]
    pub(super) common: Common,
}

/// The body of a request for a text (`/v1/completions`).
#[derive(Debug, Deserialize)]
pub(super) struct CompletionRequest {
    prompt: Prompt,
    #[serde(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    ListsOfTokens(Vec<Vec<u32>>),
}

#[derive(Debug, Deserialize)]
struct RequestMessage {
    role: String,
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Deserialize)]
struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// What both kinds of requests have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Common {
    pub(super) model: Option<String>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<usize>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    seed: Option<i64>,
    stop: Option<OneOrMany<String>>,
    n: Option<u64>,
    best_of: Option<u64>,
    echo: Option<bool>,
    suffix: Option<String>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    logprobs: Option<Value>,
    top_logprobs: Option<usize>,
    logit_bias: Option<Value>,
    tools: Option<Vec<Value>>,
    response_format: Option<ResponseFormat>,
}

/// What a stream contains.
#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: bool,
}

#[derive(Debug, Deserialize)]
struct ResponseFormat {
    #[serde(rename = "type")]
    kind: String,
    json_schema: Option<NamedSchema>,
}

#[derive(Debug, Deserialize)]
struct NamedSchema {
    schema: Option<Value>,
}

/// The body of a request for embeddings (`/v1/embeddings`).
#[derive(Debug, Deserialize)]
pub(super) struct EmbeddingRequest {
    pub(super) model: Option<String>,
    input: Prompt,
    #[serde(default)]
    pub(super) encoding_format: VectorFormat,
    dimensions: Option<u64>,
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VectorFormat {
    /// A list of numbers.
    #[default]
    Float,
    /// Numbers of 32 bits, the lowest byte first, in base64.
    Base64,
}

/// What a text follows.
#[derive(Debug, PartialEq)]
pub(super) enum Form {
    /// A JSON object.
    Object,
    /// The text of a JSON schema.
    Schema(String),
}

/// The text that a completion goes on from.
#[derive(Debug)]
pub(super) enum Beginning {
    Text(String),
    Tokens(Vec<u32>),
}

impl ChatRequest {
    /// Returns the messages of the conversation.
    pub(super) fn messages(&self) -> Result<Vec<Message>, ApiError> {
        if self.messages.is_empty() {
            return Err(ApiError::invalid("messages", "there are no messages"));
        }
        self.messages.iter().map(RequestMessage::message).collect()
    }
}

impl EmbeddingRequest {
    /// Returns the texts.
    pub(super) fn texts(self) -> Result<Vec<Beginning>, ApiError> {
        if self.dimensions.is_some() {
            return Err(ApiError::invalid(
                "dimensions",
                "'dimensions' is not supported: embeddings have the length of the model's",
            ));
        }
        let texts: Vec<Beginning> = match self.input {
            Prompt::Text(text) => vec![Beginning::Text(text)],
            Prompt::Tokens(tokens) => vec![Beginning::Tokens(tokens)],
            Prompt::Texts(texts) => texts.into_iter().map(Beginning::Text).collect(),
            Prompt::ListsOfTokens(lists) => lists.into_iter().map(Beginning::Tokens).collect(),
        };
        match (1..=MOST_EMBEDDED_TEXTS).contains(&texts.len()) {
            true => Ok(texts),
            false => Err(ApiError::invalid(
                "input",
                format!("there are {} texts, and not 1 to {MOST_EMBEDDED_TEXTS}", texts.len()),
            )),
        }
    }
}

impl RequestMessage {
    fn message(&self) -> Result<Message, ApiError> {
        let text = match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                let texts = parts.iter().map(|part| match (&*part.kind, &part.text) {
                    ("text", Some(text)) => Ok(text.as_str()),
                    (kind, _) => Err(ApiError::invalid(
                        "messages",
                        format!("a message has a part of the type '{kind}': the model reads text"),
                    )),
                });
                texts.collect::<Result<String, ApiError>>()?
            }
        };
        Ok(Message::new(self.role.clone(), text))
    }
}

impl CompletionRequest {
    /// Returns the text that the completion goes on from.
    pub(super) fn beginning(&mut self) -> Result<Beginning, ApiError> {
        let one = |count: usize| {
            ApiError::invalid("prompt", format!("there are {count} prompts: a request is answered for one"))
        };
        match core::mem::replace(&mut self.prompt, Prompt::Tokens(Vec::new())) {
            Prompt::Text(text) => Ok(Beginning::Text(text)),
            Prompt::Tokens(tokens) => Ok(Beginning::Tokens(tokens)),
            Prompt::Texts(texts) => {
                <[String; 1]>::try_from(texts).map(|[text]| Beginning::Text(text)).map_err(|texts| one(texts.len()))
            }
            Prompt::ListsOfTokens(lists) => <[Vec<u32>; 1]>::try_from(lists)
                .map(|[tokens]| Beginning::Tokens(tokens))
                .map_err(|lists| one(lists.len())),
        }
    }
}

impl Common {
    /// Checks that nothing is asked for that would be left out silently.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let is_one = |number: Option<u64>| number.is_none_or(|number| number == 1);
        let is_zero = |number: Option<f64>| number.is_none_or(|number| number == 0.0);
        let is_off = |value: &Option<Value>| {
            value.as_ref().is_none_or(|value| {
                matches!(value, Value::Null | Value::Bool(false))
                    || value.as_object().is_some_and(|object| object.is_empty())
            })
        };
        let refused = [
            ("n", !is_one(self.n)),
            ("best_of", !is_one(self.best_of)),
            ("echo", self.echo == Some(true)),
            ("suffix", self.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty())),
            ("frequency_penalty", !is_zero(self.frequency_penalty)),
            ("presence_penalty", !is_zero(self.presence_penalty)),
            ("logit_bias", !is_off(&self.logit_bias)),
            ("tools", self.tools.as_ref().is_some_and(|tools| !tools.is_empty())),
        ];
        match refused.into_iter().find(|(_, is_refused)| *is_refused) {
            Some((field, _)) => Err(ApiError::invalid(field, format!("'{field}' is not supported with this value"))),
            None => Ok(()),
        }
    }

    /// Returns how tokens are drawn; `seed` is that of requests without one.
    pub(super) fn sampling(&self, seed: u64) -> Result<SamplerOptions, ApiError> {
        let default = SamplerOptions::default();
        let within = |field, number: Option<f32>, default: f32, most: f32| match number {
            None => Ok(default),
            Some(number) if (0.0..=most).contains(&number) => Ok(number),
            Some(number) => Err(ApiError::invalid(field, format!("'{field}' is {number}, and not from 0 to {most}"))),
        };
        Ok(SamplerOptions {
            temperature: within("temperature", self.temperature, default.temperature, 2.0)?,
            top_p: within("top_p", self.top_p, default.top_p, 1.0)?,
            min_p: within("min_p", self.min_p, default.min_p, 1.0)?,
            top_k: self.top_k.unwrap_or(default.top_k),
            repetition_penalty: within(
                "repetition_penalty",
                self.repetition_penalty,
                default.repetition_penalty,
                10.0,
            )?,
            seed: self.seed.map_or(seed, i64::cast_unsigned),
            ..default
        })
    }

    /// Returns the texts that end an answer.
    pub(super) fn stop(&self) -> Result<StopTexts, ApiError> {
        let texts = match &self.stop {
            None => &[],
            Some(OneOrMany::One(text)) => core::slice::from_ref(text),
            Some(OneOrMany::Many(texts)) => &texts[..],
        };
        if texts.len() > MOST_STOP_TEXTS {
            let why = format!("there are {} texts, and at most {MOST_STOP_TEXTS} are allowed", texts.len());
            return Err(ApiError::invalid("stop", why));
        }
        Ok(StopTexts::new(texts.iter().map(String::as_str)))
    }

    /// Returns what the answer follows, if anything.
    pub(super) fn form(&self) -> Result<Option<Form>, ApiError> {
        let Some(format) = &self.response_format else { return Ok(None) };
        let schema = format.json_schema.as_ref().and_then(|named| named.schema.as_ref());
        match (&*format.kind, schema) {
            ("text", _) => Ok(None),
            ("json_object", _) => Ok(Some(Form::Object)),
            ("json_schema", Some(schema)) => Ok(Some(Form::Schema(schema.to_string()))),
            ("json_schema", None) => Err(ApiError::invalid("response_format", "'json_schema' has no 'schema'")),
            (kind, _) => {
                let kind: String = kind.chars().take(40).collect();
                let why = format!("the type '{}' is not supported: text, json_object or json_schema", Escaped(&kind));
                Err(ApiError::invalid("response_format", why))
            }
        }
    }

    /// Returns how many of the likeliest tokens are listed for each token of an answer; `None` for no log probabilities.
    pub(super) fn log_probabilities(&self, kind: Kind) -> Result<Option<usize>, ApiError> {
        let (field, count) = match (kind, &self.logprobs, self.top_logprobs) {
            (_, None | Some(Value::Null | Value::Bool(false)), None | Some(0)) => return Ok(None),
            (Kind::Chat, Some(Value::Bool(true)), count) => ("top_logprobs", Some(count.unwrap_or(0))),
            (Kind::Completion, Some(Value::Number(count)), None) => {
                ("logprobs", count.as_u64().and_then(|count| usize::try_from(count).ok()))
            }
            (Kind::Chat, None | Some(Value::Null | Value::Bool(_)), Some(_)) => {
                return Err(ApiError::invalid("top_logprobs", "'top_logprobs' needs 'logprobs' to be true"));
            }
            (Kind::Chat, ..) => return Err(ApiError::invalid("logprobs", "'logprobs' is neither true nor false")),
            (Kind::Completion, _, Some(_)) => {
                return Err(ApiError::invalid(
                    "top_logprobs",
                    "'top_logprobs' is a field of messages: 'logprobs' is the number",
                ));
            }
            (Kind::Completion, ..) => ("logprobs", None),
        };
        match count.filter(|count| *count <= MOST_LIKELIEST) {
            None => Err(ApiError::invalid(field, format!("'{field}' is no number from 0 to {MOST_LIKELIEST}"))),
            count => Ok(count),
        }
    }

    /// Returns the most tokens of the answer.
    pub(super) fn limit(&self) -> Option<usize> {
        self.max_completion_tokens.or(self.max_tokens)
    }

    pub(super) fn is_stream(&self) -> bool {
        self.stream == Some(true)
    }
}
