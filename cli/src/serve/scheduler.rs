//! The thread of the model: prompts are read one after the other, in parts, and the next tokens of all texts are computed together.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use incarnate_runtime::Error;
use incarnate_text::{
    Answer, Constraint, Conversation, Generated, Generation, LanguageModel, LogProbabilities, Sampler, Step, StopTexts,
    Tokenizer,
};
use tokio::sync::mpsc::UnboundedSender;

use super::embeddings::EmbeddingJob;
use super::metrics::Metrics;

/// A request.
#[derive(Debug)]
pub(super) enum Job {
    Text(TextJob),
    Embeddings(EmbeddingJob),
}

/// A request for text.
#[derive(Debug)]
pub(super) struct TextJob {
    pub(super) prompt: Vec<u32>,
    pub(super) sampler: Sampler,
    pub(super) stop: StopTexts,
    /// The most tokens of the text.
    pub(super) limit: usize,
    /// What the text follows.
    pub(super) constraint: Option<Constraint>,
    /// How many of the likeliest tokens are listed for each token of the text, if the client asked for log probabilities.
    pub(super) log_probabilities: Option<usize>,
    /// Takes the text. A client that leaves closes it. At most `limit` parts are in it.
    pub(super) parts: UnboundedSender<Part>,
}

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Part {
    /// Whole characters, or none, and the token that was drawn for them, if the client asked for log probabilities.
    Text(String, Option<LogProbabilities>),
    /// The answer has ended.
    End(Generated),
    /// The model failed.
    Failed(Error),
}

/// A conversation that the model keeps, and the answer in it.
struct Slot<'a> {
    conversation: Conversation,
    /// When it was used last.
    used: u64,
    answer: Option<(Answer<'a, Sampler>, UnboundedSender<Part>)>,
    /// Texts that take the place of the conversation.
    embeddings: Option<EmbeddingJob>,
}

impl Slot<'_> {
    fn is_free(&self) -> bool {
        self.answer.is_none() && self.embeddings.is_none()
    }
}

/// Answers jobs until no sender of them is left and all are answered.
pub(super) fn run(model: &mut impl LanguageModel, tokenizer: &Tokenizer, jobs: &Receiver<Job>, metrics: &Metrics) {
    let conversations = (0..model.slots().max(1)).map(Conversation::in_slot);
    let mut slots: Vec<Slot<'_>> =
        conversations.map(|conversation| Slot { conversation, used: 0, answer: None, embeddings: None }).collect();
    let mut clock = 0;
    let mut is_open = true;
    while is_open || !slots.iter().all(Slot::is_free) {
        while is_open && slots.iter().any(Slot::is_free) {
            let is_idle = slots.iter().all(Slot::is_free);
            let job = if is_idle { jobs.recv().map_err(|_| TryRecvError::Disconnected) } else { jobs.try_recv() };
            match job {
                Ok(job) => {
                    clock += 1;
                    metrics.waiting.subtract(1);
                    admit(job, &mut slots, (model.context(), tokenizer, clock), metrics);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => is_open = false,
            }
        }
        turn(model, &mut slots, metrics);
        for slot in &mut slots {
            step_embeddings(model, slot, metrics);
        }
    }
}

/// Gives a job the free slot that has most of its prompt, and of those the one that was used the longest time ago.
fn admit<'a>(
    job: Job,
    slots: &mut [Slot<'a>],
    (context, tokenizer, clock): (usize, &'a Tokenizer, u64),
    metrics: &Metrics,
) {
    let job = match job {
        Job::Text(job) => job,
        Job::Embeddings(job) => return admit_embeddings(job, slots, clock, metrics),
    };
    let free = slots.iter_mut().filter(|slot| slot.is_free());
    let best = free.max_by_key(|slot| (slot.conversation.known(&job.prompt), core::cmp::Reverse(slot.used)));
    let Some(slot) = best else { return };
    let TextJob { prompt, sampler, stop, limit, constraint, log_probabilities, parts } = job;
    slot.used = clock;
    let generation = Generation { tokenizer, sampler, stop, limit, constraint, log_probabilities };
    match slot.conversation.begin(context, prompt, generation) {
        Ok(answer) => {
            metrics.active.add(1);
            slot.answer = Some((answer, parts));
        }
        Err(error) => {
            metrics.failed.add(1);
            // A client that has left needs no answer.
            let _ = parts.send(Part::Failed(error));
        }
    }
}

/// Gives a job for embeddings the free slot that was used the longest time ago.
fn admit_embeddings(job: EmbeddingJob, slots: &mut [Slot<'_>], clock: u64, metrics: &Metrics) {
    let free = slots.iter_mut().filter(|slot| slot.is_free());
    if let Some(slot) = free.min_by_key(|slot| slot.used) {
        metrics.active.add(1);
        (slot.used, slot.embeddings) = (clock, Some(job));
    }
}

/// Has the model go on with embeddings.
fn step_embeddings(model: &mut impl LanguageModel, slot: &mut Slot<'_>, metrics: &Metrics) {
    let Some(mut job) = slot.embeddings.take() else { return };
    if job.is_abandoned() {
        metrics.cancelled.add(1);
    } else {
        match job.step(model, &mut slot.conversation) {
            Ok(true) => {
                slot.embeddings = Some(job);
                return;
            }
            result => {
                metrics.failed.add(usize::from(result.is_err()));
                job.end(result.map(|_| ()));
            }
        }
    }
    metrics.active.subtract(1);
}

/// Has the model go on with all answers: prompts are read one after the other, and the next tokens of texts together.
fn turn(model: &mut impl LanguageModel, slots: &mut [Slot<'_>], metrics: &Metrics) {
    let (mut steps, mut owners) = (Vec::new(), Vec::new());
    for (owner, slot) in slots.iter_mut().enumerate() {
        slot.end_if_left(metrics);
        let Some((answer, _)) = &slot.answer else { continue };
        let (position, number) = (slot.conversation.tokens().len(), slot.conversation.slot());
        match answer.pending(&slot.conversation) {
            [token] => {
                steps.push(Step { slot: number, token: *token, position });
                owners.push(owner);
            }
            tokens => match model.logits(number, tokens, position) {
                Ok(logits) => slot.advance(logits, metrics),
                Err(error) => slot.fail(error, metrics),
            },
        }
    }
    let mut is_done = vec![false; steps.len()];
    let done = model.logits_of_steps(&steps, &mut |step, logits| {
        if let (Some(owner), Some(is_done)) = (owners.get(step), is_done.get_mut(step)) {
            slots[*owner].advance(logits, metrics);
            *is_done = true;
        }
    });
    if let Err(error) = done {
        let failed = owners.iter().zip(&is_done).filter(|(_, is_done)| !**is_done);
        failed.for_each(|(owner, _)| slots[*owner].fail(error.clone(), metrics));
    }
}

impl Slot<'_> {
    /// Ends an answer whose client has left.
    fn end_if_left(&mut self, metrics: &Metrics) {
        let left = self.answer.take_if(|(_, parts)| parts.is_closed());
        if let Some((answer, _)) = left {
            metrics.cancelled.add(1);
            metrics.count(&answer.generated());
            metrics.active.subtract(1);
        }
    }

    /// Takes the logits behind what the model has read. Sending fails where the client has left, which the next turn finds.
    fn advance(&mut self, logits: &mut [f32], metrics: &Metrics) {
        let Some((answer, parts)) = &mut self.answer else { return };
        let text = match answer.advance(&mut self.conversation, logits) {
            Ok(text) => text,
            Err(error) => return self.fail(error, metrics),
        };
        let log_probabilities = answer.log_probabilities().cloned();
        if !text.is_empty() || log_probabilities.is_some() {
            let _ = parts.send(Part::Text(text, log_probabilities));
        }
        if let Some(generated) = answer.finish() {
            metrics.count(&generated);
            let _ = parts.send(Part::End(generated));
            metrics.active.subtract(1);
            self.answer = None;
        }
    }

    /// Ends an answer with an error of the model.
    fn fail(&mut self, error: Error, metrics: &Metrics) {
        if let Some((_, parts)) = self.answer.take() {
            metrics.failed.add(1);
            let _ = parts.send(Part::Failed(error));
            metrics.active.subtract(1);
        }
    }
}

/// Starts the thread of a model.
pub(super) fn start(
    mut model: impl LanguageModel + Send + 'static,
    tokenizer: Arc<Tokenizer>,
    jobs: Receiver<Job>,
    metrics: Arc<Metrics>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("model".to_owned());
    thread.spawn(move || run(&mut model, &tokenizer, &jobs, &metrics))
}
