//! Nests of counted loops over buffers: the bounds of all accesses are checked once, before the loops run.
//!
//! A nest is emitted in front of the original loop, which keeps its checks. If the bounds hold, the nest runs all iterations
//! and the original loop only evaluates the test that ends it. Otherwise the nest does nothing, and the original loop fails
//! at the same access as the bytecode.

mod checks;
mod contraction;
mod division;
mod emit;
mod forms;
mod gather;
mod in_order;
mod instructions;
mod joined;
mod narrow;
mod passed;
#[cfg_attr(not(feature = "plans"), path = "no_plans.rs")]
mod plans;
mod products;
mod ranges;
mod remarks;
mod strips;
mod sums;
mod variants;
mod writer;

use std::collections::HashSet;

use incarnate_bytecode::ir::nest::{Accumulators, Affine, Needed, Nest, Nests, Order, Schedule, ScheduledNest};
use incarnate_bytecode::ir::{Function, Value};

use super::tree::{Body, Node, Sequence};
pub(crate) use remarks::remarks;
pub use remarks::{LoopOutcome, LoopRemark};

/// Returns why a nest is not emitted, if it is not.
pub(super) fn bail_out(function: &Function, nest: &Nest, untrusted: bool) -> Option<LoopOutcome> {
    if untrusted {
        return nest.decides_by_loaded_numbers(function).then_some(LoopOutcome::Racing);
    }
    // Untrusted nests without accesses take their steps at once.
    (nest.accesses.is_empty() && nest.gathers.is_empty()).then_some(LoopOutcome::WithoutAccess)
}

/// The nests of a function that are emitted.
pub(super) fn nests(function: &Function, untrusted: bool) -> Nests {
    let mut nests = Nests::of(function);
    nests.found.retain(|nest| bail_out(function, nest, untrusted).is_none());
    nests
}

/// Inserts nests in front of the loops that they replace. Returns which, as indices into the nests found.
pub(super) fn insert(body: &Body<'_>, sequence: &mut Sequence) -> HashSet<usize> {
    let mut inserted = HashSet::new();
    for node in core::mem::take(sequence) {
        let header = match &node {
            Node::Loop { header, .. } | Node::While { header, .. } => Some(*header),
            _ => None,
        };
        let found = header.and_then(|header| body.nests.position(header));
        inserted.extend(found);
        sequence.extend(found.map(|index| Node::Nest(index as u32)));
        sequence.push(node);
    }
    for node in sequence {
        node.children_mut().into_iter().for_each(|child| inserted.extend(insert(body, child)));
    }
    inserted
}

/// The buffers of a trusted function that need not be cleared, if these of its nests run.
pub(super) fn accumulators(body: &Body<'_>, running: &HashSet<usize>, order: Option<Order>) -> Accumulators {
    Accumulators::of(body.function, &body.nests, |at| {
        let (function, nest) = (body.function, &body.nests.found[at]);
        match running.contains(&at) {
            true => ScheduledNest::of(function, nest, order).schedule,
            false => Schedule::SCALAR,
        }
    })
}

/// The values of the enclosing function that a nest reads, and those that it assigns.
pub(super) fn accesses(body: &Body<'_>, nest: &Nest) -> (Vec<Value>, Vec<Value>) {
    let needed = Needed::of(body.function, nest);
    let mut read = Vec::new();
    nest.views.iter().for_each(|view| {
        read.push(view.buffer);
        read.extend(view.index.factors());
    });
    read.extend(nest.gathers.iter().map(|gather| gather.buffer));
    nest.conditions.iter().for_each(|condition| read.extend(condition.form.factors()));
    for counted in &nest.loops {
        read.extend(counted.test.first.factors().chain(counted.test.bound.factors()));
        read.extend(counted.divisor.iter().flat_map(Affine::factors));
        for induction in &counted.inductions {
            read.extend(induction.step.factors());
        }
    }
    let assigned: Vec<Value> = parameters(nest).collect();
    read.extend(needed.values().chain(assigned.iter().copied()));
    // Values defined in the nest are not read from outside.
    let defined: HashSet<Value> = defined(body, nest);
    read.retain(|value| !defined.contains(value));
    read.sort_unstable();
    read.dedup();
    (read, assigned)
}

/// The parameters of the outermost loop.
fn parameters(nest: &Nest) -> impl Iterator<Item = Value> {
    let root = &nest.loops[0];
    let inductions = root.inductions.iter().map(|induction| induction.parameter);
    inductions.chain(root.carried.iter().map(|carried| carried.parameter))
}

/// Results of instructions of a nest, and parameters of its inner loops.
fn defined(body: &Body<'_>, nest: &Nest) -> HashSet<Value> {
    let mut defined = HashSet::new();
    for (block, position) in nest.instructions().chain(nest.hoisted.iter().copied()) {
        defined.extend(nest.instruction(body.function, block, position).results.iter().copied());
    }
    for counted in nest.loops[1..].iter().filter(|counted| counted.header != nest.loops[0].header) {
        defined.extend(body.block(counted.header).parameters.iter().copied());
    }
    defined
}
