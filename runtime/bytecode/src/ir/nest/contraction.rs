//! Contractions: nests in which each iteration adds a product to an element, as matrix products and convolutions do.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::tiling::innermost;
use super::{Element, Needed, Nest};
use crate::ir::function::Function;
use crate::ir::op::Op;
use crate::ir::value::{Block, Value};
use crate::isa::Opcode;

/// What an iteration does with an element and two factors.
#[allow(non_camel_case_types, reason = "types are spelled as Rust spells them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// `left * right + element`, rounded once.
    FmaF32,
    /// `element + left * right`, both rounded.
    MulAddF32,
    /// `element + left * right`, modulo 2^32.
    MulAddI32,
}

/// A factor of the products: a loaded element, or a number that is computed from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The elements.
    pub view: usize,
    /// The loaded value.
    pub loaded: Value,
    /// The factor.
    pub value: Value,
    /// The instructions that compute it from the loaded value, in order. They read nothing else that the nest defines.
    pub instructions: Vec<(Block, usize)>,
}

/// A nest that adds products to the elements of a view. Iterations may run in any order in which each element sees its own in that of the
/// loops, if elements of the output are distinct where a loop moves the output, and none is an element of a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// What an iteration does.
    pub product: Product,
    /// The elements to which products are added.
    pub output: usize,
    /// The first factor.
    pub left: Factor,
    /// The second factor.
    pub right: Factor,
    /// The loops, the outermost first.
    pub loops: Vec<usize>,
}

impl Contraction {
    /// Recognises a contraction along one of whose loops an output moves and a factor stays: only then are numbers used several
    /// times.
    #[must_use]
    pub fn of(function: &Function, nest: &Nest, needed: &Needed) -> Option<Contraction> {
        let innermost = innermost(function, nest, needed).ok()?;
        let carries = |index: usize| {
            let counted = &nest.loops[index];
            counted.tested_last || counted.carried.iter().any(|carried| index == 0 || needed.has(carried.parameter))
        };
        if (0..nest.loops.len()).any(carries) {
            return None;
        }
        let mut stores = nest.accesses.iter().filter_map(|access| Some((access.view, access.stored?)));
        let (Some((output, stored)), None) = (stores.next(), stores.next()) else { return None };
        let body = Body::of(function, nest);
        let (product, [left, right]) = body.product(stored, output)?;
        let element = nest.views[output].element;
        if element != if product == Product::MulAddI32 { Element::i32 } else { Element::f32 } {
            return None;
        }
        let (left, right) = (body.factor(left)?, body.factor(right)?);
        let contraction = Contraction { product, output, left, right, loops: nest.path(innermost) };
        contraction.reuses(nest).then_some(contraction)
    }

    /// Whether it loads or stores elements of a view.
    #[must_use]
    pub fn accesses(&self, view: usize) -> bool {
        [self.output, self.left.view, self.right.view].contains(&view)
    }

    /// Whether there are rows or columns: loops that move the output and not both factors. Where elements of the output are adjacent,
    /// vectors need one factor to stay, too.
    fn reuses(&self, nest: &Nest) -> bool {
        let moves = |view: usize, at: usize| nest.views[view].index.moves_along(at);
        let mut selecting = self.loops.iter().filter(|at| moves(self.output, **at));
        let sums = selecting.clone().count() < self.loops.len();
        let stays = |at: usize| !moves(self.left.view, at) || !moves(self.right.view, at);
        let is_adjacent = |at: usize| nest.views[self.output].index.constant_stride(at) == Some(1);
        sums && selecting.clone().any(|at| stays(*at)) && selecting.all(|at| !is_adjacent(*at) || stays(*at))
    }
}

/// The instructions of a nest by what they define.
struct Body<'a> {
    function: &'a Function,
    nest: &'a Nest,
    defined: BTreeMap<Value, (Block, usize)>,
}

impl<'a> Body<'a> {
    fn of(function: &'a Function, nest: &'a Nest) -> Body<'a> {
        let places = nest.instructions().flat_map(|place| {
            let results = &nest.instruction(function, place.0, place.1).results;
            results.iter().map(move |result| (*result, place))
        });
        Body { function, nest, defined: places.collect() }
    }

    fn op(&self, value: Value) -> Option<&'a Op> {
        let (block, position) = *self.defined.get(&value)?;
        Some(&self.nest.instruction(self.function, block, position).op)
    }

    fn eval(&self, value: Value) -> Option<(Opcode, &'a [Value])> {
        match self.op(value)? {
            Op::Eval { opcode, operands } => Some((*opcode, operands)),
            _ => None,
        }
    }

    /// The view that a value is loaded from.
    fn loaded(&self, value: Value) -> Option<usize> {
        let (block, position) = *self.defined.get(&value)?;
        self.nest.access(block, position).filter(|access| access.stored.is_none()).map(|access| access.view)
    }

    /// The product that a stored value adds to the element of the output, and its factors.
    fn product(&self, stored: Value, output: usize) -> Option<(Product, [Value; 2])> {
        let is_element = |value: Value| self.loaded(value) == Some(output);
        let (opcode, operands) = self.eval(stored)?;
        let (product, multiply) = match opcode {
            Opcode::FmaF32 | Opcode::FmaI32 => {
                let product = if opcode == Opcode::FmaF32 { Product::FmaF32 } else { Product::MulAddI32 };
                let [left, right, element] = *operands else { return None };
                return is_element(element).then_some((product, [left, right]));
            }
            Opcode::AddF32 => (Product::MulAddF32, Opcode::MulF32),
            Opcode::AddI32 => (Product::MulAddI32, Opcode::MulI32),
            _ => return None,
        };
        let [first, second] = *operands else { return None };
        let other = if is_element(first) { second } else { Some(first).filter(|_| is_element(second))? };
        match self.eval(other)? {
            (opcode, &[left, right]) if opcode == multiply => Some((product, [left, right])),
            _ => None,
        }
    }

    /// The one load that a factor is computed from, and how.
    fn factor(&self, value: Value) -> Option<Factor> {
        let mut factor = Factor { view: 0, loaded: value, value, instructions: Vec::new() };
        let (mut pending, mut found) = (alloc::vec![value], None);
        while let Some(next) = pending.pop() {
            let Some(place) = self.defined.get(&next) else {
                // A parameter of a loop counts; everything else is loop-invariant.
                let counts = |parameter: Value| {
                    let mut inductions = self.nest.loops.iter().flat_map(|counted| &counted.inductions);
                    inductions.any(|induction| induction.parameter == parameter)
                };
                if counts(next) {
                    return None;
                }
                continue;
            };
            if let Some(view) = self.loaded(next) {
                if found.is_some_and(|(_, other)| other != next) {
                    return None;
                }
                found = Some((view, next));
                continue;
            }
            match self.op(next)? {
                Op::Eval { opcode, operands } if !opcode.info().effects.fails => {
                    pending.extend(operands.iter().copied())
                }
                Op::Bitcast { operand } => pending.push(*operand),
                _ => return None,
            }
            if !factor.instructions.contains(place) {
                factor.instructions.push(*place);
            }
        }
        (factor.view, factor.loaded) = found?;
        // In the order in which they stand.
        let order: Vec<(Block, usize)> = self.nest.instructions().collect();
        factor.instructions.sort_by_key(|place| order.iter().position(|other| other == place));
        Some(factor)
    }
}
