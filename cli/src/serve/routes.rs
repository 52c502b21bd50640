//! The routes of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use incarnate_runtime::Error;
use incarnate_text::embedding::check_text;
use incarnate_text::generation::{check_prompt, prompt};
use incarnate_text::{ChatTemplate, Constraint, ConstraintCompiler, Sampler, Tokenizer};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_blocking;

use super::api_error::ApiError;
use super::embeddings::{EmbeddingJob, answer};
use super::events::Events;
use super::metrics::Metrics;
use super::requests::{Beginning, ChatRequest, Common, CompletionRequest, EmbeddingRequest, Form};
use super::responses::{Head, Kind};
use super::scheduler::{Job, Part, TextJob};
use super::token_texts::TokenTexts;

/// What requests share.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) jobs: SyncSender<Job>,
    pub(super) tokenizer: Arc<Tokenizer>,
    /// None for models without a chat template.
    pub(super) template: Option<ChatTemplate>,
    /// Created with the first request that needs it. Schemas are compiled one at a time.
    pub(super) constraints: Mutex<Option<Arc<ConstraintCompiler>>>,
    pub(super) model: String,
    pub(super) context: usize,
    pub(super) has_embeddings: bool,
    pub(super) metrics: Arc<Metrics>,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// The number of requests before, for their names.
    pub(super) count: AtomicU64,
}

type Shared = State<Arc<Service>>;
type Body<T> = Result<Json<T>, JsonRejection>;
type Answered = Result<Response, ApiError>;

pub(super) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/embeddings", post(embeddings))
        .fallback(unknown)
        .with_state(service)
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn metrics(State(service): Shared) -> Response {
    ([("content-type", "text/plain; version=0.0.4")], service.metrics.text()).into_response()
}

async fn unknown() -> ApiError {
    ApiError::not_found(
        "there is no such route: /v1/models, /v1/chat/completions, /v1/completions, /v1/embeddings, /health, /metrics",
    )
}

async fn models(State(service): Shared) -> Json<Value> {
    Json(json!({"object": "list", "data": [service.description()]}))
}

async fn model(State(service): Shared, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    service.check_model(Some(&name))?;
    Ok(Json(service.description()))
}

async fn chat(State(service): Shared, body: Body<ChatRequest>) -> Answered {
    let Json(request) = body?;
    let messages = request.messages()?;
    let shared = Arc::clone(&service);
    // A template is a program of the file's, and may take its time.
    let tokens = spawn_blocking(move || {
        let template = shared.template.as_ref();
        let template = template.ok_or_else(|| {
            let why = "the model has no chat template: /v1/completions goes on from a text";
            Error::failed_precondition(why)
        })?;
        prompt(&shared.tokenizer, template, &messages)
    });
    let tokens = tokens.await.map_err(|_| ApiError::ending())??;
    service.answer(Kind::Chat, &request.common, tokens).await
}

async fn completion(State(service): Shared, body: Body<CompletionRequest>) -> Answered {
    let Json(mut request) = body?;
    let beginning = request.beginning()?;
    let shared = Arc::clone(&service);
    let tokens = spawn_blocking(move || shared.tokens("prompt", beginning));
    let tokens = tokens.await.map_err(|_| ApiError::ending())??;
    service.answer(Kind::Completion, &request.common, tokens).await
}

async fn embeddings(State(service): Shared, body: Body<EmbeddingRequest>) -> Answered {
    let Json(request) = body?;
    service.check_model(request.model.as_deref())?;
    if !service.has_embeddings {
        let why = "the model's program has no embeddings: compile it with --embeddings";
        return Err(Error::unimplemented(why).into());
    }
    let format = request.encoding_format;
    let texts = request.texts()?;
    let shared = Arc::clone(&service);
    let texts = spawn_blocking(move || {
        let tokens = |text| shared.tokens("input", text);
        texts.into_iter().map(tokens).collect::<Result<Vec<Vec<u32>>, ApiError>>()
    });
    let texts = texts.await.map_err(|_| ApiError::ending())??;
    for text in &texts {
        check_text(text.len(), service.context).map_err(|error| ApiError::invalid("input", error.message()))?;
    }
    let (job, vectors) = EmbeddingJob::new(texts);
    let count = job.tokens();
    service.submit(Job::Embeddings(job))?;
    let vectors = vectors.await.map_err(|_| ApiError::ending())??;
    Ok(Json(answer(&service.model, &vectors, format, count)).into_response())
}

fn now() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Service {
    fn description(&self) -> Value {
        json!({"id": self.model, "object": "model", "created": self.created, "owned_by": "incarnate"})
    }

    /// Checks that a request is for the model, if it names one.
    fn check_model(&self, name: Option<&str>) -> Result<(), ApiError> {
        match name {
            Some(name) if name != self.model => {
                Err(ApiError::not_found(format!("the model is '{}', and there is no '{name}'", self.model)))
            }
            _ => Ok(()),
        }
    }

    fn tokens(&self, field: &'static str, beginning: Beginning) -> Result<Vec<u32>, ApiError> {
        match beginning {
            Beginning::Text(text) => Ok(self.tokenizer.encode_first(&text)),
            Beginning::Tokens(tokens) => {
                let count = self.tokenizer.token_count();
                match tokens.iter().find(|token| **token as usize >= count) {
                    Some(token) => Err(ApiError::invalid(field, format!("{token} is none of the {count} tokens"))),
                    None => Ok(tokens),
                }
            }
        }
    }

    async fn answer(&self, kind: Kind, common: &Common, prompt: Vec<u32>) -> Answered {
        self.check_model(common.model.as_deref())?;
        common.check()?;
        let time = now();
        let sampling = common.sampling(time.as_nanos() as u64)?;
        let stop = common.stop()?;
        let field = if kind == Kind::Chat { "messages" } else { "prompt" };
        check_prompt(prompt.len(), self.context).map_err(|error| ApiError::invalid(field, error.message()))?;
        let log_probabilities = common.log_probabilities(kind)?;
        let constraint = match common.form()? {
            Some(form) => Some(self.constraint(form).await?),
            None => None,
        };
        let (parts, receiver) = unbounded_channel();
        let limit = common.limit().unwrap_or(self.context);
        let sampler = Sampler::new(sampling);
        self.submit(Job::Text(TextJob { prompt, sampler, stop, limit, constraint, log_probabilities, parts }))?;
        let prefix = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let id = format!("{prefix}-{:x}-{number:x}", self.created);
        let token_texts = log_probabilities.map(|_| TokenTexts::new(Arc::clone(&self.tokenizer)));
        let head = Head { kind, id, created: time.as_secs(), model: self.model.clone(), token_texts };
        if common.is_stream() {
            let includes_usage = common.stream_options.as_ref().is_some_and(|options| options.include_usage);
            let events = Events::new(head, receiver, includes_usage);
            return Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response());
        }
        whole(head, receiver).await
    }

    /// Compiles what an answer follows.
    async fn constraint(&self, form: Form) -> Result<Constraint, ApiError> {
        let mut compiler = self.constraints.lock().await;
        let (known, tokenizer) = (compiler.clone(), Arc::clone(&self.tokenizer));
        let compiled = spawn_blocking(move || {
            let compiler = known.map_or_else(|| ConstraintCompiler::new(&tokenizer).map(Arc::new), Ok)?;
            let constraint = match form {
                Form::Object => compiler.json_object(),
                Form::Schema(schema) => compiler.json_schema(&schema),
            };
            Ok::<_, Error>((compiler, constraint))
        });
        let (created, constraint) = compiled.await.map_err(|_| ApiError::ending())??;
        *compiler = Some(created);
        constraint.map_err(|error| ApiError::invalid("response_format", error.to_string()))
    }

    fn submit(&self, job: Job) -> Result<(), ApiError> {
        self.metrics.requests.add(1);
        self.metrics.waiting.add(1);
        self.jobs.try_send(job).map_err(|error| {
            self.metrics.waiting.subtract(1);
            self.metrics.refused.add(1);
            match error {
                TrySendError::Full(_) => ApiError::busy(),
                TrySendError::Disconnected(_) => ApiError::ending(),
            }
        })
    }
}

/// Waits for the end of an answer.
async fn whole(mut head: Head, mut parts: UnboundedReceiver<Part>) -> Answered {
    let (mut text, mut log_probabilities) = (String::new(), Vec::new());
    loop {
        match parts.recv().await {
            Some(Part::Text(part, probabilities)) => {
                text.push_str(&part);
                log_probabilities.extend(probabilities);
            }
            Some(Part::End(generated)) => {
                return Ok(Json(head.whole(&text, &log_probabilities, &generated)).into_response());
            }
            Some(Part::Failed(error)) => return Err(error.into()),
            None => return Err(ApiError::ending()),
        }
    }
}
