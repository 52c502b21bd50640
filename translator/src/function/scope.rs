//! Scopes of names: a name is declared where its value is defined, if that declaration is visible to all uses; otherwise
//! before the innermost statement that contains all of them.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::ir::{Block, Loop, Loops, Type, Value};

use super::tree::{Access, Body, EdgeRef, Node, Sequence};

/// The statement that both declares and defines a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    Inst(Block, u32),
    Edge(EdgeRef),
    Outlined(u32),
    Call(u32),
    Resume(u32),
}

impl Site {
    /// The definition site of a statement.
    pub(super) fn of(node: &Node) -> Option<Site> {
        Some(match node {
            Node::Inst(block, position) => Site::Inst(*block, *position),
            Node::Edge(edge) | Node::Passes(edge) => Site::Edge(*edge),
            Node::Outlined(outlined) => Site::Outlined(outlined.number),
            Node::Call(index) => Site::Call(*index),
            Node::Resume(index) => Site::Resume(*index),
            _ => return None,
        })
    }
}

/// How the name of a value is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// The value has no use and no name.
    Unused,
    /// Declared at its first definition.
    Let { site: Site, mutable: bool },
    /// Declared without a value, before it is defined.
    Declared { mutable: bool },
    /// Declared and initialised at the top of the body; references are taken out of it.
    Variable,
    /// It is an argument.
    Argument,
    /// It has a spill slot.
    Spilled,
}

/// The names of a function or of an outlined function.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    bindings: HashMap<Value, Binding>,
    /// Values that are declared before a statement, by its position.
    declared: HashMap<(u32, u32), Vec<Value>>,
    /// Values that are declared at the top of the body.
    pub(super) variables: Vec<Value>,
    /// Arguments that have uses.
    used: HashSet<Value>,
}

/// A position in the tree: a sequence, by number, and a statement of it.
type Position = (u32, u32);

/// The accesses of a value.
struct Accesses {
    /// The innermost sequence that contains all accesses, and the first of its statements that contains one.
    common: Position,
    defined: u32,
    used: u32,
    /// All accesses are in statements of one sequence, none in nested statements.
    direct: bool,
    /// The statement at the common position, if it contains the first definition.
    site: Option<Site>,
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
    /// The names of a sequence with its inputs and outputs.
    pub(super) fn new(
        body: &Body<'_>,
        loops: &Loops,
        sequence: &Sequence,
        inputs: &[Value],
        outputs: &[Value],
        uses_variables: bool,
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
            if body.spill_slots.contains_key(value) {
                scopes.bindings.insert(*value, Binding::Spilled);
            } else if !scopes.bindings.contains_key(value) {
                let binding = walk.binding(*value, loops, uses_variables);
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

    /// Whether an argument has uses.
    pub(super) fn is_used(&self, argument: Value) -> bool {
        self.used.contains(&argument)
    }

    /// The binding of a value.
    pub(super) fn binding(&self, value: Value) -> Binding {
        self.bindings.get(&value).copied().unwrap_or(Binding::Unused)
    }

    /// The values declared before a statement of a sequence; sequences are numbered in preorder.
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
            let (body, site) = (self.body, Site::of(node));
            body.visit(node, &mut |value, access| self.note(value, access, at, site));
            for child in node.children() {
                let inner = self.sequences.len() as u32;
                self.sequences.push((at, self.sequences[number as usize].1 + 1));
                self.sequence(child, inner);
            }
        }
    }

    fn note(&mut self, value: Value, access: Access, at: Position, site: Option<Site>) {
        if self.body.defining_block(value).is_none() {
            return;
        }
        let site = site.filter(|_| access == Access::Define);
        let is_define = u32::from(access == Access::Define);
        let Some(known) = self.accesses.get(&value) else {
            let accesses = Accesses { common: at, defined: is_define, used: 1 - is_define, direct: true, site };
            self.accesses.insert(value, accesses);
            self.order.push(value);
            return;
        };
        let common = self.common(known.common, at);
        let is_unchanged = common == known.common;
        let Some(known) = self.accesses.get_mut(&value) else { return };
        known.direct &= common.0 == at.0 && is_unchanged;
        // The statement that contains all accesses is the definition only if it was also the first access.
        known.site = if is_unchanged { known.site } else { None };
        known.common = common;
        known.defined += is_define;
        known.used += 1 - is_define;
    }

    /// The innermost sequence that contains two positions, and the first of its two statements that contain them.
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

    fn binding(&self, value: Value, loops: &Loops, uses_variables: bool) -> Binding {
        let accesses = &self.accesses[&value];
        if accesses.used == 0 {
            return Binding::Unused;
        }
        if uses_variables {
            let is_ref = self.body.function.ty(value) == Type::Ref;
            let site = accesses.site.filter(|_| accesses.defined == 1 && (accesses.direct || !is_ref));
            return site.map_or(Binding::Variable, |site| Binding::Let { site, mutable: false });
        }
        let mutable = self.is_repeated(value, accesses.common, loops);
        match accesses.site {
            Some(site) => Binding::Let { site, mutable: mutable && accesses.defined > 1 },
            None => Binding::Declared { mutable },
        }
    }

    /// Whether a value is defined in a loop that begins after its declaration.
    fn is_repeated(&self, value: Value, declared: Position, loops: &Loops) -> bool {
        if self.loops.is_empty() {
            return false;
        }
        let innermost = self.body.defining_block(value).and_then(|block| loops.innermost(block.0));
        let outer = |within: &&Loop| within.parent.map(|parent| &loops.all()[parent]);
        // Loops nested deeper than the first one found here are in outlined functions.
        let mut all = std::iter::successors(innermost, |within| outer(within));
        let Some(&at) = all.find_map(|within| self.loops.get(&Block(within.header))) else { return false };
        let common = self.common(declared, at);
        // The loop is in the declaration's sequence, after the declaration.
        common.0 == declared.0 && common.1 >= declared.1 && self.is_within(at, declared)
    }

    /// Whether a position is at or after `from` in the same sequence, or nested in such a statement.
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
