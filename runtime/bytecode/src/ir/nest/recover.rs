//! Finds the nests of a function.

use alloc::vec;
use alloc::vec::Vec;

use super::zeros;
use super::{
    Access, Affine, BailOut, Bounded, Carried, Counted, Element, Gather, Item, Needed, Nest, Nests, Test, View,
};
use crate::index_map::IndexMap;
use crate::ir::function::{Definition, Function, Inst, Positions};
use crate::ir::graph::Graph;
use crate::ir::loops::Loops;
use crate::ir::op::{Edge, Op, Terminator};
use crate::ir::value::{Block, Type, Value};

mod form;
mod sequential;
mod split;
mod test;

use form::Form;
use split::{Digits, Split};

/// Bounds of what is tried; nests of real programs are below. Those of a block of quantised weights have up to some eighty views.
const MAX_LOOPS: usize = 16;
const MAX_ITEMS: usize = 4000;
const MAX_VIEWS: usize = 128;

/// All nests of a function.
pub(super) fn nests(function: &Function) -> Nests {
    let graph = Graph::of(function);
    let dominators = graph.dominators();
    let loops = Loops::new(&graph, &dominators);
    if loops.all().is_empty() {
        return Nests::default();
    }
    let positions = Positions::of(function);
    let mut nests = Nests::default();
    let mut taken = vec![false; loops.all().len()];
    for (index, found) in loops.all().iter().enumerate() {
        // Loops stand behind those around them.
        if found.parent.is_some_and(|parent| taken[parent]) {
            taken[index] = true;
            continue;
        }
        match nest(function, (&graph, &loops), &positions, index) {
            Ok(nest) if sequential::divides(function, (&graph, &loops), &positions, (index, &nest)) => {
                nests.rejected.push((Block(found.header), BailOut::Sequential));
            }
            Ok(nest) => {
                taken[index] = true;
                nests.found.push(nest);
            }
            Err(reason) => nests.rejected.push((Block(found.header), reason)),
        }
    }
    zeros::mark(&mut nests.found, function, &graph, &loops, &dominators);
    nests
}

/// The nest of a loop.
fn nest(
    function: &Function,
    (graph, loops): (&Graph, &Loops),
    positions: &Positions,
    index: usize,
) -> Result<Nest, BailOut> {
    let recovery = || Recovery::new(function, (graph, loops), positions, index);
    let mut first = recovery();
    // Results of divisions may be more than indices: then a loop that could be several is one.
    match first.nest(index, true) {
        Err(reason) if !first.splits.is_empty() => recovery().nest(index, false).map_err(|_| reason),
        nest => nest,
    }
}

/// A loop of which only the structure is known.
struct Shape {
    counted: Counted,
    /// The value of each parameter of the header in the first iteration; None for the outermost loop.
    initial: Option<Vec<Value>>,
    /// Their values in the next iteration.
    next: Vec<Value>,
    /// What is tested, whether zero goes on, and the number of items before.
    condition: Value,
    on_zero: bool,
    tested_at: usize,
    /// It is a digit of the loop around it.
    is_digit: bool,
}

struct Recovery<'a> {
    function: &'a Function,
    graph: &'a Graph,
    loops: &'a Loops,
    /// Where the instruction of each value stands.
    positions: &'a Positions,
    /// The outermost loop.
    root: usize,
    shapes: Vec<Shape>,
    /// The loop that each block of the nest is in, as an index into the shapes.
    homes: IndexMap<Block, usize>,
    hoisted: Vec<(Block, usize)>,
    /// Results of those.
    invariant: Vec<Value>,
    inductions: IndexMap<Value, Affine>,
    /// The parameter that is tested for being an induction variable: it stands for itself.
    open: Option<Value>,
    forms: IndexMap<Value, Option<Form>>,
    /// How deep forms are in forms.
    depth: usize,
    conditions: Vec<Bounded>,
    /// Loops that are several.
    splits: Vec<(usize, Split)>,
    /// The results of divisions of their integers.
    digits: IndexMap<Value, (usize, Digits)>,
}

impl<'a> Recovery<'a> {
    fn new(
        function: &'a Function,
        (graph, loops): (&'a Graph, &'a Loops),
        positions: &'a Positions,
        root: usize,
    ) -> Recovery<'a> {
        Recovery {
            function,
            graph,
            loops,
            positions,
            root,
            shapes: Vec::new(),
            homes: IndexMap::default(),
            hoisted: Vec::new(),
            invariant: Vec::new(),
            inductions: IndexMap::default(),
            open: None,
            forms: IndexMap::default(),
            depth: 0,
            conditions: Vec::new(),
            splits: Vec::new(),
            digits: IndexMap::default(),
        }
    }

    /// The nest of a loop. Loops that are several are taken as such if `splits`.
    fn nest(&mut self, root: usize, splits: bool) -> Result<Nest, BailOut> {
        self.shape(root, None, None)?;
        self.hoist();
        if splits {
            self.split_loops();
        }
        for index in 0..self.shapes.len() {
            self.count(index)?;
        }
        let mut nest = Nest {
            loops: Vec::new(),
            hoisted: Vec::new(),
            views: Vec::new(),
            accesses: Vec::new(),
            accesses_by_position: Vec::new(),
            gathers: Vec::new(),
            divisions: Vec::new(),
            conditions: Vec::new(),
        };
        let mut conditions = Vec::new();
        self.accesses(0, &mut nest, &mut conditions)?;
        nest.sort_accesses();
        self.escapes()?;
        conditions.sort_unstable();
        conditions.dedup();
        nest.conditions = conditions.into_iter().map(|index| self.conditions[index].clone()).collect();
        nest.hoisted = core::mem::take(&mut self.hoisted);
        nest.loops = self.shapes.iter().map(|shape| shape.counted.clone()).collect();
        self.only_indices(&nest)?;
        match nest.gathers.first() {
            Some(gather) if !nest.can_run_again() => {
                Err(BailOut::Again(self.inst((gather.block, gather.position)).offset))
            }
            _ => Ok(nest),
        }
    }

    /// Checks that results of divisions of integers are used only in indices.
    fn only_indices(&self, nest: &Nest) -> Result<(), BailOut> {
        if self.splits.is_empty() {
            return Ok(());
        }
        let needed = Needed::of(self.function, nest);
        let parameters = self.splits.iter().map(|(_, split)| split.parameter);
        match self.digits.keys().chain(parameters).find(|value| needed.has(*value)) {
            None => Ok(()),
            Some(value) => {
                let position = self.positions.get(value);
                Err(position.map_or(BailOut::Escapes(value), |position| BailOut::Effect(self.inst(position).offset)))
            }
        }
    }

    /// The blocks of a loop in a row, inner loops in place of theirs. Returns the loop's index and its exit edge.
    fn shape(
        &mut self,
        index: usize,
        parent: Option<usize>,
        initial: Option<Vec<Value>>,
    ) -> Result<(usize, &'a Edge), BailOut> {
        let (function, found) = (self.function, &self.loops.all()[index]);
        if found.exits != 1 || found.latches.len() != 1 {
            return Err(BailOut::Exits);
        }
        if self.shapes.len() >= MAX_LOOPS {
            return Err(BailOut::Size);
        }
        let header = Block(found.header);
        if function.block(header).parameters.iter().any(|parameter| function.ty(*parameter) == Type::Ref) {
            return Err(BailOut::References(header));
        }
        let this = self.shapes.len();
        self.shapes.push(Shape::new(header, parent, initial));
        let (mut at, mut exit, mut count) = (header, None, 0);
        let next = 'blocks: loop {
            let data = function.block(at);
            self.homes.insert(at, this);
            let items = &mut self.shapes[this].counted.items;
            items.extend((0..data.instructions.len()).map(|position| Item::Instruction(at, position)));
            count += data.instructions.len() + 1;
            if count > MAX_ITEMS {
                return Err(BailOut::Size);
            }
            let mut edge = match &data.terminator {
                Terminator::Branch(edge) => edge,
                Terminator::CondBranch { condition, if_true, if_false } => {
                    let stays = |edge: &Edge| self.loops.contains(index, edge.target.0);
                    let (stay, leave, on_zero) = match (stays(if_true), stays(if_false)) {
                        (true, false) => (if_true, if_false, false),
                        (false, true) => (if_false, if_true, true),
                        _ => return Err(BailOut::Branches(at)),
                    };
                    let shape = &mut self.shapes[this];
                    shape.condition = *condition;
                    shape.on_zero = on_zero;
                    shape.tested_at = shape.counted.items.len();
                    exit = Some(leave);
                    stay
                }
                _ => return Err(BailOut::Branches(at)),
            };
            loop {
                if edge.target == header {
                    break 'blocks edge;
                }
                let inner = self.loops.innermost_index(edge.target.0).filter(|inner| *inner != index);
                let Some(inner) = inner.filter(|inner| self.loops.all()[*inner].header == edge.target.0) else { break };
                let initial = edge.arguments.iter().map(|operand| operand.value).collect();
                let (inner, leaving) = self.shape(inner, Some(this), Some(initial))?;
                self.shapes[this].counted.items.push(Item::Loop(inner));
                edge = leaving;
            }
            // Nothing else leads to the block, so that parameters have been replaced by what the edge passes.
            if self.homes.contains(edge.target)
                || !self.loops.contains(index, edge.target.0)
                || !function.block(edge.target).parameters.is_empty()
            {
                return Err(BailOut::Branches(at));
            }
            at = edge.target;
        };
        self.shapes[this].next = next.arguments.iter().map(|operand| operand.value).collect();
        exit.map(|exit| (this, exit)).ok_or(BailOut::Exits)
    }

    fn inst(&self, (block, position): (Block, usize)) -> &'a Inst {
        &self.function.block(block).instructions[position]
    }

    /// Whether a value is defined outside of the nest, or computed before it.
    fn is_invariant(&self, value: Value) -> bool {
        match self.function.definition(value) {
            Definition::Constant(_) => true,
            Definition::Parameter(block, _) => !self.loops.contains(self.root, block.0),
            Definition::Result(block) => {
                !self.loops.contains(self.root, block.0) || self.invariant.binary_search(&value).is_ok()
            }
        }
    }

    /// Hoists loop-invariant instructions.
    fn hoist(&mut self) {
        let mut order = Vec::new();
        self.program_order(0, &mut order);
        let mut gone = Vec::new();
        for position in order {
            let inst = self.inst(position);
            if let Op::Drop { value } = inst.op {
                // A reference that each iteration creates: once hoisted, it is dropped after the nest.
                if self.invariant.binary_search(&value).is_ok() {
                    gone.push(position);
                }
                continue;
            }
            let mut invariant = self.function.is_arithmetic(&inst.op, self.positions);
            inst.op.visit(|operand| invariant &= self.is_invariant(operand.value()));
            if invariant {
                self.hoisted.push(position);
                gone.push(position);
                for result in &inst.results {
                    let at = self.invariant.partition_point(|other| other < result);
                    self.invariant.insert(at, *result);
                }
            }
        }
        gone.sort_unstable();
        for shape in &mut self.shapes {
            let is_gone = |item: &Item| match item {
                Item::Instruction(block, position) => gone.binary_search(&(*block, *position)).is_ok(),
                Item::Loop(_) => false,
            };
            shape.tested_at -= shape.counted.items[..shape.tested_at].iter().filter(|item| is_gone(item)).count();
            shape.counted.items.retain(|item| !is_gone(item));
        }
    }

    fn program_order(&self, index: usize, into: &mut Vec<(Block, usize)>) {
        for item in &self.shapes[index].counted.items {
            match item {
                Item::Instruction(block, position) => into.push((*block, *position)),
                Item::Loop(inner) => self.program_order(*inner, into),
            }
        }
    }

    /// Finds the inductions of a loop and what its test counts.
    fn count(&mut self, index: usize) -> Result<(), BailOut> {
        if self.shapes[index].is_digit {
            return Ok(());
        }
        let header = self.shapes[index].counted.header;
        let parameters = &self.function.block(header).parameters;
        for (position, &parameter) in parameters.iter().enumerate() {
            let next = self.shapes[index].next[position];
            let initial = self.shapes[index].initial.as_ref().map(|initial| initial[position]);
            match self.induction(index, parameter, initial, next) {
                Some(induction) => {
                    self.inductions.insert(parameter, induction.form.clone());
                    self.shapes[index].counted.inductions.push(induction);
                }
                None => {
                    let initial = initial.unwrap_or(parameter);
                    self.shapes[index].counted.carried.push(Carried { parameter, initial, next });
                }
            }
        }
        self.shapes[index].counted.test = self.test(index).ok_or(BailOut::Uncounted(header))?;
        let shape = &self.shapes[index];
        let (before, behind) = shape.counted.items.split_at(shape.tested_at);
        let works = |items: &[Item]| {
            items.iter().any(|item| match item {
                Item::Instruction(block, position) => {
                    let at = (*block, *position);
                    !self.function.is_arithmetic(&self.inst(at).op, self.positions) && !self.is_division(at)
                }
                Item::Loop(_) => true,
            })
        };
        let tested_last = match (works(before), works(behind)) {
            _ if index == 0 => false,
            (true, true) => return Err(BailOut::TestInTheMiddle(header)),
            (false, true) => false,
            (true, false) => true,
            // Both are right; the values that are used after the loop decide.
            (false, false) => behind.is_empty(),
        };
        self.shapes[index].counted.tested_last = tested_last;
        self.count_digits(index).ok_or(BailOut::Uncounted(header))
    }

    /// The accesses of a loop and of those within it; everything else in them must be arithmetic.
    fn accesses(&mut self, index: usize, nest: &mut Nest, conditions: &mut Vec<usize>) -> Result<(), BailOut> {
        for item in self.shapes[index].counted.items.clone() {
            let (block, position) = match item {
                Item::Instruction(block, position) => (block, position),
                Item::Loop(inner) => {
                    self.accesses(inner, nest, conditions)?;
                    continue;
                }
            };
            let inst = self.inst((block, position));
            let (opcode, buffer, offset, stored) = match &inst.op {
                Op::BufferLoad { opcode, buffer, offset } => (*opcode, *buffer, *offset, None),
                Op::BufferStore { opcode, buffer, offset, value } => (*opcode, *buffer, *offset, Some(*value)),
                op if self.function.is_arithmetic(op, self.positions) || self.is_division((block, position)) => {
                    if nest.divisions.len() < MAX_VIEWS {
                        nest.divisions.extend(self.division(index, (block, position), nest));
                    }
                    continue;
                }
                op => {
                    conditions.push(self.divides(op).ok_or(BailOut::Effect(inst.offset))?);
                    continue;
                }
            };
            let element = Element::of(opcode).ok_or(BailOut::Effect(inst.offset))?;
            if !self.is_invariant(buffer) || self.function.constant_bits(buffer).is_some() {
                return Err(BailOut::Buffer(inst.offset));
            }
            let Some((form, needed)) = self.form(offset) else {
                if stored.is_some() || !self.is_computed_in(index, offset) {
                    return Err(BailOut::Index(inst.offset));
                }
                nest.gathers.push(Gather { block, position, buffer, element, index: offset });
                if nest.gathers.len() > MAX_VIEWS {
                    return Err(BailOut::Size);
                }
                continue;
            };
            conditions.extend(needed);
            let is_same = |view: &View| view.buffer == buffer && view.element == element && view.index == form;
            let view = nest.views.iter().position(is_same).unwrap_or_else(|| {
                nest.views.push(View { buffer, element, index: form, written: false, zeros: false });
                nest.views.len() - 1
            });
            if view >= MAX_VIEWS {
                return Err(BailOut::Size);
            }
            nest.views[view].written |= stored.is_some();
            nest.accesses.push(Access { block, position, within: index, view, stored });
        }
        Ok(())
    }

    /// Checks that values of inner loops are used after them only if they are carried.
    fn escapes(&self) -> Result<(), BailOut> {
        for (index, shape) in self.shapes.iter().enumerate() {
            for item in &shape.counted.items {
                if let Item::Instruction(block, position) = item {
                    let mut result = Ok(());
                    self.inst((*block, *position)).op.visit(|operand| {
                        result = result.and(self.is_visible(operand.value(), index));
                    });
                    result?;
                }
            }
            for carried in &shape.counted.carried {
                self.is_visible(carried.next, index)?;
                self.is_visible(carried.initial, shape.counted.parent.unwrap_or(index))?;
            }
        }
        Ok(())
    }

    fn is_visible(&self, value: Value, from: usize) -> Result<(), BailOut> {
        let home = match self.function.definition(value) {
            _ if self.is_invariant(value) => return Ok(()),
            Definition::Constant(_) => return Ok(()),
            Definition::Parameter(block, _) | Definition::Result(block) => self.homes.get(block).copied(),
        };
        let home = home.ok_or(BailOut::Escapes(value))?;
        let mut around = Some(from);
        let mut parent_is_around = false;
        while let Some(at) = around {
            if at == home {
                return Ok(());
            }
            parent_is_around |= self.shapes[home].counted.parent == Some(at);
            around = self.shapes[at].counted.parent;
        }
        let counted = &self.shapes[home].counted;
        let carried = counted.carried.iter().any(|carried| counted.escaping(carried) == value);
        if parent_is_around && carried { Ok(()) } else { Err(BailOut::Escapes(value)) }
    }
}

impl Shape {
    fn new(header: Block, parent: Option<usize>, initial: Option<Vec<Value>>) -> Shape {
        let counted = Counted {
            header,
            parent,
            test: Test::unknown(),
            tested_last: false,
            divisor: None,
            inductions: Vec::new(),
            carried: Vec::new(),
            items: Vec::new(),
        };
        Shape {
            counted,
            initial,
            next: Vec::new(),
            condition: Value(u32::MAX),
            on_zero: false,
            tested_at: 0,
            is_digit: false,
        }
    }
}
