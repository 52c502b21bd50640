//! Nests of counted loops over buffers, before the loops that they are: all turns in one go, where one check before shows that
//! none of the accesses fails.
//!
//! What stands behind a nest is the loop as the bytecode has it, with its checks. It does the last turn, if that is the one
//! whose test fails; or all of them, if an access of one of them may fail: then it fails where the bytecode does.

mod emit;
mod report;
mod tiled;

use incarnate_runtime::ir::Value;
use incarnate_runtime::ir::nest::{Affine, Needed, Nest};

use super::tree::{Body, Node, Sequence};
pub(crate) use report::report;
pub use report::{LoopFate, LoopReport};

/// Puts nests before the loops that they are.
pub(super) fn insert(body: &Body<'_>, sequence: &mut Sequence) {
    for node in core::mem::take(sequence) {
        let header = match &node {
            Node::Loop { header, .. } | Node::While { header, .. } => Some(*header),
            _ => None,
        };
        let found = body.nests.found.iter().position(|nest| Some(nest.loops[0].header) == header);
        sequence.extend(found.map(|index| Node::Nest(index as u32)));
        sequence.push(node);
    }
    for node in sequence {
        node.children_mut().into_iter().for_each(|child| insert(body, child));
    }
}

/// The values of the function around that a nest looks at, and those that it assigns.
pub(super) fn accesses(body: &Body<'_>, nest: &Nest) -> (Vec<Value>, Vec<Value>) {
    let needed = Needed::of(body.function, nest);
    let mut read = Vec::new();
    nest.views.iter().for_each(|view| {
        read.push(view.buffer);
        read.extend(view.index.factors());
    });
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
    // What is made within is of no concern outside.
    let made: Vec<Value> = made(body, nest);
    read.retain(|value| !made.contains(value));
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
fn made(body: &Body<'_>, nest: &Nest) -> Vec<Value> {
    let mut made = Vec::new();
    for place in nest.instructions().chain(nest.hoisted.iter().copied()) {
        made.extend(nest.instruction(body.function, place.0, place.1).results.iter().copied());
    }
    for counted in nest.loops[1..].iter().filter(|counted| counted.header != nest.loops[0].header) {
        made.extend(body.block(counted.header).parameters.iter().copied());
    }
    made
}
