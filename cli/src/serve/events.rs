//! The stream of an answer: an event for each part.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::Event;
use futures_core::Stream;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::api_error::ApiError;
use super::responses::Head;
use super::scheduler::Part;

/// The events of an answer. A client that leaves drops it, which ends the answer.
#[derive(Debug)]
pub(super) struct Events {
    head: Head,
    parts: UnboundedReceiver<Part>,
    /// Whether the stream ends with the numbers of tokens.
    includes_usage: bool,
    /// Events that are sent before the next part.
    ready: VecDeque<String>,
    has_ended: bool,
}

impl Events {
    pub(super) fn new(head: Head, parts: UnboundedReceiver<Part>, includes_usage: bool) -> Events {
        let ready = head.start().iter().map(Value::to_string).collect();
        Events { head, parts, includes_usage, ready, has_ended: false }
    }

    fn take(&mut self, part: Option<Part>) {
        match part {
            Some(Part::Text(text, probabilities)) => {
                self.ready.push_back(self.head.part(&text, probabilities.as_ref()).to_string());
            }
            Some(Part::End(generated)) => {
                self.ready.push_back(self.head.end(&generated).to_string());
                if self.includes_usage {
                    self.ready.push_back(self.head.usage(&generated).to_string());
                }
                self.end();
            }
            Some(Part::Failed(error)) => self.fail(&ApiError::from(error)),
            None => self.fail(&ApiError::ending()),
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.ready.push_back(error.body().to_string());
        self.end();
    }

    fn end(&mut self) {
        self.ready.push_back("[DONE]".to_owned());
        self.has_ended = true;
    }
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Event::default().data(data))));
            }
            if self.has_ended {
                return Poll::Ready(None);
            }
            let part = ready!(self.parts.poll_recv(context));
            self.take(part);
        }
    }
}
