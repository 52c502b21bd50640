//! Contractions: sums of products, such as matrix products and convolutions.

use alloc::vec::Vec;

use super::perfect::{Order, Perfect};
use super::{Element, Needed, Nest};
use crate::index_map::IndexMap;
use crate::ir::function::Function;
use crate::ir::op::Op;
use crate::ir::value::{Block, Value};
use crate::isa::Opcode;

/// A nest of which each iteration adds a product to an element in memory. At least one loop sums, and along at least one the element
/// moves and a factor stays: numbers are then used several times, or are the rows of [`Product::AddF32`].
///
/// The loops may run in any order that keeps that of each element's own operations, provided that iterations which differ in a
/// loop that moves the output have different elements of it, and that the output overlaps neither operand. That is checked before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// What an iteration does to the element.
    pub operation: Product,
    /// The view of the output.
    pub output: usize,
    /// The first operand; None for [`Product::AddF32`], where all its elements are the number 1. Its stride is zero, and that of the
    /// second operand where the order is any, so that both are adjacent along the loop of partial sums.
    pub left: Option<Factor>,
    /// The second operand.
    pub right: Factor,
    /// The loops, the outermost first.
    pub loops: Vec<usize>,
    /// The order in which the products of an element may be added.
    pub order: Order,
}

/// What an iteration of a contraction does to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// `left * right + element`, rounded once.
    FmaF32,
    /// `element + left * right`, both rounded.
    MulAddF32,
    /// `element + left * right`, modulo 2^32.
    MulAddI32,
    /// `element + right`: what `MulAddF32` of the number 1 is, too, whose product is exact.
    AddF32,
}

/// A number that a contraction multiplies: an element, or what instructions compute from it and from loop-invariant values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The view that is loaded.
    pub view: usize,
    /// The loaded number.
    pub loaded: Value,
    /// The number that is multiplied.
    pub value: Value,
    /// The instructions that compute it, in order. None of them can fail.
    pub instructions: Vec<(Block, usize)>,
}

impl Factor {
    /// The most values, with constants, that the factors of sums in any order are computed with: every back end computes so many.
    pub const MOST_VALUES: usize = 8;

    /// The number of values that the factor is computed with.
    fn values(&self, function: &Function, nest: &Nest) -> usize {
        let mut values = alloc::vec![self.loaded];
        for (block, position) in &self.instructions {
            let inst = nest.instruction(function, *block, *position);
            values.extend(&inst.results);
            inst.op.visit(|operand| values.push(operand.value()));
        }
        values.sort_unstable();
        values.dedup();
        values.len()
    }

    /// Whether the numbers are the elements as they are in memory.
    #[must_use]
    pub fn is_memory(&self, nest: &Nest) -> bool {
        self.value == self.loaded && matches!(nest.views[self.view].element, Element::f32 | Element::i32)
    }

    /// The integers of 8 or 16 bits that the numbers are, extended to 32 bits; `None` for others, and for 16 bits without a sign.
    #[must_use]
    pub fn narrow(&self, function: &Function, nest: &Nest) -> Option<Element> {
        let extension = match &self.instructions[..] {
            [] if self.value == self.loaded => None,
            [(block, position)] => match &nest.instruction(function, *block, *position).op {
                Op::Eval { opcode, operands } if operands[..] == [self.loaded] => Some(*opcode),
                _ => return None,
            },
            _ => return None,
        };
        let element = nest.views[self.view].element;
        Some(match (element, extension) {
            (Element::i8 | Element::u8 | Element::i16, None) => element,
            (Element::i8 | Element::u8, Some(Opcode::ExtI8I32S)) => Element::i8,
            (Element::i8 | Element::u8, Some(Opcode::ExtI8I32U)) => Element::u8,
            (Element::i16 | Element::u16, Some(Opcode::ExtI16I32S)) => Element::i16,
            _ => return None,
        })
    }
}

/// The needed instructions of an iteration, by result.
pub(super) struct Iteration<'n> {
    pub(super) function: &'n Function,
    pub(super) nest: &'n Nest,
    pub(super) results: IndexMap<Value, (Block, usize)>,
}

/// The fewest iterations of a loop, if their number is known, along which sums of rows are worth a transposition.
const LEAST_SUMS: u64 = 4;

impl Contraction {
    /// Returns the contraction that a perfect nest is; None for others.
    pub(super) fn of(
        function: &Function,
        nest: &Nest,
        needed: &Needed,
        (perfect, order): (&Perfect, Order),
    ) -> Option<Contraction> {
        let mut stores = nest.accesses.iter().filter_map(|access| Some((access.view, access.stored?)));
        let (output, stored) = stores.next().filter(|_| stores.next().is_none())?;
        let index = &nest.views[output].index;
        if perfect.computes_around || perfect.path.iter().all(|at| index.moves_along(*at)) {
            return None;
        }
        let iteration = Iteration::of(function, nest, needed);
        let (operation, left, right) = iteration.product(output, stored)?;
        let left = left.map_or(Some(None), |left| iteration.factor(output, left).map(Some))?;
        let right = iteration.factor(output, right)?;
        let number = if operation == Product::MulAddI32 { Element::i32 } else { Element::f32 };
        let is_small = |factor: &Factor| factor.values(function, nest) <= Factor::MOST_VALUES;
        let is_sum = left.is_none();
        let any_order = left.as_ref().is_none_or(is_small) && is_small(&right);
        let loops = perfect.path.clone();
        let mut contraction = Contraction { operation, output, left, right, loops, order };
        let is_one = contraction.sums_to_one_element(nest);
        if !any_order || is_sum && !is_one {
            contraction.order = Order::Bytecode;
        }
        let is_useful = match (is_one, is_sum) {
            (true, _) => contraction.order == Order::Any,
            (false, true) => contraction.sums_rows(nest),
            (false, false) => contraction.reuses(nest),
        };
        (nest.views[output].element == number && is_useful).then_some(contraction)
    }

    /// Whether numbers are added that are adjacent along a loop which sums, and not along one that moves the output: their vectors are
    /// made by transposition, as those of a matrix by columns times a vector.
    fn sums_rows(&self, nest: &Nest) -> bool {
        let is_adjacent = |at: usize| nest.views[self.right.view].index.constant_stride(at) == Some(1);
        let has_several = |at: usize| nest.loops[at].constant_trip_count().is_none_or(|count| count >= LEAST_SUMS);
        let (moving, summing): (Vec<usize>, Vec<usize>) =
            self.loops.iter().partition(|at| nest.views[self.output].index.moves_along(**at));
        self.right.is_memory(nest)
            && summing.iter().any(|at| is_adjacent(*at) && has_several(*at))
            && moving.iter().any(|at| has_several(*at))
            && !moving.iter().any(|at| is_adjacent(*at))
    }

    /// Whether everything is added to one element, along a loop in which all factors are adjacent: a dot product, or the sum of a row.
    fn sums_to_one_element(&self, nest: &Nest) -> bool {
        let moves = |at: &usize| nest.views[self.output].index.moves_along(*at);
        let is_adjacent = |factor: &Factor, at: &usize| nest.views[factor.view].index.constant_stride(*at) == Some(1);
        let are_adjacent = |at: &usize| self.left.iter().chain([&self.right]).all(|factor| is_adjacent(factor, at));
        !self.loops.iter().any(moves) && self.loops.iter().any(are_adjacent)
    }

    /// Whether there are rows or columns: loops that move the output and not both factors. Where elements of the output are adjacent,
    /// vectors need one factor to stay, too.
    fn reuses(&self, nest: &Nest) -> bool {
        let moves = |view: usize, at: usize| nest.views[view].index.moves_along(at);
        let mut selecting = self.loops.iter().filter(|at| moves(self.output, **at));
        let is_moved_left = |at: usize| self.left.as_ref().is_some_and(|left| moves(left.view, at));
        let stays = |at: usize| !is_moved_left(at) || !moves(self.right.view, at);
        let is_adjacent = |at: usize| nest.views[self.output].index.constant_stride(at) == Some(1);
        selecting.clone().any(|at| stays(*at)) && selecting.all(|at| !is_adjacent(*at) || stays(*at))
    }
}

impl<'n> Iteration<'n> {
    pub(super) fn of(function: &'n Function, nest: &'n Nest, needed: &Needed) -> Iteration<'n> {
        let mut results = IndexMap::default();
        for (block, position) in nest.instructions() {
            if needed.includes(function, nest, block, position)
                && let [result] = nest.instruction(function, block, position).results[..]
            {
                results.insert(result, (block, position));
            }
        }
        Iteration { function, nest, results }
    }

    /// The operation and operands of the instruction that computes a value; None for loads, and for what is loop-invariant.
    pub(super) fn evaluation(&self, value: Value) -> Option<(Opcode, &'n [Value])> {
        let (block, position) = self.results.get(value)?;
        match &self.nest.instruction(self.function, *block, *position).op {
            Op::Eval { opcode, operands } if self.nest.access(*block, *position).is_none() => Some((*opcode, operands)),
            _ => None,
        }
    }

    /// The view that a value is loaded from.
    pub(super) fn view(&self, value: Value) -> Option<usize> {
        let (block, position) = self.results.get(value)?;
        self.nest.access(*block, *position).map(|access| access.view)
    }

    /// The operation by which a stored value comes from the output's element, and the operands of the product, or a number.
    fn product(&self, output: usize, stored: Value) -> Option<(Product, Option<Value>, Value)> {
        let is_element = |value: &Value| self.view(*value) == Some(output);
        match self.evaluation(stored)? {
            (Opcode::FmaF32, [left, right, sum]) if is_element(sum) => Some((Product::FmaF32, Some(*left), *right)),
            (Opcode::FmaI32, [left, right, sum]) if is_element(sum) => Some((Product::MulAddI32, Some(*left), *right)),
            (opcode @ (Opcode::AddF32 | Opcode::AddI32), [first, second]) => {
                let product = if is_element(first) { *second } else { Some(*first).filter(|_| is_element(second))? };
                match (opcode, self.evaluation(product)) {
                    (Opcode::AddF32, Some((Opcode::MulF32, [left, right]))) => {
                        Some((Product::MulAddF32, Some(*left), *right))
                    }
                    (Opcode::AddI32, Some((Opcode::MulI32, [left, right]))) => {
                        Some((Product::MulAddI32, Some(*left), *right))
                    }
                    (Opcode::AddF32, None) => Some((Product::AddF32, None, product)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The factor that a value is: it depends on one load, and on nothing else that iterations change.
    fn factor(&self, output: usize, value: Value) -> Option<Factor> {
        let mut loaded = None;
        let mut instructions = Vec::new();
        let mut pending = alloc::vec![value];
        while let Some(value) = pending.pop() {
            if let Some(view) = self.view(value) {
                if view == output || loaded.is_some_and(|(_, other)| other != value) {
                    return None;
                }
                loaded = Some((view, value));
            } else if let Some((opcode, operands)) = self.evaluation(value) {
                if opcode.info().effects.fails {
                    return None;
                }
                let position = self.results[value];
                if !instructions.contains(&position) {
                    instructions.push(position);
                    pending.extend(operands);
                }
            } else if !self.is_invariant(value) {
                return None;
            }
        }
        let (view, loaded) = loaded?;
        let order: Vec<(Block, usize)> = self.nest.instructions().collect();
        instructions.sort_by_key(|position| order.iter().position(|other| other == position));
        Some(Factor { view, loaded, value, instructions })
    }

    /// Whether a value is the same in all iterations.
    fn is_invariant(&self, value: Value) -> bool {
        let is_parameter = self.nest.loops.iter().any(|counted| {
            counted.inductions.iter().any(|induction| induction.parameter == value)
                || counted.carried.iter().any(|carried| carried.parameter == value)
        });
        !is_parameter && !self.results.contains(value)
    }
}
