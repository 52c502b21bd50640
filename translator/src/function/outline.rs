//! Outlining: bodies that are too long are split into functions of bounded size.
//!
//! A run of consecutive statements with a single entry and a single exit becomes a function. Nested sequences are outlined
//! first; a sequence that is still too long is outlined again.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::ir::{Label, Op, Type, Value};

use super::shared;
use super::tree::{Access, Body, Node, Outlined, Sequence};

/// The largest weight of a function; an instruction weighs about 1.
const LIMIT: u32 = 240;
/// The weight at which a run of statements becomes an outlined function.
const TARGET: u32 = 100;

/// The parameters that operations require of the function around them.
pub(super) trait Needs {
    /// Whether an operation takes the state, and whether it takes the stack.
    fn needs(&self, op: &Op) -> (bool, bool);

    /// Whether loops take the stack, to count iterations against the fuel.
    fn counts_iterations(&self) -> bool;
}

/// Outlines functions from a body and returns their number. Nests become functions of their own where `shares_nests`.
pub(super) fn outline(body: &Body<'_>, needs: &dyn Needs, sequence: &mut Sequence, shares_nests: bool) -> u32 {
    let mut outliner = Outliner { body, needs, totals: HashMap::new(), outlined: 0 };
    let has_nests = shares_nests && !body.nests.found.is_empty();
    if !has_nests && outliner.weight_of(sequence) <= LIMIT {
        return 0;
    }
    let mut totals = HashMap::new();
    accesses(body, sequence, &mut totals);
    outliner.totals = totals;
    if has_nests {
        outliner.nests(sequence);
    }
    if outliner.weight_of(sequence) > LIMIT {
        outliner.sequence(sequence);
    }
    outliner.outlined
}

/// The numbers of definitions and uses of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    defined: u32,
    used: u32,
    moved: bool,
}

impl Count {
    fn add(&mut self, other: &Count) {
        self.defined += other.defined;
        self.used += other.used;
        self.moved |= other.moved;
    }
}

type Counts = HashMap<Value, Count>;

/// Consecutive statements that may become an outlined function.
#[derive(Default)]
struct Run {
    body: Sequence,
    weight: u32,
    counts: Counts,
}

/// Counts the accesses of a sequence. The call of an outlined function counts as accesses of its inputs and outputs.
fn accesses(body: &Body<'_>, sequence: &[Node], counts: &mut Counts) {
    for node in sequence {
        count(body, node, counts);
    }
}

fn count(body: &Body<'_>, node: &Node, counts: &mut Counts) {
    body.visit(node, &mut |value, access| {
        if body.defining_block(value).is_none() {
            return;
        }
        let count = counts.entry(value).or_default();
        match access {
            Access::Define => count.defined += 1,
            Access::Read => count.used += 1,
            Access::Move => {
                count.used += 1;
                count.moved = true;
            }
        }
    });
    node.children().into_iter().for_each(|child| accesses(body, child, counts));
}

struct Outliner<'a, 'f> {
    body: &'a Body<'f>,
    needs: &'a dyn Needs,
    /// The accesses of the whole body.
    totals: Counts,
    /// The number of outlined functions.
    outlined: u32,
}

impl Outliner<'_, '_> {
    fn weight_of(&self, sequence: &[Node]) -> u32 {
        sequence.iter().map(|node| self.weight(node)).sum()
    }

    fn weight(&self, node: &Node) -> u32 {
        let inner: u32 = node.children().into_iter().map(|child| self.weight_of(child)).sum();
        let own = match node {
            Node::Inst(block, position) => {
                let inst = self.body.inst(*block, *position);
                let mut operands = inst.results.len() as u32;
                inst.op.visit(|_| operands += 1);
                let is_call = matches!(inst.op, Op::Call(_));
                1 + u32::from(is_call) + operands / 6
            }
            Node::Edge(edge) | Node::Passes(edge) => {
                self.body.edge(*edge).map_or(0, |edge| (edge.arguments.len() + edge.drops.len()) as u32 / 3)
            }
            Node::Nest(index) => {
                let nest = &self.body.nests.found[*index as usize];
                (nest.views.len() + nest.loops.iter().map(|counted| counted.items.len()).sum::<usize>()) as u32
            }
            Node::Outlined(outlined) => 2 + (outlined.inputs.len() + outlined.outputs.len()) as u32 / 6,
            Node::Call(index) | Node::Resume(index) | Node::Yield(index) => {
                4 + self.body.suspensions[*index as usize].saved.len() as u32 / 3
            }
            _ => 1,
        };
        own + inner
    }

    fn sequence(&mut self, sequence: &mut Sequence) {
        for node in sequence.iter_mut() {
            node.children_mut().into_iter().for_each(|child| self.sequence(child));
        }
        let mut weight = self.weight_of(sequence);
        while weight > LIMIT {
            self.outline_runs(sequence);
            let less = self.weight_of(sequence);
            if less >= weight {
                break;
            }
            weight = less;
        }
    }

    /// Outlines each nest with the loop that it stands for, and the edge that initialises the loop's parameters.
    fn nests(&mut self, sequence: &mut Sequence) {
        for node in sequence.iter_mut() {
            node.children_mut().into_iter().for_each(|child| self.nests(child));
        }
        let mut nodes = core::mem::take(sequence).into_iter();
        while let Some(node) = nodes.next() {
            if !matches!(node, Node::Nest(_)) {
                sequence.push(node);
                continue;
            }
            let mut unit = Sequence::new();
            if let Some(&Node::Edge(edge)) = sequence.last() {
                sequence.pop();
                // The dead references differ between nests that are equal otherwise.
                sequence.push(Node::Drops(edge));
                unit.push(Node::Passes(edge));
            }
            unit.push(node);
            unit.extend(nodes.next());
            let mut counts = HashMap::new();
            accesses(self.body, &unit, &mut counts);
            match is_closed(&unit) && self.is_free(&counts, &HashMap::new()) {
                true => self.replace(unit, counts, true, sequence),
                false => sequence.append(&mut unit),
            }
        }
    }

    /// Outlines all runs of statements of a sequence that can be outlined.
    fn outline_runs(&mut self, sequence: &mut Sequence) {
        let mut nodes = core::mem::take(sequence).into_iter().peekable();
        let mut run = Run::default();
        while let Some(node) = nodes.next() {
            // The edge that initialises a loop's parameters stays with the loop.
            let mut unit = vec![node];
            while matches!(unit.last(), Some(Node::Edge(_) | Node::Nest(_)))
                && matches!(
                    nodes.peek(),
                    Some(Node::Edge(_) | Node::Nest(_) | Node::Loop { .. } | Node::While { .. } | Node::Block { .. })
                )
            {
                unit.extend(nodes.next());
            }
            let mut counts = HashMap::new();
            accesses(self.body, &unit, &mut counts);
            if !is_closed(&unit) || !self.is_free(&counts, &HashMap::new()) {
                self.outline(&mut run, sequence);
                sequence.append(&mut unit);
                continue;
            }
            if !self.is_free(&counts, &run.counts) {
                self.outline(&mut run, sequence);
            }
            run.weight += self.weight_of(&unit);
            run.body.append(&mut unit);
            counts.iter().for_each(|(value, count)| run.counts.entry(*value).or_default().add(count));
            if run.weight >= TARGET {
                self.outline(&mut run, sequence);
            }
        }
        self.outline(&mut run, sequence);
    }

    /// Whether a unit of statements can join the run before it: no value that they define and use is also defined elsewhere,
    /// because its previous value would have to be an input as well.
    fn is_free(&self, unit: &Counts, before: &Counts) -> bool {
        unit.iter().all(|(value, count)| {
            let mut all = before.get(value).copied().unwrap_or_default();
            all.add(count);
            let elsewhere = self.totals.get(value).is_some_and(|total| total.defined > all.defined);
            all.defined == 0 || all.used == 0 || !elsewhere
        })
    }

    /// Outlines a run of statements, if it weighs more than its call.
    fn outline(&mut self, run: &mut Run, into: &mut Sequence) {
        let Run { mut body, weight, counts } = core::mem::take(run);
        let crossing = counts.iter().filter(|(value, count)| count.defined == 0 || self.is_output(**value, count));
        let cost = 2 + crossing.count() as u32 / 6;
        if weight < 2 * cost + 8 || body.len() < 2 {
            into.append(&mut body);
            return;
        }
        self.replace(body, counts, false, into);
    }

    /// Whether statements define a value that others use.
    fn is_output(&self, value: Value, count: &Count) -> bool {
        count.defined != 0 && self.totals.get(&value).is_some_and(|total| total.used > count.used)
    }

    /// Replaces statements with these accesses by a call of a function.
    fn replace(&mut self, body: Sequence, counts: Counts, is_nest: bool, into: &mut Sequence) {
        let mut values: Vec<Value> = counts.keys().copied().collect();
        values.sort_unstable();
        if is_nest {
            // Equal nests take their values in the same order.
            let order = shared::order(self.body, &body);
            values.sort_by_key(|value| order.get(value).copied().unwrap_or(usize::MAX));
        }
        let is_owned = |value: Value| self.body.function.ty(value) == Type::Ref && !self.body.is_borrowed(value);
        let moves = |value: &Value| counts[value].moved && is_owned(*value);
        let is_input = |value: &&Value| counts[*value].defined == 0;
        let inputs: Vec<(Value, bool)> = values.iter().filter(is_input).map(|value| (*value, moves(value))).collect();
        let outputs = values.iter().copied().filter(|value| self.is_output(*value, &counts[value]));
        let outputs: Vec<Value> = outputs.collect();
        let (mut needs_state, mut needs_stack) = (self.body.rematerializes(), false);
        self.needs_of(&body, &mut needs_state, &mut needs_stack);
        // From now on the call accesses the values.
        for (value, count) in &counts {
            let total = self.totals.entry(*value).or_default();
            total.used -= count.used;
            total.defined -= count.defined;
        }
        inputs.iter().for_each(|(value, _)| self.totals.entry(*value).or_default().used += 1);
        outputs.iter().for_each(|value| self.totals.entry(*value).or_default().defined += 1);
        self.outlined += 1;
        let number = self.outlined;
        let needs_spills = false;
        into.push(Node::Outlined(Box::new(Outlined {
            number,
            body,
            inputs,
            outputs,
            needs_state,
            needs_stack,
            needs_spills,
            is_nest,
        })));
    }

    fn needs_of(&self, sequence: &[Node], state: &mut bool, stack: &mut bool) {
        for node in sequence {
            match node {
                Node::Inst(block, position) => {
                    let needs = self.needs.needs(&self.body.inst(*block, *position).op);
                    *state |= needs.0;
                    *stack |= needs.1;
                }
                Node::Outlined(outlined) => {
                    *state |= outlined.needs_state;
                    *stack |= outlined.needs_stack;
                }
                _ => {
                    let is_loop = matches!(node, Node::Loop { .. } | Node::While { .. });
                    *stack |= is_loop && self.needs.counts_iterations();
                    node.children().into_iter().for_each(|child| self.needs_of(child, state, stack));
                }
            }
        }
    }
}

/// Whether control leaves the body of a loop other than by an error.
fn leaves(sequence: &[Node], of_loop: Label, within: &mut HashSet<Label>) -> bool {
    sequence.iter().any(|node| match node {
        Node::Break(label) => !within.contains(label),
        Node::Continue(label) => *label != of_loop && !within.contains(label),
        Node::Return(_) => true,
        Node::Block { label, body } | Node::Loop { label, body, .. } | Node::While { label, body, .. } => {
            within.insert(*label);
            leaves(body, of_loop, within)
        }
        _ => node.children().into_iter().any(|child| leaves(child, of_loop, within)),
    })
}

/// Whether control leaves statements only at their end.
fn is_closed(sequence: &[Node]) -> bool {
    fn walk(sequence: &[Node], own: &mut HashSet<Label>) -> bool {
        sequence.iter().all(|node| match node {
            Node::Break(label) | Node::Continue(label) => own.contains(label),
            // A loop that never ends has no end for control to leave at.
            Node::Loop { label, body, .. } if !leaves(body, *label, &mut HashSet::new()) => false,
            Node::Block { label, body } | Node::Loop { label, body, .. } | Node::While { label, body, .. } => {
                own.insert(*label);
                walk(body, own)
            }
            Node::Return(_)
            | Node::Fail(_)
            | Node::Select { .. }
            | Node::Dispatch { .. }
            | Node::Enter { .. }
            | Node::Yield(_)
            | Node::Call(_)
            | Node::Resume(_) => false,
            Node::If { .. } | Node::Match { .. } => node.children().into_iter().all(|child| walk(child, own)),
            Node::Inst(..)
            | Node::Edge(_)
            | Node::Drops(_)
            | Node::Passes(_)
            | Node::Nest(_)
            | Node::Breakpoint(_)
            | Node::Outlined(_) => true,
        })
    }
    walk(sequence, &mut HashSet::new())
}
