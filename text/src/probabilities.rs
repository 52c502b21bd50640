//! Probabilities of tokens, by the logits of a model.

/// The logarithm of a token's probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogProbability {
    /// The number of the token.
    pub token: u32,
    /// The natural logarithm of its probability, at least [`LogProbability::LEAST`].
    pub value: f32,
}

/// How probable a model took a token and those that were likelier: by its own logits, whatever the temperature, penalties and constraints were.
#[derive(Clone, Debug, PartialEq)]
pub struct LogProbabilities {
    /// The token that was drawn.
    pub drawn: LogProbability,
    /// The likeliest tokens, the likeliest first.
    pub likeliest: Vec<LogProbability>,
}

impl LogProbability {
    /// Stands for probabilities that are almost zero. Source: OpenAI's reference of chat completions.
    pub const LEAST: f32 = -9999.0;
}

impl LogProbabilities {
    /// Returns those of a token, and of the `count` likeliest ones. A NaN is no probability; of equal logits the first counts.
    ///
    /// ```
    /// use incarnate_text::LogProbabilities;
    ///
    /// let [once, twice] = [1f32, 2.0].map(f32::ln);
    /// let probabilities = LogProbabilities::of(&[once, twice], 0, 1);
    /// assert!((probabilities.drawn.value - (1.0f32 / 3.0).ln()).abs() < 1e-6);
    /// assert_eq!(probabilities.likeliest[0].token, 1);
    /// ```
    #[must_use]
    pub fn of(logits: &[f32], token: u32, count: usize) -> LogProbabilities {
        let numbers = || logits.iter().copied().filter(|logit| !logit.is_nan());
        let greatest = numbers().fold(f32::NEG_INFINITY, f32::max);
        // Infinite logits have no difference.
        let difference = |logit: f32| if logit == greatest { 0.0 } else { f64::from(logit) - f64::from(greatest) };
        let sum: f64 = numbers().map(|logit| difference(logit).exp()).sum();
        let probability = |(token, logit): (u32, f32)| {
            let value = (difference(logit) - sum.ln()) as f32;
            LogProbability { token, value: value.max(LogProbability::LEAST) }
        };
        let mut likeliest: Vec<(u32, f32)> = Vec::new();
        for (token, logit) in (0..).zip(logits.iter().copied()) {
            let is_likely = likeliest.len() < count || likeliest.last().is_some_and(|(_, last)| logit > *last);
            if is_likely && !logit.is_nan() {
                let position = likeliest.partition_point(|(_, other)| *other >= logit);
                likeliest.insert(position, (token, logit));
                likeliest.truncate(count);
            }
        }
        let drawn = logits.get(token as usize).copied().unwrap_or(f32::NAN);
        LogProbabilities {
            drawn: probability((token, drawn)),
            likeliest: likeliest.into_iter().map(probability).collect(),
        }
    }
}
