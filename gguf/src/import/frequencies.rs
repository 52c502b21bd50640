//! Frequencies of rotary embeddings, of metadata. Source of YaRN: `rope_yarn` of ggml, and its factors in `llama-context.cpp`.

use core::f64::consts::TAU;

use incarnate_bytecode::{Error, Result};

use super::architecture::{Architecture, LocalRotation};
use super::metadata::Metadata;
use crate::shown;

/// The frequencies of the pairs of a head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frequencies {
    base: f64,
    /// The elements of a head that are rotated.
    pub(super) rotated: i64,
    scaling: Scaling,
    /// What cosines and sines are multiplied by.
    pub(super) magnitude: f64,
}

/// How frequencies are scaled, for more positions than a model was trained with first.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scaling {
    /// All are divided by a number.
    Divided(f64),
    /// Those of the pairs from `last` on are divided by `factor`, those up to `first` are not, and those between are between.
    Yarn { factor: f64, first: f64, last: f64 },
}

impl Frequencies {
    /// Reads the frequencies of layers without a sliding window, and of those with one.
    pub(super) fn of(metadata: &Metadata<'_>, architecture: &Architecture, rotated: i64) -> Result<[Frequencies; 2]> {
        let base = metadata.number_or("rope.freq_base", 10_000.0)?;
        let (scaling, magnitude) = scaling(metadata, base, rotated)?;
        let magnitude = magnitude * metadata.number_or("rope.scaling.attn_factor", 1.0)?;
        let all = Frequencies { base, rotated, scaling, magnitude };
        let local_base = match architecture.local_rotation {
            LocalRotation::Base(base) => base,
            LocalRotation::Same | LocalRotation::Unscaled => base,
        };
        let local_base = metadata.number_or("rope.freq_base_swa", local_base)?;
        if [base, local_base].iter().any(|base| *base <= 0.0) {
            return Err(Error::invalid_argument("the base of rotary embeddings is not positive"));
        }
        let local = match architecture.local_rotation {
            LocalRotation::Same => Frequencies { base: local_base, ..all },
            LocalRotation::Unscaled | LocalRotation::Base(_) => {
                Frequencies { base: local_base, rotated, scaling: Scaling::Divided(1.0), magnitude: 1.0 }
            }
        };
        Ok([all, local])
    }

    /// The frequency of a pair: what positions are multiplied by.
    pub(super) fn of_pair(&self, pair: i64) -> f32 {
        let exponent = -2.0 * pair as f64 / self.rotated as f64;
        let frequency = self.base.powf(exponent);
        let scaled = match self.scaling {
            Scaling::Divided(divisor) => frequency / divisor,
            Scaling::Yarn { factor, first, last } => {
                let way = ((pair as f64 - first) / (last - first).max(0.001)).clamp(0.0, 1.0);
                frequency / factor * way + frequency * (1.0 - way)
            }
        };
        scaled as f32
    }
}

/// Reads how frequencies are scaled, and the magnitude that belongs to it.
fn scaling(metadata: &Metadata<'_>, base: f64, rotated: i64) -> Result<(Scaling, f64)> {
    let kind = metadata.checkpoint.text(&metadata.key("rope.scaling.type")).unwrap_or("linear");
    // The key of older files.
    let factor = metadata.scale_or("rope.scale_linear", 1.0)?;
    let factor = metadata.scale_or("rope.scaling.factor", factor)?;
    let names = ["yarn_beta_fast", "yarn_beta_slow", "yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor"];
    match kind {
        "none" => Ok((Scaling::Divided(1.0), 1.0)),
        // The factors of LongRoPE are tensors.
        "linear" | "longrope" => Ok((Scaling::Divided(factor), 1.0)),
        "yarn" if factor > 0.0 => {
            let trained = metadata.size("context_length")?;
            let trained = metadata.optional_size("rope.scaling.original_context_length")?.unwrap_or(trained) as f64;
            let [fast, slow, multiplier, extrapolation, magnitude] = names.map(|name| format!("rope.scaling.{name}"));
            let (fast, slow) = (metadata.number_or(&fast, 32.0)?, metadata.number_or(&slow, 1.0)?);
            let multiplier = metadata.number_or(&multiplier, 0.0)?;
            for name in [&extrapolation, &magnitude] {
                if metadata.number_or(name, 1.0)? != 1.0 {
                    return Err(Error::unimplemented(format!("'{}' other than 1", metadata.key(name))));
                }
            }
            // The pair that turns so many times within the positions of training.
            let pair = |turns: f64| rotated as f64 * (trained / (turns * TAU)).ln() / (2.0 * base.ln());
            let (first, last) = (pair(fast).floor().max(0.0), pair(slow).ceil().min((rotated - 1) as f64));
            if !first.is_finite() || !last.is_finite() {
                return Err(Error::invalid_argument("rotary embeddings that YaRN does not scale to numbers"));
            }
            let magnitude = |of: f64| if factor <= 1.0 { 1.0 } else { 0.1 * of * factor.ln() + 1.0 };
            let magnitude = if multiplier == 0.0 { magnitude(1.0) } else { magnitude(1.0) / magnitude(multiplier) };
            Ok((Scaling::Yarn { factor, first, last }, magnitude))
        }
        other => Err(Error::unimplemented(format!(
            "rotary embeddings that are scaled by '{}', {factor} times",
            shown(other)
        ))),
    }
}
