//! Rotary embeddings of `config.json`. Source: `modeling_rope_utils.py` of Hugging Face's `transformers`.

use core::f64::consts::TAU;

use incarnate_bytecode::{Error, Result};
use serde_json::Value;

use super::facts::Facts;
use super::family::Rotation;
use crate::shown;

/// Rotary embeddings, with the names that GGUF has for their numbers.
#[derive(Debug, Default)]
pub(super) struct Rope {
    /// Elements of a head that are rotated.
    pub(super) rotated: u64,
    /// The base of layers without a sliding window, and of those with one.
    pub(super) bases: (f64, Option<f64>),
    /// `linear`, `yarn` or `longrope`, if angles are scaled.
    pub(super) scaling: Option<&'static str>,
    pub(super) numbers: Vec<(&'static str, f64)>,
    /// Positions that a model was trained with before its angles were scaled.
    pub(super) original: Option<u64>,
    /// What the frequency of each pair is divided by.
    pub(super) divisors: Vec<(&'static str, Vec<f32>)>,
}

/// The keys of an object of rotary embeddings.
const PARAMETERS: &str = "rope_parameters";
const SCALING: &str = "rope_scaling";
const LAYER_TYPES: [&str; 2] = ["full_attention", "sliding_attention"];

/// Reads the rotary embeddings of heads of so many elements, of a model with so many positions.
pub(super) fn read(facts: &Facts<'_>, rotation: Rotation, (head_size, context): (u64, u64)) -> Result<Rope> {
    let (parameters, scaling) = (facts.object(PARAMETERS)?, facts.object(SCALING)?);
    if parameters.is_some() && scaling.is_some() {
        return Err(Error::invalid_argument(format!("there are both '{PARAMETERS}' and '{SCALING}'")));
    }
    let mut local = None;
    // Newer files have an object for each kind of layers, where these have embeddings of their own.
    let of_all = match parameters {
        Some(parameters) if rotation.local.is_some() => {
            let [full, sliding] = LAYER_TYPES.map(|key| parameters.object(key));
            local = sliding?.map(|sliding| local_base(&sliding)).transpose()?.flatten();
            let full = full?;
            parameters.check()?;
            full
        }
        parameters => parameters.or(scaling),
    };
    let (base, part) = (facts.number("rope_theta")?, facts.number("partial_rotary_factor")?);
    let own = |key| of_all.as_ref().map_or(Ok(None), |of_all| of_all.number(key));
    let base = own("rope_theta")?.or(base).unwrap_or(rotation.base);
    let rotated = (head_size as f64 * own("partial_rotary_factor")?.or(part).unwrap_or(1.0)) as u64;
    let mut rope = Rope { rotated, bases: (base, None), ..Rope::default() };
    if let Some(default) = rotation.local {
        let stated = default.map_or(Ok(None), |_| facts.number("rope_local_base_freq"))?;
        rope.bases.1 = Some(local.or(stated).or(default).unwrap_or(base));
    }
    let outside = facts.count("original_max_position_embeddings")?;
    if let Some(of_all) = &of_all {
        rope.scale(of_all, outside, context)?;
        of_all.check()?;
    }
    Ok(rope)
}

/// Returns the base of layers with a sliding window, whose angles must not be scaled.
fn local_base(facts: &Facts<'_>) -> Result<Option<f64>> {
    let base = facts.number("rope_theta")?;
    let kind = kind(facts)?;
    if kind != "default" {
        return Err(unsupported(facts, kind));
    }
    facts.check()?;
    Ok(base)
}

fn kind<'a>(facts: &Facts<'a>) -> Result<&'a str> {
    let (old, new) = (facts.text("type")?, facts.text("rope_type")?);
    Ok(new.or(old).unwrap_or("default"))
}

fn unsupported(facts: &Facts<'_>, kind: &str) -> Error {
    Error::unimplemented(format!("rotary embeddings of the type '{}' ('{}')", shown(kind), facts.key("rope_type")))
}

fn missing(facts: &Facts<'_>, key: &str) -> Error {
    Error::invalid_argument(format!("there is no '{}'", facts.key(key)))
}

impl Rope {
    fn scale(&mut self, facts: &Facts<'_>, outside: Option<u64>, context: u64) -> Result<()> {
        let kind = kind(facts)?;
        let stated = facts.count("original_max_position_embeddings")?;
        let original = outside.or(stated).unwrap_or(context).max(1);
        match kind {
            "default" => Ok(()),
            "linear" => {
                self.scaling = Some("linear");
                self.numbers.push(("factor", factor(facts, "factor")?));
                Ok(())
            }
            "llama3" => {
                let divisors = self.llama_3(facts, original)?;
                self.divisors.push(("rope_freqs.weight", divisors));
                Ok(())
            }
            "yarn" => self.yarn(facts, original),
            "longrope" | "su" => self.long_rope(facts, original, context),
            other => Err(unsupported(facts, other)),
        }
    }

    /// What frequencies are divided by: those of pairs that turn often within the positions of training are not.
    fn llama_3(&self, facts: &Facts<'_>, original: u64) -> Result<Vec<f32>> {
        let keys = ["factor", "low_freq_factor", "high_freq_factor"];
        let [factor, low, high] = keys.map(|key| factor(facts, key));
        let (factor, low, high) = (factor?, low?, high?);
        if low >= high {
            let keys = [keys[1], keys[2]].map(|key| facts.key(key));
            return Err(Error::invalid_argument(format!("'{}' is not below '{}'", keys[0], keys[1])));
        }
        let original = original as f64;
        let divisor = |pair: u64| {
            let length = TAU * self.bases.0.powf(2.0 * pair as f64 / self.rotated as f64);
            let smooth = ((original / length - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        };
        Ok((0..self.rotated / 2).map(divisor).collect())
    }

    fn yarn(&mut self, facts: &Facts<'_>, original: u64) -> Result<()> {
        let factor = factor(facts, "factor")?;
        if !facts.flag("truncate", true)? {
            return Err(Error::unimplemented(format!("'{}' of false", facts.key("truncate"))));
        }
        let magnitude = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
        let scales = (facts.number("mscale")?, facts.number("mscale_all_dim")?);
        let inferred = match scales {
            (Some(scale), Some(all)) if scale != 0.0 && all != 0.0 => magnitude(scale) / magnitude(all),
            _ => magnitude(1.0),
        };
        let stated = facts.number("attention_factor")?;
        self.scaling = Some("yarn");
        self.original = Some(original);
        self.numbers.push(("factor", factor));
        // GGUF's factor is one beside that of YaRN.
        self.numbers.push(("attn_factor", stated.unwrap_or(inferred) / magnitude(1.0)));
        for (key, name) in [("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")] {
            let turns = facts.number(key)?.filter(|turns| *turns != 0.0);
            self.numbers.extend(turns.map(|turns| (name, turns)));
        }
        Ok(())
    }

    fn long_rope(&mut self, facts: &Facts<'_>, original: u64, context: u64) -> Result<()> {
        for (key, name) in [("short_factor", "rope_factors_short.weight"), ("long_factor", "rope_factors_long.weight")]
        {
            let divisors = facts.list(key, "numbers", Value::as_f64)?.ok_or_else(|| missing(facts, key))?;
            let pairs = self.rotated / 2;
            if divisors.len() as u64 != pairs || divisors.iter().any(|divisor| *divisor <= 0.0) {
                let (key, count) = (facts.key(key), divisors.len());
                return Err(Error::invalid_argument(format!("'{key}' has {count} numbers, not {pairs} above 0")));
            }
            self.divisors.push((name, divisors.into_iter().map(|divisor| divisor as f32).collect()));
        }
        let factor = facts.number("factor")?.unwrap_or(context as f64 / original as f64);
        let inferred = match factor <= 1.0 || original < 2 {
            true => 1.0,
            false => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
        };
        self.scaling = Some("longrope");
        self.original = Some(original);
        self.numbers.push(("attn_factor", facts.number("attention_factor")?.unwrap_or(inferred)));
        Ok(())
    }
}

/// Returns a number that must be there, and above 0.
fn factor(facts: &Facts<'_>, key: &'static str) -> Result<f64> {
    facts.number(key)?.filter(|factor| *factor > 0.0).ok_or_else(|| {
        let key = facts.key(key);
        Error::invalid_argument(format!("there is no '{key}' above 0"))
    })
}
