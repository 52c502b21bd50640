//! The models of ONNX's node tests: each is imported or refused as listed, and damaged ones end in a module or one line.
//!
//! `onnx/node-tests fixture` writes the models; values are compared by `.ci/onnx`, which needs IREE's compiler.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use bytes::Bytes;
use incarnate_onnx::{Model, Options, import};

/// Names and bytes of the models, each behind its length in 4 bytes.
static MODELS: &[u8] = include_bytes!("node_models.bin");

/// Models that are refused, and a part of the reason.
const REFUSED: &str = include_str!("refused.txt");

fn models() -> Vec<(&'static str, &'static [u8])> {
    let mut rest = MODELS;
    let mut next = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        Some(part)
    };
    let mut models = Vec::new();
    while let Some(name) = next() {
        models.push((core::str::from_utf8(name).unwrap(), next().unwrap()));
    }
    models
}

/// Returns MLIR, or the line of an error.
fn imported(bytes: Bytes) -> Result<String, String> {
    let model = Model::decode(bytes, "nowhere").map_err(|error| error.to_string())?;
    let portable = import(&model, &Options { is_portable: true, ..Options::default() });
    let any = import(&model, &Options::default());
    assert_eq!(portable.as_ref().err().map(ToString::to_string), any.as_ref().err().map(ToString::to_string));
    any.map(|imported| imported.mlir).map_err(|error| error.to_string())
}

#[test]
fn each_model_is_imported_or_refused_as_listed() {
    let mut refused: BTreeMap<&str, &str> =
        REFUSED.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').unwrap()).collect();
    let mut wrong = Vec::new();
    for (name, bytes) in models() {
        match (imported(Bytes::from_static(bytes)), refused.remove(name)) {
            (Ok(mlir), None) => {
                assert!(mlir.starts_with("module {\n") && mlir.contains("func.func @"), "{name}: {mlir}")
            }
            (Ok(_), Some(_)) => wrong.push(format!("{name} is imported, and listed as refused")),
            (Err(error), Some(reason)) if error.contains(reason) && error.lines().count() == 1 => {}
            (Err(error), _) => wrong.push(format!("{name} {error}")),
        }
    }
    wrong.extend(refused.keys().map(|name| format!("{name} is listed, and no model")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A generator of numbers: PCG's output permutation of a linear congruence.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = ((self.0 >> ((self.0 >> 59) + 5)) ^ self.0).wrapping_mul(12_605_985_483_714_917_081);
        (word >> 33) as usize % bound.max(1)
    }
}

/// The environment variable `MUTATIONS` asks for so many damaged copies of each model; without it, every third model has one.
#[test]
fn damaged_models_end_in_a_module_or_one_line() {
    let mut random = Random(60);
    let models = models();
    let asked: Option<usize> = std::env::var("MUTATIONS").ok().and_then(|text| text.parse().ok());
    for _ in 0..asked.unwrap_or(1) {
        for (name, bytes) in models.iter().step_by(if asked.is_some() { 1 } else { 3 }) {
            let damaged = damaged(bytes, models[random.below(models.len())].1, &mut random);
            if let Err(error) = imported(Bytes::from(damaged)) {
                assert_eq!(error.lines().count(), 1, "{name}: {error}");
            }
        }
    }
}

/// A copy of a model with some bytes changed, removed, or added, also those of another model.
fn damaged(bytes: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(damaged.len());
        match random.below(5) {
            0 => damaged[at] = random.below(256) as u8,
            1 => damaged[at] ^= 1 << random.below(8),
            2 => drop(damaged.remove(at)),
            3 => damaged.insert(at, 0xFF),
            _ => {
                let from = random.below(other.len());
                let piece = other[from..].iter().take(1 + random.below(40)).copied();
                drop(damaged.splice(at..at, piece));
            }
        }
    }
    damaged
}
