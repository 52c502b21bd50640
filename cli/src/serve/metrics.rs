//! Numbers of a server, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use incarnate_text::Generated;

/// A number that only grows, or one of now.
#[derive(Debug, Default)]
pub(super) struct Number(AtomicU64);

impl Number {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, count: usize) {
        self.0.fetch_sub(count as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers of a server.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) requests: Number,
    pub(super) refused: Number,
    pub(super) failed: Number,
    pub(super) cancelled: Number,
    pub(super) waiting: Number,
    pub(super) active: Number,
    prompt_tokens: Number,
    known_tokens: Number,
    generated_tokens: Number,
}

impl Metrics {
    /// Counts the tokens of an answer that has ended, also where the client has left.
    pub(super) fn count(&self, generated: &Generated) {
        self.prompt_tokens.add(generated.prompt);
        self.known_tokens.add(generated.prompt - generated.read);
        self.generated_tokens.add(generated.written);
    }

    /// Counts the tokens of texts whose embeddings are computed, or were until the client left.
    pub(super) fn count_texts(&self, tokens: usize) {
        self.prompt_tokens.add(tokens);
    }

    pub(super) fn text(&self) -> String {
        let rows = [
            ("requests_total", "counter", "Requests for text and for embeddings.", &self.requests),
            ("requests_refused_total", "counter", "Requests that found the queue full.", &self.refused),
            ("requests_failed_total", "counter", "Requests that ended with an error of the model.", &self.failed),
            ("requests_cancelled_total", "counter", "Requests whose client left.", &self.cancelled),
            ("requests_waiting", "gauge", "Requests that wait for a conversation.", &self.waiting),
            ("requests_active", "gauge", "Requests that are answered now.", &self.active),
            ("prompt_tokens_total", "counter", "Tokens of prompts and of embedded texts.", &self.prompt_tokens),
            ("prompt_tokens_known_total", "counter", "Tokens of prompts that were not read again.", &self.known_tokens),
            ("generated_tokens_total", "counter", "Tokens that were generated.", &self.generated_tokens),
        ];
        let mut text = String::new();
        for (name, kind, help, number) in rows {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "# HELP incarnate_{name} {help}\n# TYPE incarnate_{name} {kind}\nincarnate_{name} {}",
                number.get()
            );
        }
        text
    }
}
