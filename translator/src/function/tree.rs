//! A body as a tree of statements: structured control flow with the instructions in place.
//!
//! Unlike [`Structure`], whose nodes are blocks, statements here are single instructions and passed arguments, so that
//! pieces of a body can be cut out ([`outline`](super::outline)), and names be declared where they are needed
//! ([`scope`](super::scope)).

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::ir::nest::{Accumulators, Nests, Order};
use incarnate_bytecode::ir::{
    Block, BlockData, Definition, Edge, Function, Graph, Inst, Label, Op, Operand, Positions, Statement, Structure,
    Terminator, Use, Value,
};

use super::loops;
use super::suspend::{Suspension, segments};

/// Statements in order.
pub(super) type Sequence = Vec<Node>;

/// An edge: its block, and its index among the terminator's edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EdgeRef(pub(super) Block, pub(super) u32);

/// A statement.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// An instruction of a block, by position.
    Inst(Block, u32),
    /// Passes the arguments of an edge and drops its dead references.
    Edge(EdgeRef),
    /// Drops the dead references of an edge.
    Drops(EdgeRef),
    /// Passes the arguments of an edge whose dead references were dropped.
    Passes(EdgeRef),
    /// The branch of a block on a condition.
    If { condition: Condition, then: Sequence, otherwise: Sequence },
    /// The branch of a block on an index: its cases, then the default.
    Match { block: Block, arms: Vec<Sequence> },
    /// A labelled block.
    Block { label: Label, body: Sequence },
    /// A loop; `header` is its first block.
    Loop { label: Label, header: Block, body: Sequence },
    /// A loop whose condition is the branch at the end of its first block.
    While { condition: Condition, label: Label, header: Block, body: Sequence },
    /// Leaves a block or a loop.
    Break(Label),
    /// Continues with the next iteration of a loop.
    Continue(Label),
    /// The `return` of a block.
    Return(Block),
    /// The `fail` of a block. With a status of zero, execution continues at the next block, if there is one.
    Fail(Block),
    /// The `break` of a block.
    Breakpoint(Block),
    /// Sets a selector.
    Select { selector: u32, arm: u32 },
    /// Selects one of several sequences by a selector.
    Dispatch { selector: u32, arms: Vec<Sequence> },
    /// Starts or resumes the function: an arm for the start and one for each suspension.
    Enter { arms: Vec<Sequence> },
    /// Suspends the call at the `yield` of a block.
    Yield(u32),
    /// Calls, at a suspension, a function that may yield.
    Call(u32),
    /// Resumes the callee of a suspension.
    Resume(u32),
    /// Runs iterations of the loop that follows, as a nest: an index into [`Body::nests`].
    Nest(u32),
    /// A call of an outlined function.
    Outlined(Box<Outlined>),
}

/// The condition that a block branches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) block: Block,
    /// The instruction that computes it: the last of the block, if the branch is the only use of its result.
    pub(super) fused: Option<u32>,
    /// It holds if the value is zero.
    pub(super) negated: bool,
}

/// A function outlined from a body.
#[derive(Clone, Debug)]
pub(super) struct Outlined {
    /// The number in its name.
    pub(super) number: u32,
    pub(super) body: Sequence,
    /// Values that it takes: numbers by value, references borrowed or, where the flag is set, moved.
    pub(super) inputs: Vec<(Value, bool)>,
    /// Values that it defines and that later statements use.
    pub(super) outputs: Vec<Value>,
    pub(super) needs_state: bool,
    pub(super) needs_stack: bool,
    /// It accesses spill slots.
    pub(super) needs_spills: bool,
    /// It is a nest with the loop that the nest stands for.
    pub(super) is_nest: bool,
}

/// The access of a statement to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads it, copies it, or increments its reference count.
    Read,
    /// Moves or drops the reference.
    Move,
    /// Defines it, or assigns a block parameter.
    Define,
}

/// A function whose body is a tree.
#[derive(Debug)]
pub(super) struct Body<'f> {
    pub(super) function: &'f Function,
    /// The points where the function may be suspended.
    pub(super) suspensions: Vec<Suspension>,
    /// Some values are assigned on paths that rustc cannot follow, so values are initialised variables.
    pub(super) has_selectors: bool,
    pub(super) selector_count: u32,
    /// Loops whose accesses can be checked before they run.
    pub(super) nests: Nests,
    /// Buffers that the function need not clear.
    pub(super) accumulators: Accumulators,
    /// The number of uses of each value.
    uses: Vec<u32>,
    /// Where the instructions stand that define values.
    pub(super) positions: Positions,
    /// References that something else owns: read-only segments, borrowed arguments, and borrowed results.
    borrowed: Vec<bool>,
    /// Results of calls that are borrowed from their owner.
    borrowed_results: HashSet<Value>,
    /// Ordinals of the read-only segments that are looked up at each use, because no borrow can live across suspensions.
    rematerialized: HashMap<Value, u32>,
    /// The spill slots of references, which the function shares with the functions outlined from it.
    pub(super) spill_slots: HashMap<Value, u32>,
    /// The number of spill slots.
    pub(super) spill_slot_count: u32,
    /// See [`recordings::find`](super::recordings::find).
    pub(super) recordings: HashMap<u32, Value>,
    /// See [`transients::find`](super::transients::find).
    pub(super) transients: HashSet<u32>,
}

impl<'f> Body<'f> {
    /// The tree of a function; `borrowed_arguments` says which arguments the caller keeps. Loops become nests where that is
    /// possible, unless each iteration counts against the fuel.
    pub(super) fn new(
        function: &'f Function,
        suspensions: Vec<Suspension>,
        borrowed_arguments: &[bool],
        untrusted: bool,
        order: Option<Order>,
    ) -> (Body<'f>, Sequence) {
        let structure = match suspensions.is_empty() {
            true => Structure::of(function),
            false => Structure::new(&resumable_graph(function, &suspensions)),
        };
        let has_selectors = structure.selector_count() != 0 || !suspensions.is_empty();
        let selector_count = structure.selector_count();
        let segments: HashMap<Value, u32> = segments(function).collect();
        let mut borrowed = vec![false; function.value_count()];
        segments.keys().for_each(|value| borrowed[value.index()] = true);
        let arguments = function.arguments().iter().zip(borrowed_arguments).filter(|(_, borrowed)| **borrowed);
        arguments.for_each(|(value, _)| borrowed[value.index()] = true);
        let (uses, rematerialized) = (count_uses(function), if has_selectors { segments } else { HashMap::new() });
        let mut body = Body {
            function,
            suspensions,
            has_selectors,
            selector_count,
            nests: loops::nests(function, untrusted),
            accumulators: Accumulators::default(),
            uses,
            positions: Positions::of(function),
            borrowed,
            borrowed_results: HashSet::new(),
            rematerialized,
            spill_slots: HashMap::new(),
            spill_slot_count: 0,
            recordings: HashMap::new(),
            transients: HashSet::new(),
        };
        let mut sequence = Vec::new();
        body.sequence(structure.body(), &mut sequence);
        let inserted = loops::insert(&body, &mut sequence);
        // Untrusted code gets no memory that others have used, even if an analysis should be wrong.
        if !untrusted {
            body.accumulators = loops::accumulators(&body, &inserted, order);
        }
        (body, sequence)
    }

    /// A block.
    pub(super) fn block(&self, block: Block) -> &'f BlockData {
        self.function.block(block)
    }

    /// An instruction.
    pub(super) fn inst(&self, block: Block, position: u32) -> &'f Inst {
        &self.function.block(block).instructions[position as usize]
    }

    /// An edge.
    pub(super) fn edge(&self, edge: EdgeRef) -> Option<&'f Edge> {
        self.block(edge.0).terminator.edge(edge.1 as usize)
    }

    /// The parameters of an edge and their arguments, without parameters that are passed to themselves. A value that is also
    /// passed to itself is copied, not moved, to other parameters.
    pub(super) fn passed(&self, edge: &'f Edge) -> impl Iterator<Item = (Value, Operand)> {
        let parameters = &self.block(edge.target).parameters;
        let passed = || parameters.iter().copied().zip(&edge.arguments);
        let stays = passed().filter(|(parameter, operand)| *parameter == operand.value).map(|row| row.0);
        let mut stays: Vec<Value> = stays.collect();
        stays.sort_unstable();
        passed().filter(|(parameter, operand)| *parameter != operand.value).map(move |(parameter, operand)| {
            let moved = operand.moved && stays.binary_search(&operand.value).is_err();
            (parameter, Operand { moved, ..*operand })
        })
    }

    fn sequence(&self, statements: &[Statement], into: &mut Sequence) {
        for statement in statements {
            match statement {
                Statement::Run(node) if (*node as usize) < self.function.blocks.len() => {
                    let count = self.block(Block(*node)).instructions.len() as u32;
                    into.extend((0..count).map(|position| Node::Inst(Block(*node), position)));
                }
                Statement::Run(_) => {}
                Statement::Branch { node, arms } => self.branch(*node, arms, into),
                Statement::Block { label, body } => {
                    let mut inner = Vec::new();
                    self.sequence(body, &mut inner);
                    into.push(Node::Block { label: *label, body: inner });
                }
                Statement::Loop { label, body } => {
                    let mut inner = Vec::new();
                    self.sequence(body, &mut inner);
                    push_loop(*label, first(body), inner, into);
                }
                Statement::Select { selector, arm } => into.push(Node::Select { selector: *selector, arm: *arm }),
                Statement::Dispatch { selector, arms } => {
                    let arms = arms.iter().map(|arm| self.arm(None, arm)).collect();
                    into.push(Node::Dispatch { selector: *selector, arms });
                }
                Statement::Break(label) => into.push(Node::Break(*label)),
                Statement::Continue(label) => into.push(Node::Continue(*label)),
            }
        }
    }

    /// The statements of an arm: those of its edge, then its own.
    fn arm(&self, edge: Option<EdgeRef>, statements: &[Statement]) -> Sequence {
        let mut arm: Sequence = Vec::new();
        self.pass(edge, &mut arm);
        self.sequence(statements, &mut arm);
        arm
    }

    fn pass(&self, edge: Option<EdgeRef>, into: &mut Sequence) {
        let Some(at) = edge else { return };
        if let Some(edge) = self.edge(at)
            && (self.passed(edge).next().is_some() || !edge.drops.is_empty())
        {
            into.push(Node::Edge(at));
        }
    }

    fn branch(&self, node: u32, arms: &[Vec<Statement>], into: &mut Sequence) {
        let blocks = self.function.blocks.len() as u32;
        if node == blocks {
            into.push(Node::Enter { arms: arms.iter().map(|arm| self.arm(None, arm)).collect() });
            return;
        }
        let block = match node.checked_sub(blocks + 1) {
            None => Block(node),
            Some(stub) => {
                let block = self.suspensions[stub as usize].block;
                if self.suspensions[stub as usize].is_call {
                    into.push(Node::Resume(stub));
                    self.pass(Some(EdgeRef(block, 0)), into);
                }
                arms.iter().for_each(|arm| self.sequence(arm, into));
                return;
            }
        };
        let mut all: Vec<Sequence> =
            arms.iter().enumerate().map(|(index, arm)| self.arm(Some(EdgeRef(block, index as u32)), arm)).collect();
        let suspension =
            || self.suspensions.binary_search_by_key(&block, |suspension| suspension.block).unwrap_or(0) as u32;
        match &self.block(block).terminator {
            Terminator::Branch(_) => {}
            Terminator::CondBranch { .. } => {
                let otherwise = all.pop().unwrap_or_default();
                let then = all.pop().unwrap_or_default();
                let fused = self.fused(block).filter(
                    |position| matches!(into.last(), Some(Node::Inst(at, last)) if *at == block && last == position),
                );
                if fused.is_some() {
                    into.pop();
                }
                let condition = Condition { block, fused, negated: false };
                // The arm that leaves comes first; the other one needs no `else`.
                let (condition, then, otherwise) = match !leaves(&then) && (leaves(&otherwise) || then.is_empty()) {
                    true => (condition.negate(), otherwise, then),
                    false => (condition, then, otherwise),
                };
                if leaves(&then) {
                    into.push(Node::If { condition, then, otherwise: Vec::new() });
                    into.extend(otherwise);
                } else {
                    into.push(Node::If { condition, then, otherwise });
                }
                return;
            }
            Terminator::BranchTable { .. } => {
                into.push(Node::Match { block, arms: all });
                return;
            }
            Terminator::Return(_) => into.push(Node::Return(block)),
            Terminator::Fail { .. } => into.push(Node::Fail(block)),
            Terminator::Break(_) | Terminator::CondBreak { .. } => into.push(Node::Breakpoint(block)),
            Terminator::Yield(_) => {
                self.pass(Some(EdgeRef(block, 0)), into);
                into.push(Node::Yield(suspension()));
                return;
            }
            Terminator::CallYieldable { .. } => into.push(Node::Call(suspension())),
        }
        all.into_iter().for_each(|mut arm| into.append(&mut arm));
    }

    /// The instruction that computes the condition of a block, if it is the last and pure, and its result has no other use.
    fn fused(&self, block: Block) -> Option<u32> {
        let data = self.block(block);
        let Terminator::CondBranch { condition, .. } = &data.terminator else { return None };
        let last = data.instructions.last()?;
        let is_test =
            matches!(last.op, Op::Eval { .. } | Op::IsNonNull { .. } | Op::CompareRef { .. }) && last.op.is_pure();
        let fits = is_test && last.results[..] == [*condition] && self.uses[condition.index()] == 1;
        fits.then(|| data.instructions.len() as u32 - 1)
    }

    /// Calls `f` with each value that a statement itself defines, reads or moves, without nested statements.
    pub(super) fn visit(&self, node: &Node, f: &mut dyn FnMut(Value, Access)) {
        let f = &mut |value, access| match access {
            _ if self.rematerialized.contains_key(&value) => {}
            Access::Move if self.is_borrowed(value) => f(value, Access::Read),
            _ => f(value, access),
        };
        match node {
            Node::Inst(block, position) => {
                let inst = self.inst(*block, *position);
                let is_drop = matches!(inst.op, Op::Drop { .. });
                inst.op.visit(|operand| match operand {
                    Use::Read(value) => f(*value, if is_drop { Access::Move } else { Access::Read }),
                    Use::Take(operand) => take(operand, f),
                });
                if matches!(inst.op, Op::Call(_)) {
                    self.recordings.get(&inst.offset).into_iter().for_each(|wait| f(*wait, Access::Read));
                }
                inst.results.iter().for_each(|value| f(*value, Access::Define));
            }
            Node::Edge(at) | Node::Drops(at) | Node::Passes(at) => {
                let Some(edge) = self.edge(*at) else { return };
                let passed = || self.passed(edge).filter(|_| !matches!(node, Node::Drops(_)));
                passed().for_each(|(_, operand)| take(&operand, f));
                let drops = edge.drops.iter().filter(|_| !matches!(node, Node::Passes(_)));
                drops.for_each(|value| f(*value, Access::Move));
                passed().for_each(|(parameter, _)| f(parameter, Access::Define));
            }
            Node::If { condition, .. } | Node::While { condition, .. } => match condition.fused {
                Some(position) => {
                    self.inst(condition.block, position).op.visit(|operand| f(operand.value(), Access::Read))
                }
                None => self.terminator(condition.block, f),
            },
            Node::Match { block, .. } | Node::Return(block) | Node::Fail(block) => self.terminator(*block, f),
            Node::Breakpoint(block) => self.terminator(*block, f),
            Node::Call(index) => {
                let suspension = &self.suspensions[*index as usize];
                self.terminator(suspension.block, f);
                suspension.saved.iter().for_each(|value| f(*value, Access::Read));
                suspension.results.iter().for_each(|value| f(*value, Access::Define));
            }
            Node::Resume(index) => {
                let suspension = &self.suspensions[*index as usize];
                suspension.saved.iter().for_each(|value| f(*value, Access::Read));
                suspension.results.iter().for_each(|value| f(*value, Access::Define));
            }
            Node::Yield(index) => {
                self.suspensions[*index as usize].saved.iter().for_each(|value| f(*value, Access::Move));
            }
            Node::Enter { .. } => {
                for suspension in &self.suspensions {
                    suspension.saved.iter().for_each(|value| f(*value, Access::Define));
                }
            }
            Node::Nest(index) => {
                let (read, assigned) = loops::accesses(self, &self.nests.found[*index as usize]);
                read.into_iter().for_each(|value| f(value, Access::Read));
                assigned.into_iter().for_each(|value| f(value, Access::Define));
            }
            Node::Outlined(outlined) => {
                for (value, moved) in &outlined.inputs {
                    f(*value, if *moved { Access::Move } else { Access::Read });
                }
                outlined.outputs.iter().for_each(|value| f(*value, Access::Define));
            }
            Node::Block { .. } | Node::Loop { .. } | Node::Break(_) | Node::Continue(_) => {}
            Node::Select { .. } | Node::Dispatch { .. } => {}
        }
    }

    fn terminator(&self, block: Block, f: &mut dyn FnMut(Value, Access)) {
        self.block(block).terminator.visit(|operand| match operand {
            Use::Read(value) => f(*value, Access::Read),
            Use::Take(operand) => take(operand, f),
        });
    }

    /// Whether a value is a reference that something else owns. A move of it increments the reference count instead.
    pub(super) fn is_borrowed(&self, value: Value) -> bool {
        self.borrowed[value.index()]
    }

    /// Whether a value is a result of a call that is borrowed from its owner.
    pub(super) fn is_borrowed_result(&self, value: Value) -> bool {
        self.borrowed_results.contains(&value)
    }

    /// Marks a result of a call as borrowed from its owner.
    pub(super) fn borrow_result(&mut self, value: Value) {
        self.borrowed[value.index()] = true;
        self.borrowed_results.insert(value);
    }

    /// The ordinal of a read-only segment that is looked up in the state at each use.
    pub(super) fn rematerialized(&self, value: Value) -> Option<u32> {
        self.rematerialized.get(&value).copied()
    }

    /// Whether the body has such segments.
    pub(super) fn rematerializes(&self) -> bool {
        !self.rematerialized.is_empty()
    }

    /// The block that defines a value.
    pub(super) fn defining_block(&self, value: Value) -> Option<Block> {
        match self.function.definition(value) {
            Definition::Constant(_) => None,
            Definition::Parameter(block, _) | Definition::Result(block) => Some(block),
        }
    }
}

fn take(operand: &Operand, f: &mut dyn FnMut(Value, Access)) {
    f(operand.value, if operand.moved { Access::Move } else { Access::Read });
}

impl Node {
    /// The sequences nested in a statement.
    pub(super) fn children(&self) -> Vec<&Sequence> {
        match self {
            Node::If { then, otherwise, .. } => vec![then, otherwise],
            Node::Match { arms, .. } | Node::Dispatch { arms, .. } | Node::Enter { arms } => arms.iter().collect(),
            Node::Block { body, .. } | Node::Loop { body, .. } | Node::While { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }

    /// The sequences nested in a statement, mutably.
    pub(super) fn children_mut(&mut self) -> Vec<&mut Sequence> {
        match self {
            Node::If { then, otherwise, .. } => vec![then, otherwise],
            Node::Match { arms, .. } | Node::Dispatch { arms, .. } | Node::Enter { arms } => arms.iter_mut().collect(),
            Node::Block { body, .. } | Node::Loop { body, .. } | Node::While { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }
}

impl Condition {
    /// The negated condition.
    fn negate(self) -> Condition {
        Condition { negated: !self.negated, ..self }
    }
}

/// Whether control never reaches the end of a sequence.
fn leaves(sequence: &Sequence) -> bool {
    matches!(sequence.last(), Some(Node::Break(_) | Node::Continue(_) | Node::Return(_) | Node::Yield(_)))
}

/// The number of uses of each value.
fn count_uses(function: &Function) -> Vec<u32> {
    let mut uses = vec![0; function.value_count()];
    for (_, data) in function.iter() {
        let mut count = |value: Value| uses[value.index()] += 1;
        data.instructions.iter().for_each(|inst| inst.op.visit(|operand| count(operand.value())));
        data.terminator.visit(|operand| count(operand.value()));
        data.terminator.visit_edges(|edge| {
            edge.arguments.iter().for_each(|operand| count(operand.value));
            edge.drops.iter().for_each(|value| count(*value));
        });
    }
    uses
}

/// Appends a loop: a `while`, if the first statement is the only exit.
fn push_loop(label: Label, header: Block, mut body: Sequence, into: &mut Sequence) {
    let leaves =
        |arm: &Sequence| matches!(arm[..], [Node::Break(to)] | [Node::Edge(_), Node::Break(to)] if to == label);
    let Some(Node::If { condition, then, otherwise }) = body.first() else {
        into.push(Node::Loop { label, header, body });
        return;
    };
    let (condition, leaving) = match (leaves(then), leaves(otherwise)) {
        (true, false) => (condition.negate(), then),
        (false, true) => (*condition, otherwise),
        _ => {
            into.push(Node::Loop { label, header, body });
            return;
        }
    };
    let passes = leaving.len() > 1;
    if passes && breaks(&body, label) > 1 {
        into.push(Node::Loop { label, header, body });
        return;
    }
    let mut rest = body.split_off(1);
    let Some(Node::If { then, otherwise, .. }) = body.pop() else { return };
    let (mut leaving, mut inner) = if leaves(&then) { (then, otherwise) } else { (otherwise, then) };
    inner.append(&mut rest);
    into.push(Node::While { condition, label, header, body: inner });
    leaving.pop();
    into.append(&mut leaving);
}

/// The number of breaks to a label in a sequence.
pub(super) fn breaks(sequence: &Sequence, label: Label) -> usize {
    let of = |node: &Node| match node {
        Node::Break(to) => usize::from(*to == label),
        node => node.children().into_iter().map(|child| breaks(child, label)).sum(),
    };
    sequence.iter().map(of).sum()
}

/// The first block of a sequence.
fn first(statements: &[Statement]) -> Block {
    match statements.first() {
        Some(Statement::Run(node)) => Block(*node),
        Some(Statement::Block { body, .. } | Statement::Loop { body, .. }) => first(body),
        _ => Block(u32::MAX),
    }
}

/// The control-flow graph of a resumable function. After the blocks comes an entry node, whose successors are the first block
/// and one node for each suspension; the successor of that node is the block where the suspension resumes.
fn resumable_graph(function: &Function, suspensions: &[Suspension]) -> Graph {
    let blocks = function.blocks.len() as u32;
    let mut successors: Vec<Vec<u32>> = function
        .blocks
        .iter()
        .map(|block| match &block.terminator {
            Terminator::Yield(_) => Vec::new(),
            terminator => terminator.successors().iter().map(|successor| successor.0).collect(),
        })
        .collect();
    let stubs = (0..suspensions.len() as u32).map(|index| blocks + 1 + index);
    successors.push(core::iter::once(0).chain(stubs).collect());
    successors.extend(suspensions.iter().map(|suspension| vec![suspension.resume.0]));
    Graph::new(blocks, successors)
}
