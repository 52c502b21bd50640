//! Mixtures of experts, each of whose tensors is stored by itself.

use std::collections::{BTreeMap, HashSet};

use incarnate_bytecode::{Error, Result};

use super::super::checkpoint::{Checkpoint, ExpertOrder, Stored};
use super::super::names::{ExpertNames, Placement};
use super::element_type;
use super::facts::Facts;
use super::family::ExpertRule;
use crate::{ElementType, SafetensorsTensor, Value, shown};

/// The keys of the number of experts: what newer files have, and what older ones have.
const COUNTS: [&str; 2] = ["num_local_experts", "num_experts"];
/// Settings of training.
const WITHOUT_EFFECT: &[&str] = &["output_router_logits", "router_aux_loss_coef", "router_jitter_noise"];
/// The gate, `up` and `down`.
const PARTS: usize = 3;

/// Reads the number of experts.
pub(super) fn count(facts: &Facts<'_>) -> Result<u64> {
    let [local, all] = COUNTS.map(|key| facts.count(key));
    match (local?, all?) {
        (Some(local), Some(all)) if local != all => Err(Error::invalid_argument(format!(
            "'{}' is {local}, and '{}' is {all}",
            facts.key(COUNTS[0]),
            facts.key(COUNTS[1])
        ))),
        (Some(count), _) | (None, Some(count)) if count > 0 => Ok(count),
        _ => Err(Error::invalid_argument(format!("there is no '{}' of 1 or more", facts.key(COUNTS[1])))),
    }
}

/// Returns the metadata that GGUF has for so many experts.
pub(super) fn metadata(facts: &Facts<'_>, rule: ExpertRule, count: u64) -> Result<Vec<(&'static str, Value)>> {
    let integer = |count: u64| Value::Integer(i128::from(count));
    let is_normalised = match rule.states_normalisation {
        true => facts.flag("norm_topk_prob", false)?,
        false => true,
    };
    let mut stated = vec![
        ("expert_count", integer(count)),
        ("expert_used_count", integer(facts.size("num_experts_per_tok")?)),
        ("expert_feed_forward_length", integer(facts.size(rule.size)?)),
        ("expert_weights_norm", Value::Bool(is_normalised)),
    ];
    if rule.has_shared {
        stated.push(("expert_shared_feed_forward_length", integer(facts.size("shared_expert_intermediate_size")?)));
    }
    if rule.states_layers {
        const STEP: &str = "decoder_sparse_step";
        const DENSE: &str = "mlp_only_layers";
        let step = facts.count(STEP)?.unwrap_or(1);
        let dense = facts.list(DENSE, "numbers", serde_json::Value::as_u64)?.unwrap_or_default();
        if step != 1 || !dense.is_empty() {
            let key = facts.key(if step == 1 { DENSE } else { STEP });
            return Err(Error::unimplemented(format!("'{key}' with layers that have no experts")));
        }
    }
    facts.ignore(WITHOUT_EFFECT);
    Ok(stated)
}

/// The tensors of experts, in the order of the files.
pub(super) struct ExpertTensors {
    names: ExpertNames,
    placement: Placement,
    count: u64,
    layers: BTreeMap<u64, Vec<ExpertTensor>>,
}

struct ExpertTensor {
    expert: u64,
    /// See [`PARTS`].
    part: usize,
    name: String,
    element_type: ElementType,
    shape: Vec<u64>,
}

impl ExpertTensors {
    /// Returns no tensors of so many experts.
    pub(super) fn new(names: ExpertNames, placement: Placement, count: u64) -> ExpertTensors {
        ExpertTensors { names, placement, count, layers: BTreeMap::new() }
    }

    /// Adds a tensor, and returns whether it is one of an expert.
    pub(super) fn add(&mut self, tensor: &SafetensorsTensor) -> Result<bool> {
        let Some((layer, expert, part)) = self.names.parse(self.placement, &tensor.name) else { return Ok(false) };
        let (name, shape, element_type) = (tensor.name.clone(), tensor.shape.clone(), element_type(tensor)?);
        self.layers.entry(layer).or_default().push(ExpertTensor { expert, part, name, element_type, shape });
        Ok(true)
    }

    /// Adds parameters of all experts of each layer. They name the tensors in the order of the files, in which tensors that are one behind the
    /// other need not be copied: one for all tensors, or one each for all gates, all `up` and all `down`.
    pub(super) fn add_to(self, checkpoint: &mut Checkpoint, layers: u64) -> Result<()> {
        if let Some(layer) = (0..layers).find(|layer| !self.layers.contains_key(layer)) {
            return Err(self.missing(layer, 0, 0));
        }
        for (layer, tensors) in &self.layers {
            self.add_layer(checkpoint, *layer, tensors)?;
        }
        Ok(())
    }

    fn missing(&self, layer: u64, expert: u64, part: usize) -> Error {
        let name = self.names.key(self.placement, layer, &[expert], &[part]);
        Error::not_found(format!("the file has no tensor '{name}'"))
    }

    fn add_layer(&self, checkpoint: &mut Checkpoint, layer: u64, tensors: &[ExpertTensor]) -> Result<()> {
        let (experts, parts) = self.order(layer, tensors)?;
        let gate = tensors.iter().find(|tensor| tensor.part == 0).ok_or_else(|| self.missing(layer, 0, 0))?;
        let (element_type, shape) = (gate.element_type, &gate.shape);
        let transposed: Vec<u64> = shape.iter().rev().copied().collect();
        for tensor in tensors {
            let expected = if tensor.part == PARTS - 1 { &transposed } else { shape };
            if tensor.shape != *expected || tensor.element_type != element_type {
                let (name, shape, found) = (shown(&tensor.name), &tensor.shape, tensor.element_type);
                return Err(Error::invalid_argument(format!(
                    "the tensor '{name}' is {found} {shape:?} instead of {element_type} {expected:?}"
                )));
            }
        }
        let mut add = |name: &str, parts: &[usize], shape: Vec<u64>| {
            let (name, key) =
                (format!("blk.{layer}.{name}.weight"), self.names.key(self.placement, layer, &experts, parts));
            checkpoint.add(Stored { name, key, element_type, shape });
        };
        let position = |part: usize| (0..).zip(&parts).find(|row| *row.1 == part).map_or(0, |row| row.0);
        let parts = if is_by_part(tensors) {
            for (part, name) in ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"].into_iter().enumerate() {
                let shape = if part == PARTS - 1 { &transposed } else { shape };
                add(name, &[part], [&[self.count], &shape[..]].concat());
            }
            None
        } else {
            add("ffn_exps", &parts, [&[self.count, PARTS as u64], &shape[..]].concat());
            Some([0, 1, 2].map(position))
        };
        let mut sorted: Vec<(u64, u32)> = experts.into_iter().zip(0..).collect();
        sorted.sort_unstable();
        let experts = sorted.into_iter().map(|row| row.1).collect();
        checkpoint.set_expert_order(format!("blk.{layer}"), ExpertOrder { parts, experts });
        Ok(())
    }

    /// Returns the experts of a layer and the parts of an expert in the order in which the first tensor of each is in the file. Checks that
    /// there are all, once.
    fn order(&self, layer: u64, tensors: &[ExpertTensor]) -> Result<(Vec<u64>, Vec<usize>)> {
        let (mut experts, mut parts) = (Vec::new(), Vec::new());
        let (mut seen, mut seen_experts) = (HashSet::new(), HashSet::new());
        for tensor in tensors {
            if tensor.expert >= self.count {
                let (name, count) = (shown(&tensor.name), self.count);
                return Err(Error::invalid_argument(format!("the tensor '{name}' of a model of {count} experts")));
            }
            seen.insert((tensor.expert, tensor.part));
            if seen_experts.insert(tensor.expert) {
                experts.push(tensor.expert);
            }
            if !parts.contains(&tensor.part) {
                parts.push(tensor.part);
            }
        }
        let mut all = (0..self.count).flat_map(|expert| (0..PARTS).map(move |part| (expert, part)));
        match all.find(|of| !seen.contains(of)) {
            Some((expert, part)) => Err(self.missing(layer, expert, part)),
            None => Ok((experts, parts)),
        }
    }
}

/// Whether all gates are one behind the other, all `up` and all `down`.
fn is_by_part(tensors: &[ExpertTensor]) -> bool {
    tensors.windows(2).filter(|pair| matches!(pair, [one, other] if one.part != other.part)).count() < PARTS
}
