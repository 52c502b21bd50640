//! Sampling: which token follows, by the logits of a model.

use oorandom::Rand64;

/// How a [`Sampler`] selects tokens. The defaults are those of llama.cpp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits: less than 1 favours likely tokens. With 0 the most likely token is selected.
    pub temperature: f32,
    /// Keeps as many tokens with the greatest logits; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most likely tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keeps the tokens that are at least this fraction as probable as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive logits of recent tokens, and multiplies negative ones; 1 changes none.
    pub repetition_penalty: f32,
    /// The number of recent tokens that are penalised.
    pub repetition_window: usize,
    /// Equal seeds select equal tokens.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repetition_penalty: 1.0,
            repetition_window: 64,
            seed: 0,
        }
    }
}

/// Selects tokens: penalties, top-k, top-p, min-p, temperature, and a random draw, in this order, as llama.cpp does.
///
/// ```
/// use incarnate_text::{Sampler, SamplerOptions};
///
/// let mut sampler = Sampler::new(SamplerOptions { temperature: 0.0, ..SamplerOptions::default() });
/// assert_eq!(sampler.sample(&mut [0.5, 2.0, -1.0], &[]), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    random: Rand64,
    /// Kept from token to token for its memory.
    candidates: Vec<Candidate>,
    recent: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: u32,
    logit: f32,
}

impl Candidate {
    /// Greater logits first, and smaller tokens of equal logits. No logit is a NaN.
    fn order(&self, other: &Candidate) -> core::cmp::Ordering {
        other.logit.total_cmp(&self.logit).then(self.token.cmp(&other.token))
    }

    /// Returns the probability, as a fraction of that of the most likely token.
    fn weight(&self, greatest: f32) -> f64 {
        match self.logit == greatest {
            // Infinite logits have no difference.
            true => 1.0,
            false => f64::from(self.logit - greatest).exp(),
        }
    }
}

impl Sampler {
    /// Returns a sampler.
    #[must_use]
    pub fn new(options: SamplerOptions) -> Sampler {
        let random = Rand64::new(u128::from(options.seed));
        Sampler { options, random, candidates: Vec::new(), recent: Vec::new() }
    }

    /// Returns the token that follows `history`. `logits` has one number for each token and is changed; a NaN is never selected unless all are.
    /// Without logits the result is 0.
    pub fn sample(&mut self, logits: &mut [f32], history: &[u32]) -> u32 {
        logits.iter_mut().filter(|logit| logit.is_nan()).for_each(|logit| *logit = f32::NEG_INFINITY);
        self.penalise(logits, history);
        // Not greater than zero: a NaN is no temperature either.
        let is_greedy = !matches!(self.options.temperature.partial_cmp(&0.0), Some(core::cmp::Ordering::Greater));
        if is_greedy {
            return greatest(logits);
        }
        self.candidates.clear();
        self.candidates.extend((0..).zip(logits.iter()).map(|(token, logit)| Candidate { token, logit: *logit }));
        self.keep_top_k();
        self.keep_top_p();
        self.keep_min_p();
        self.draw()
    }

    fn penalise(&mut self, logits: &mut [f32], history: &[u32]) {
        let SamplerOptions { repetition_penalty: penalty, repetition_window: window, .. } = self.options;
        if penalty == 1.0 || !penalty.is_finite() || penalty <= 0.0 {
            return;
        }
        self.recent.clear();
        self.recent.extend(history.iter().rev().take(window));
        self.recent.sort_unstable();
        self.recent.dedup();
        for token in &self.recent {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    /// Sorts the candidates, at most `top_k` of them.
    fn keep_top_k(&mut self) {
        let count = self.options.top_k;
        if count > 0 && count < self.candidates.len() {
            self.candidates.select_nth_unstable_by(count - 1, Candidate::order);
            self.candidates.truncate(count);
        }
        self.candidates.sort_unstable_by(Candidate::order);
    }

    fn greatest(&self) -> f32 {
        self.candidates.first().map_or(0.0, |first| first.logit)
    }

    fn keep_top_p(&mut self) {
        let limit = f64::from(self.options.top_p);
        if limit < 1.0 {
            let greatest = self.greatest();
            let total: f64 = self.candidates.iter().map(|candidate| candidate.weight(greatest)).sum();
            let mut sum = 0.0;
            let reaches = |candidate: &Candidate| {
                sum += candidate.weight(greatest);
                sum >= limit * total
            };
            let last = self.candidates.iter().position(reaches);
            self.candidates.truncate(last.map_or(usize::MAX, |last| last + 1));
        }
    }

    fn keep_min_p(&mut self) {
        let (greatest, limit) = (self.greatest(), f64::from(self.options.min_p));
        if limit > 0.0 {
            let end = self.candidates.partition_point(|candidate| candidate.weight(greatest) >= limit);
            self.candidates.truncate(end.max(1));
        }
    }

    /// Selects a candidate by its probability at the temperature.
    fn draw(&mut self) -> u32 {
        let (greatest, temperature) = (self.greatest(), f64::from(self.options.temperature));
        let weight = |candidate: &Candidate| match candidate.logit == greatest {
            true => 1.0,
            false => (f64::from(candidate.logit - greatest) / temperature).exp(),
        };
        let total: f64 = self.candidates.iter().map(weight).sum();
        let mut rest = self.random.rand_float() * total;
        let ends_at = |candidate: &&Candidate| {
            rest -= weight(candidate);
            rest < 0.0
        };
        let drawn = self.candidates.iter().find(ends_at).or(self.candidates.first());
        drawn.map_or(0, |candidate| candidate.token)
    }
}

/// Returns the first token with the greatest logit.
fn greatest(logits: &[f32]) -> u32 {
    let mut found = (0, f32::NEG_INFINITY);
    for (token, logit) in (0..).zip(logits) {
        if *logit > found.1 {
            found = (token, *logit);
        }
    }
    found.0
}
