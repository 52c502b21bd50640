//! Where names are declared: each where its value is defined, if all uses can see it there; else before the statement that
//! holds all of them.

use std::collections::{HashMap, HashSet};

use incarnate_runtime::ir::{Block, Loop, Loops, Type, Value};

use super::tree::{Access, Body, EdgeRef, Node, Sequence};

/// What defines a value where it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Inst(Block, u32),
    Edge(EdgeRef),
    Part(u32),
    Call(u32),
    Resume(u32),
}

impl Place {
    /// The place that a statement is.
    pub(super) fn of(node: &Node) -> Option<Place> {
        Some(match node {
            Node::Inst(block, position) => Place::Inst(*block, *position),
            Node::Edge(edge) => Place::Edge(*edge),
            Node::Part(part) => Place::Part(part.number),
            Node::Call(index) => Place::Call(*index),
            Node::Resume(index) => Place::Resume(*index),
            _ => return None,
        })
    }
}

/// How a value has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Nothing uses it: it has none.
    Unused,
    /// Declared where it is defined first.
    Let { place: Place, mutable: bool },
    /// Declared without a value, before it is defined.
    Declared { mutable: bool },
    /// Declared on top, with a first value; references are taken out of it.
    Variable,
    /// It is an argument.
    Argument,
    /// It has a slot of what the function and its parts share.
    Kept,
}

/// The names of a body, or of a part of one.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    bindings: HashMap<Value, Binding>,
    /// What is declared before a statement, by the address in the tree: the sequence's number, and the position in it.
    declared: HashMap<(u32, u32), Vec<Value>>,
    /// What is declared on top.
    pub(super) variables: Vec<Value>,
    /// Arguments that something uses.
    used: HashSet<Value>,
}

/// A position in the tree: a sequence, by number, and a statement of it.
type Position = (u32, u32);

/// What is known of a value.
struct Accesses {
    /// The innermost sequence that holds all accesses, and the first of its statements that does.
    common: Position,
    defined: u32,
    used: u32,
    /// All accesses are statements of one sequence, and none is within another statement.
    direct: bool,
    /// The statement at the common position is what defines it first.
    place: Option<Place>,
}

struct Walk<'a, 'f> {
    body: &'a Body<'f>,
    /// For each sequence the position of the statement that it is in, and its depth.
    sequences: Vec<(Position, u32)>,
    loops: HashMap<Block, Position>,
    accesses: HashMap<Value, Accesses>,
    order: Vec<Value>,
}

impl Scopes {
    /// The names of a sequence of a body with the values that it takes and gives.
    pub(super) fn new(
        body: &Body<'_>,
        loops: &Loops,
        sequence: &Sequence,
        inputs: &[Value],
        outputs: &[Value],
        variables: bool,
    ) -> Scopes {
        let mut walk = Walk {
            body,
            sequences: vec![((0, 0), 0)],
            loops: HashMap::new(),
            accesses: HashMap::new(),
            order: Vec::new(),
        };
        walk.sequence(sequence, 0);
        outputs.iter().for_each(|value| walk.note(*value, Access::Read, (0, sequence.len() as u32), None));
        let mut scopes = Scopes::default();
        for value in inputs {
            scopes.bindings.insert(*value, Binding::Argument);
            if walk.accesses.contains_key(value) {
                scopes.used.insert(*value);
            }
        }
        for value in &walk.order {
            if body.kept.contains_key(value) {
                scopes.bindings.insert(*value, Binding::Kept);
            } else if !scopes.bindings.contains_key(value) {
                let binding = walk.binding(*value, loops, variables);
                match binding {
                    Binding::Declared { .. } => {
                        scopes.declared.entry(walk.accesses[value].common).or_default().push(*value);
                    }
                    Binding::Variable => scopes.variables.push(*value),
                    _ => {}
                }
                scopes.bindings.insert(*value, binding);
            }
        }
        scopes
    }

    /// Whether something uses an argument.
    pub(super) fn is_used(&self, argument: Value) -> bool {
        self.used.contains(&argument)
    }

    /// How a value has its name.
    pub(super) fn binding(&self, value: Value) -> Binding {
        self.bindings.get(&value).copied().unwrap_or(Binding::Unused)
    }

    /// What is declared before a statement of a sequence; sequences are numbered in the order in which they begin.
    pub(super) fn declared_before(&self, sequence: u32, position: u32) -> &[Value] {
        self.declared.get(&(sequence, position)).map_or(&[], |values| values)
    }
}

impl Walk<'_, '_> {
    fn sequence(&mut self, sequence: &Sequence, number: u32) {
        for (position, node) in sequence.iter().enumerate() {
            let at = (number, position as u32);
            if let Node::Loop { header, .. } | Node::While { header, .. } = node {
                self.loops.insert(*header, at);
            }
            let (body, place) = (self.body, Place::of(node));
            body.visit(node, &mut |value, access| self.note(value, access, at, place));
            for child in node.children() {
                let inner = self.sequences.len() as u32;
                self.sequences.push((at, self.sequences[number as usize].1 + 1));
                self.sequence(child, inner);
            }
        }
    }

    fn note(&mut self, value: Value, access: Access, at: Position, place: Option<Place>) {
        if self.body.home(value).is_none() {
            return;
        }
        let place = place.filter(|_| access == Access::Define);
        let is_define = u32::from(access == Access::Define);
        let Some(known) = self.accesses.get(&value) else {
            let accesses = Accesses { common: at, defined: is_define, used: 1 - is_define, direct: true, place };
            self.accesses.insert(value, accesses);
            self.order.push(value);
            return;
        };
        let common = self.common(known.common, at);
        let stays = common == known.common;
        let Some(known) = self.accesses.get_mut(&value) else { return };
        known.direct &= common.0 == at.0 && stays;
        // What holds all accesses defines the value itself only if it did so before anything else saw it.
        known.place = if stays { known.place } else { None };
        known.common = common;
        known.defined += is_define;
        known.used += 1 - is_define;
    }

    /// The innermost sequence that holds two positions, and the first of the two statements there.
    fn common(&self, mut a: Position, mut b: Position) -> Position {
        while a.0 != b.0 {
            let (depth_a, depth_b) = (self.sequences[a.0 as usize].1, self.sequences[b.0 as usize].1);
            if depth_a >= depth_b {
                a = self.sequences[a.0 as usize].0;
            } else {
                b = self.sequences[b.0 as usize].0;
            }
        }
        (a.0, a.1.min(b.1))
    }

    fn binding(&self, value: Value, loops: &Loops, variables: bool) -> Binding {
        let accesses = &self.accesses[&value];
        if accesses.used == 0 {
            return Binding::Unused;
        }
        if variables {
            let is_ref = self.body.function.ty(value) == Type::Ref;
            let place = accesses.place.filter(|_| accesses.defined == 1 && (accesses.direct || !is_ref));
            return place.map_or(Binding::Variable, |place| Binding::Let { place, mutable: false });
        }
        let mutable = self.is_repeated(value, accesses.common, loops);
        match accesses.place {
            Some(place) => Binding::Let { place, mutable: mutable && accesses.defined > 1 },
            None => Binding::Declared { mutable },
        }
    }

    /// Whether a value is defined in a loop that begins behind its declaration.
    fn is_repeated(&self, value: Value, declared: Position, loops: &Loops) -> bool {
        let innermost = self.body.home(value).and_then(|home| loops.innermost(home.0));
        let outer = |within: &&Loop| within.parent.map(|parent| &loops.all()[parent]);
        // The loops further in than the first that is met here are within parts.
        let mut all = std::iter::successors(innermost, |within| outer(within));
        let Some(&at) = all.find_map(|within| self.loops.get(&Block(within.header))) else { return false };
        let common = self.common(declared, at);
        // The loop is within the declaration's sequence, behind it.
        common.0 == declared.0 && common.1 >= declared.1 && self.is_within(at, declared)
    }

    /// Whether a position is at or behind another one of the same sequence, or within a statement there.
    fn is_within(&self, mut at: Position, from: Position) -> bool {
        while at.0 != from.0 {
            if at.0 == 0 {
                return false;
            }
            at = self.sequences[at.0 as usize].0;
        }
        at.1 >= from.1
    }
}
